// What the page says of methods that are told the truth, and of data whose truth nobody knows.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const marks = (page) =>
  page.locator(".legend path").evaluateAll((paths) =>
    paths.map((path) => [path.style.stroke, path.getAttribute("stroke-dasharray")].join(" ")),
  );

test("plain dashes are for the truth alone, also with more methods than colours", async () => {
  const methods = ["oracle", ...Array.from({ length: 9 }, (_, i) => `method ${i}`)];
  const { page } = await open(browser, sample({ methods, columns: ["IID"] }));
  const found = await marks(page);
  assert.match(found[0], /hue-0\) 8 4$/);
  assert.equal(found.filter((mark) => mark.endsWith(" 8 4")).length, 1);
  assert.match(found[8], /hue-0\) 2 3$/); // the ninth has the first one's colour
  assert.equal(new Set(found).size, methods.length);
  assert.ok(await page.getByText("only tell methods of one colour apart").isVisible());
  await page.context().close();
});

test("a run says by itself, before its summary, that its method is told the truth", async () => {
  const report = sample({ methods: ["fedavg", "oracle"], columns: ["IID"] });
  for (const run of report.runs) {
    delete run.summary;
    run.status = "started";
    run.uses_ground_truth = run.row === "oracle";
  }
  const old = sample({ methods: ["fedavg", "oracle"], columns: ["IID"] });
  old.runs.forEach((run) => (run.uses_ground_truth = false)); // nothing in its log: the summary counts
  for (const data of [report, old]) {
    const { page } = await open(browser, data);
    assert.deepEqual((await marks(page)).map((mark) => mark.endsWith(" 8 4")), [false, true]);
    await page.context().close();
  }
});

// As the program leaves it: nothing that needs the truth.
function unknown() {
  const report = sample({ methods: ["fedcorr"], columns: ["IID"], seeds: [1] });
  report.partitions[0].clients.forEach((client) => Object.assign(client, { wrong_share: 0, noisy: false }));
  const [run] = report.runs;
  delete run.summary.detection;
  delete run.findings.confusion;
  delete run.findings.scores.lid.roc_area;
  Object.values(run.findings.noise_levels).forEach((level) => delete level.real);
  run.summary.truth_unknown = true;
  return report;
}

const startAgain = (report) => {
  delete report.runs[0].summary;
  report.runs[0].status = "started";
  return report;
};

test("where the truth is not known flags are neither right nor wrong", async () => {
  const said = startAgain(unknown()); // before its first findings
  said.runs[0].findings = { flagged: [0, 1, 2] };
  said.partitions[0].truth_unknown = true;
  for (const report of [unknown(), startAgain(unknown()), said]) {
    const { page, complaints } = await open(browser, report);
    assert.deepEqual(await page.locator(".verdict h4").allTextContents(), ["Flagged"]);
    assert.equal(await page.locator(".verdict .count").textContent(), "3");
    await page.getByText("All clients as a table").click();
    await page.locator("details tbody tr").nth(11).waitFor();
    const text = await page.locator("main").innerText();
    assert.doesNotMatch(text, /wrongly|rightly|truly clean|clients are noisy|% right/i);
    assert.match(await section(page, "confusion").innerText(), /true labels of these data are not known/);
    assert.deepEqual(complaints, []);
    await page.context().close();
  }
});

test("with too many classes to compare, the truth is still known", async () => {
  const report = sample({ methods: ["fedcorr"], columns: ["IID"], seeds: [1], classes: 1001 });
  delete report.runs[0].findings.confusion; // as the program leaves it
  for (const data of [report, startAgain(structuredClone(report))]) {
    const { page, complaints } = await open(browser, data);
    assert.match(await section(page, "confusion").innerText(), /Not recorded: there are more than 1,000 classes/);
    assert.match(await section(page, "partition").innerText(), /6 of the clients are noisy/);
    assert.match(await section(page, "scores").innerText(), /truly clean/);
    const verdicts = await page.locator(".verdict h4").allTextContents();
    assert.deepEqual(verdicts, ["Rightly flagged", "Wrongly flagged", "Missed", "Rightly left alone"]);
    assert.doesNotMatch(await page.locator("main").innerText(), /not known/);
    assert.deepEqual(complaints, []);
    await page.context().close();
  }
});
