// Values the page did not expect.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test("values that are not there are left out", async () => {
  const report = sample({ methods: ["fedcorr"], columns: ["IID"], seeds: [1] });
  const [run] = report.runs;
  run.summary.detection.flag_precision = null;
  run.findings.noise_levels[0].estimated = null;
  run.findings.scores.lid.roc_area = null;
  run.findings.scores.lid.correlation_with_noise = null;
  run.findings.scores.lid.by_client[3] = null;
  const { page, complaints } = await open(browser, report);
  const dots = await section(page, "clients").locator("svg .estimated").getAttribute("d");
  assert.equal(dots.match(/M/g).length, 11);
  await page.getByText("All clients as a table").click();
  const row = section(page, "clients").locator("details tbody tr").first();
  assert.equal(await row.locator("td").nth(3).textContent(), "–");
  assert.equal(await section(page, "scores").locator("figure .note").first().textContent(), "11 clients");
  assert.equal(await page.getByText("cannot be drawn").count(), 0);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("a section that fails says so and the others are drawn", async () => {
  const report = sample({ columns: ["IID"] });
  report.runs.filter((run) => run.row === "fedcorr").forEach((run) => (run.findings.confusion.before = 5));
  const { page } = await open(browser, report);
  const failure = page.getByText("This section cannot be drawn: ");
  assert.equal(await failure.count(), 1);
  assert.ok(await section(page, "confusion").getByText("This section cannot be drawn: ").isVisible());
  assert.ok(await section(page, "partition").locator("svg").isVisible());
  assert.ok(await page.getByRole("region", { name: "Runs", exact: true }).isVisible());
  await page.getByRole("combobox", { name: "Method" }).selectOption("fedavg");
  assert.equal(await failure.count(), 0);
  assert.ok(await section(page, "confusion").locator("svg").isVisible());
  await page.context().close();
});

test("a method may call its scores anything", async () => {
  const report = sample({ methods: ["fedcorr"], columns: ["IID"] });
  for (const { findings } of report.runs) {
    findings.scores = { 'a") b': findings.scores.lid, "100 %": findings.scores.lid };
  }
  const { page, complaints } = await open(browser, report);
  const clips = await page.locator("path.mixture").evaluateAll((paths) =>
    paths.map((path) => document.querySelector(path.getAttribute("clip-path").slice(4, -1)) !== null),
  );
  assert.deepEqual(clips, [true, true, true, true]);
  assert.equal(new Set(await page.locator("clipPath").evaluateAll((all) => all.map(({ id }) => id))).size, 2);
  assert.deepEqual(complaints, []);
  await page.context().close();
});
