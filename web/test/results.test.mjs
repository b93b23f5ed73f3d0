// What the table of results counts, and what it calls the best.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// The cells of the table of results by its titles, one entry per method.
async function results(page) {
  const place = page.getByRole("region", { name: "Results by method" });
  const titles = await place.locator("thead th").allTextContents();
  const rows = {};
  for (const line of await place.locator("tbody tr").all()) {
    const cells = await line.locator("th, td").allTextContents();
    rows[cells[0]] = {
      ...Object.fromEntries(titles.map((title, i) => [title, cells[i]])),
      bold: await line.locator("strong").count(),
    };
  }
  return rows;
}

// Three seeds of two methods; fedcorr is the better by far and its last run is under way.
function underWay() {
  const report = sample({ methods: ["fedavg", "fedcorr", "fedprox"], columns: ["IID"], seeds: [1, 2, 3] });
  const levels = { fedavg: 0.5, fedcorr: 0.9, fedprox: 0.4 };
  for (const run of report.runs) {
    run.history.accuracy = run.history.accuracy.map(() => levels[run.row]);
    run.history.participations = run.history.round.map((round) => 10 * round);
  }
  const late = report.runs.find((run) => run.row === "fedcorr" && run.seed === 3);
  for (const key of Object.keys(late.history)) {
    late.history[key] = late.history[key].slice(0, 5);
  }
  late.history.accuracy = late.history.accuracy.map(() => 0.1);
  late.status = "started";
  delete late.summary;
  return report;
}

test("a run that is not finished is in no mean, and its method is not the best", async () => {
  const { page, complaints } = await open(browser, underWay());
  const rows = await results(page);
  assert.equal(rows.fedcorr.Last, "90.00 ± 0.00");
  assert.equal(rows.fedcorr.Best, "90.00 ± 0.00");
  assert.equal(rows.fedcorr["Runs done"], "2 of 3");
  assert.equal(rows.fedcorr.bold, 0);
  assert.equal(rows.fedavg.bold, 3);
  assert.equal(rows.fedprox.bold, 0);
  const card = section(page, "cost").locator(".card", { hasText: "fedcorr" });
  assert.ok(await card.getByText("2 of 3 runs done").isVisible());
  assert.equal(await card.locator("dd").first().textContent(), "200");
  assert.match(await page.locator(".facts").textContent(), /3 seeds · 9 runs, 1 not finished$/);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("one method alone is not the best of anything", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg", "oracle"], columns: ["IID"] }));
  const rows = await results(page);
  assert.equal(rows.fedavg.bold + rows["oracle (uses ground truth)"].bold, 0);
  await page.context().close();
});

test("a run that has not begun is of the method of its row", async () => {
  const report = sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"] });
  report.runs.forEach((run) => (run.row = run.row.toUpperCase()));
  const { id, row, column, seed } = report.runs[1];
  report.runs[1] = { id, row, column, seed, status: "waiting" };
  const { page } = await open(browser, report);
  assert.match(await page.locator(".facts").textContent(), /· 2 methods · 2 seeds · 4 runs, 1 not finished$/);
  await page.context().close();
});

test("variants are not counted as methods", async () => {
  const report = sample({ methods: ["fedavg, rounds = 20", "fedavg, rounds = 40"], columns: ["IID"], seeds: [1] });
  report.runs.forEach((run) => (run.experiment.method.name = "fedavg"));
  const { page } = await open(browser, report);
  assert.match(await page.locator(".facts").textContent(), /· 1 method · 2 variants · 1 seed · 2 runs$/);
  assert.ok(await page.getByText("One run for each line: there is no spread to show.").isVisible());
  await page.context().close();
});

test("what has no value is a dash: last10 without its rounds, the recall of no noisy clients", async () => {
  const report = sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"] });
  for (const run of report.runs) {
    run.history.accuracy[15] = null;
    if (run.summary.detection) {
      run.summary.detection.flag_recall = null;
    }
  }
  const { page, complaints } = await open(browser, report);
  const rows = await results(page);
  assert.equal(rows.fedcorr["Last ten rounds"], "–");
  assert.equal(rows.fedcorr["Flag recall"], "–");
  assert.equal(rows.fedcorr["Flag precision"], "100.00 ± 0.00");
  assert.equal(rows.fedcorr["Flag accuracy"], "85.00 ± 0.00");
  assert.match(rows.fedcorr.Last, /±/);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("runs of an older version have other names for what became of flags", async () => {
  const report = sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"] });
  for (const { summary } of report.runs) {
    if (summary.detection) {
      summary.detection = { flagged: 3, precision: 0.25, recall: null, accuracy: 0.5 };
    }
  }
  const { page } = await open(browser, report);
  const { fedcorr } = await results(page);
  assert.equal(fedcorr["Flag precision"], "25.00 ± 0.00");
  assert.equal(fedcorr["Flag recall"], "–");
  assert.equal(fedcorr["Flag accuracy"], "50.00 ± 0.00");
  await page.context().close();
});

test("every accuracy is a percentage with two decimals, and one thing has one name", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"], seeds: [1] }));
  const { fedavg } = await results(page);
  const runs = page.getByRole("region", { name: "Runs", exact: true });
  const cells = await runs.locator("tbody tr").first().locator("td").allTextContents();
  assert.match(fedavg.Last, /^\d\d\.\d\d$/);
  assert.equal(cells[5], fedavg.Best);
  assert.equal(cells[6], fedavg.Last);
  await page.locator("figure", { hasText: "Test accuracy against rounds" }).locator(".chart").focus();
  await page.keyboard.press("End");
  const readout = page.locator("figure", { hasText: "Test accuracy against rounds" }).locator(".readout");
  assert.ok((await readout.textContent()).includes(fedavg.Last), await readout.textContent());
  const text = await page.locator("main").innerText();
  assert.doesNotMatch(text, /last10|seconds|detection/i);
  assert.match(text, /Wall time/);
  await page.context().close();
});

test("a method that is told the truth says so where it stands, and the page what that means", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg", "oracle"], columns: ["IID"] }));
  assert.deepEqual(Object.keys(await results(page)), ["fedavg", "oracle (uses ground truth)"]);
  const note = await section(page, "results").innerText();
  assert.match(note, /\(uses ground truth\): the method is told the truth about the noise\. It is a reference/);
  assert.match(note, /A method that repairs labels keeps more data and can do better\./);
  assert.ok(await section(page, "cost").getByText("oracle (uses ground truth)").isVisible());
  await page.context().close();
  const { page: plain } = await open(browser, sample({ methods: ["fedavg"], columns: ["IID"] }));
  assert.doesNotMatch(await plain.locator("main").innerText(), /uses ground truth/);
  await plain.context().close();
});
