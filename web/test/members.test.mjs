// The members of a federation that is or was served.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { launch, open, render, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const member = (client, status, rest = {}) => ({
  name: `client-${client}`,
  client,
  status,
  last_seen: "2026-11-18T06:20:00.123Z",
  expires: "2999-01-02T03:04:05.000Z",
  samples: 1234,
  rounds: 7,
  absences: 0,
  refusals: 0,
  version: "0.2.0",
  ...rest,
});

function served(members) {
  const report = sample({ methods: ["fedavg"], columns: ["IID"], seeds: [1] });
  report.runs[0].members = { round: 7, members };
  return report;
}

const rows = (page) =>
  section(page, "members")
    .locator("tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
const sentence = (page) => section(page, "members").locator("p").first().textContent();

test("a run that was simulated has no members", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg"] }));
  assert.equal(await section(page, "members").isVisible(), false);
  await page.context().close();
});

test("every member has its status, its absences and refusals, and what its certificate has left", async () => {
  const inDays = (days) => new Date(Date.now() + days * 86_400_000 + 3_600_000).toISOString();
  const soon = inDays(12);
  const today = inDays(0);
  const { page, complaints } = await open(
    browser,
    served([
      member(0, "working", { absences: 2, refusals: 1500 }),
      member(1, "away", { expires: soon, name: "<b>clinic</b>" }),
      member(2, "left", { expires: "2020-05-06T07:08:09.000Z" }),
      member(3, "enrolled", { last_seen: null, expires: null, samples: 0, rounds: 0, version: undefined }),
      member(4, "done", { expires: today }),
    ]),
  );
  assert.deepEqual(await rows(page), [
    ["client-0", "0", "working", "2026-11-18 06:20", "7", "2", "1,500", "2999-01-02", "1,234", "0.2.0"],
    ["<b>clinic</b>", "1", "away", "2026-11-18 06:20", "7", "0", "0", `${soon.slice(0, 10)} (in 12 days)`, "1,234", "0.2.0"],
    ["client-2", "2", "left", "2026-11-18 06:20", "7", "0", "0", "2020-05-06 (expired)", "1,234", "0.2.0"],
    ["client-3", "3", "not there yet", "–", "0", "0", "0", "–", "0", "–"],
    [
      "client-4", "4", "told the result", "2026-11-18 06:20", "7", "0", "0",
      `${today.slice(0, 10)} (today or tomorrow)`, "1,234", "0.2.0",
    ],
  ]);
  assert.equal(
    await sentence(page),
    "5 members: 1 working, 1 away, 1 left, 1 not there yet, 1 told the result." +
      " 3 certificates expired or expiring within 30 days.",
  );
  await page.getByText("Contents", { exact: true }).click();
  assert.equal(await page.getByRole("link", { name: "Members of the federation" }).count(), 1);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("members come and go on a served page without anything else being drawn anew", async () => {
  const report = served([member(0, "present"), member(1, "present")]);
  let current = { stamp: "1", report };
  const server = createServer((request, response) => {
    if (request.url === "/") {
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.end(render({ ...report, live: "1" }));
      return;
    }
    const known = request.headers["if-none-match"] === `"${current.stamp}"`;
    response.writeHead(known ? 304 : 200, { ETag: `"${current.stamp}"` });
    response.end(known ? "" : JSON.stringify(current.report));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.getByText("2 members: 2 present.").waitFor();
  const noise = section(page, "clients").locator(".picture");
  await noise.evaluate((picture) => (picture.marked = true));
  current = { stamp: "2", report: served([member(0, "present"), member(1, "left")]) };
  await page.getByText("2 members: 1 present, 1 left.").waitFor({ timeout: 10_000 });
  assert.ok(await noise.evaluate((picture) => picture.marked));
  server.close();
  server.closeAllConnections();
  await page.close();
});

test("the table of members scrolls inside its frame on a phone, and says where it ends", async () => {
  const many = Array.from({ length: 6000 }, (_, client) => member(client, "present"));
  const { page } = await open(browser, served(many), { viewport: { width: 390, height: 800 } });
  assert.equal(await sentence(page), "6,000 members: 6,000 present.");
  assert.equal((await rows(page)).length, 5000);
  assert.ok(await page.getByText("The first 5000 of 6000 rows; the files of the run have all.").isVisible());
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.context().close();
});
