// The section of a sweep that is an arena.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const cell = (mean, difference, rank) => ({ runs: 1, mean, difference, rank });

// The numbers of docs/arena.md.
const arena = () => ({
  metric: "last10",
  reference: "fedavg",
  settings: ["clean", "noisy", "attack"],
  methods: [
    {
      name: "fedcorr",
      uses_ground_truth: false,
      rank: 1.5,
      wins: 2,
      settings: 2,
      runs: 2,
      worst: { points: 0, setting: "noisy" },
      bytes: 1e6,
      seconds: 2.5,
      reveals: [{ field: "lid", tells: "its LID" }],
      cells: [cell(82, 2, 1.5), cell(60, 0, 1.5), null],
    },
    {
      name: "fedavg",
      uses_ground_truth: false,
      rank: 2.166667,
      wins: 1,
      settings: 3,
      runs: 3,
      worst: null,
      bytes: null,
      seconds: null,
      reveals: [],
      cells: [cell(80, 0, 3), cell(60, 0, 1.5), cell(70, 0, 2)],
    },
    {
      name: "oracle",
      uses_ground_truth: true,
      rank: null,
      wins: 0,
      settings: 3,
      runs: 3,
      worst: { points: -1.25, setting: "attack" },
      bytes: 1e6,
      seconds: 2.5,
      reveals: null,
      cells: [cell(90, 10, null), cell(90, 30, null), cell(68.75, -1.25, null)],
    },
  ],
  not_begun: ["krum"],
  cells: 12,
  missing: 4,
});

test("an ordinary page has no arena", async () => {
  const { page, complaints } = await open(browser, sample());
  assert.equal(await section(page, "arena").isVisible(), false);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the ranks are a table, with dashes for what is missing", async () => {
  const { page, complaints } = await open(browser, { ...sample(), arena: arena() });
  const place = page.getByRole("region", { name: "Ranks by method" });
  const rows = [];
  for (const line of await place.locator("tbody tr").all()) {
    rows.push(await line.locator("th, td").allTextContents());
  }
  assert.deepEqual(rows, [
    ["fedcorr", "1.50", "2", "+0.00", "noisy", "2", "2", "1.0 MB", "2.5 s", "lid"],
    ["fedavg", "2.17", "1", "–", "–", "3", "3", "–", "–", "nothing more"],
    ["oracle (uses ground truth)", "–", "–", "−1.25", "attack", "3", "3", "1.0 MB", "2.5 s", "–"],
  ]);
  assert.match(await section(page, "arena").innerText(), /4 of 12 cells are missing/);
  assert.match(await section(page, "arena").innerText(), /Without any result yet: krum\./);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the picture has every difference with its sign", async () => {
  const { page } = await open(browser, { ...sample(), arena: arena() });
  const drawing = section(page, "arena").locator("figure svg");
  assert.deepEqual(await drawing.locator("text.cell").allTextContents(), [
    "+2.0", "+0.0", "–",
    "+0.0", "+0.0", "+0.0",
    "+10.0", "+30.0", "−1.3",
  ]);
  assert.equal(await drawing.getAttribute("aria-label"), "Points above or below fedavg of 3 methods in 3 settings.");
  // Above and below have different hues; nothing is drawn where there is no difference.
  assert.equal(await drawing.locator("path").count(), 4);
  await page.context().close();
});
