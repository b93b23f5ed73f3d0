// The pictures of the papers: there where a run has the data, and only there.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after, before, test } from "node:test";

import { addPictures, sample } from "./sample.mjs";
import { chart, launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const kSections = ["series", "density", "likeness", "images", "stages"];

const full = () => {
  const report = sample({ columns: ["IID"], seeds: [1], classes: 10, clients: 20 });
  addPictures(report);
  return report;
};

test("a run without the data has none of the pictures", async () => {
  const { page, complaints } = await open(browser, sample());
  for (const name of kSections) {
    assert.equal(await section(page, name).isVisible(), false, name);
  }
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("a run with the data has all of them, another of the same page none", async () => {
  const { page, complaints } = await open(browser, full());
  for (const name of kSections) {
    assert.ok(await section(page, name).isVisible(), name);
  }
  assert.equal(await page.getByText("cannot be drawn").count(), 0);
  await page.getByRole("combobox", { name: "Method" }).selectOption("fedavg");
  for (const name of kSections) {
    assert.equal(await section(page, name).isVisible(), false, name);
  }
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("a score that was taken five times has five small pictures", async () => {
  const { page } = await open(browser, full());
  const series = section(page, "series");
  assert.equal(await series.locator("figure").count(), 2);
  assert.equal(await series.locator("figure").first().locator("svg").count(), 5);
  assert.equal(await series.locator("svg path.mixture").count(), 20);
  const clips = await series.locator("clipPath").evaluateAll((all) => all.map(({ id }) => id));
  assert.equal(new Set(clips).size, 10);
  assert.match(
    await series.locator("svg").nth(6).getAttribute("aria-label"),
    /^Distribution of Cumulative LID, iteration 2 over 20 clients/,
  );
  await page.context().close();
});

test("every score is drawn against the noise, a point for a client", async () => {
  const { page } = await open(browser, full());
  const figure = page.locator("figure", { hasText: "against the noise of the client" });
  const points = (look) =>
    figure.locator(`svg path.${look}`).getAttribute("d").then((d) => d.match(/M/g).length);
  assert.equal(await points("clean"), 10);
  assert.equal(await points("noisy"), 10);
  await page.context().close();
});

test("what clients found is drawn and can be read", async () => {
  const { page } = await open(browser, full());
  const stages = section(page, "stages");
  const bars = (look) =>
    stages.locator(`svg path.${look}`).first().getAttribute("d").then((d) => d.match(/M/g)?.length ?? 0);
  assert.equal(await bars("found"), 10);
  assert.equal(await bars("after"), 20);
  assert.equal(await bars("later"), 20);
  assert.match(await stages.textContent(), /Together 150 found, 50 missed, 20 suspected though right/);
  const firstRow = async (fold, table) => {
    await stages.getByText(fold).click();
    const region = stages.getByRole("region", { name: table });
    await region.waitFor();
    return region.locator("tbody tr").first().locator("th, td").allTextContents();
  };
  assert.deepEqual(
    await firstRow("Found samples as a table", "Samples by client"),
    ["0", "15", "5", "2", "18"],
  );
  assert.deepEqual(
    await firstRow("Wrong labels as a table", "Share of wrong labels"),
    ["0", "50.00", "20.00", "10.00", "40.00"],
  );
  assert.equal(await stages.locator(".triple").count(), 5);
  assert.equal(await stages.locator(".triple svg").count(), 15);
  await page.context().close();
});

test("clients that are alike stand together, in three orders", async () => {
  const { page } = await open(browser, full());
  const likeness = section(page, "likeness");
  const names = async () => {
    await likeness.locator("svg").waitFor(); // drawn once the page knows how wide it is
    return String(await likeness.locator("svg .row-name").allTextContents());
  };
  const byClass = await names();
  await likeness.getByRole("button", { name: "By noise" }).click();
  assert.ok((await names()).startsWith("1,3,5"), "the clean ones first");
  await likeness.getByRole("button", { name: "By number" }).click();
  assert.ok((await names()).startsWith("0,1,2"));
  assert.equal(byClass, await names(), "all hold the same classes");
  assert.match(await likeness.textContent(), /No colour is 0\.10/);
  await page.context().close();
});

test("of more clients than are compared the page says so", async () => {
  const report = full();
  report.runs.find(({ row }) => row === "fedcorr").findings.likeness.known = 500;
  const { page } = await open(browser, report);
  assert.match(await section(page, "likeness").textContent(), /Of 500 clients 20 are compared/);
  await page.context().close();
});

test("images say whose they are and what is true of them", async () => {
  const { page, requests } = await open(browser, full());
  const images = section(page, "images").locator("img");
  assert.equal(await images.count(), 18);
  assert.equal(await images.nth(0).getAttribute("alt"), "an image of client 0, truly clean");
  assert.equal(await images.nth(3).getAttribute("alt"), "an image of client 3, truly noisy");
  assert.ok(await images.first().evaluate((image) => image.complete && image.naturalWidth === 2));
  assert.deepEqual(requests.filter((url) => !url.startsWith("data:")), []);
  await page.context().close();
});

test("an image that is no base64 is not shown", async () => {
  const report = full();
  report.runs.find(({ row }) => row === "fedcorr").images.flagged[0].png = '"><script>alert(1)</script>';
  const { page, complaints } = await open(browser, report);
  assert.equal(await section(page, "images").locator("img").count(), 17);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("densities are drawn of clean and noisy clients", async () => {
  const { page } = await open(browser, full());
  const density = section(page, "density");
  assert.equal(await density.locator("svg path.line").count(), 2);
  assert.match(await density.textContent(), /10 clients truly clean, 120 norms, mean [67]/);
  await page.context().close();
});

test("the partition can be drawn as bars, with and without noise", async () => {
  const { page, complaints } = await open(browser, full());
  const partition = section(page, "partition");
  await partition.getByRole("button", { name: "Bars" }).click();
  assert.deepEqual(
    await partition.locator("figcaption").allTextContents(),
    ["True labels", "Given labels, with the noise"],
  );
  await partition.locator("figure svg").first().waitFor();
  assert.equal(await partition.locator("figure").first().locator("svg path").count(), 10);
  assert.equal(await partition.getByRole("button", { name: "Given labels", exact: true }).isVisible(), false);
  await partition.getByRole("button", { name: "Matrix" }).click();
  assert.ok(await partition.getByRole("button", { name: "Given labels", exact: true }).isVisible());
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the choice of samples can be drawn against participations", async () => {
  const { page } = await open(browser, full());
  const selection = section(page, "selection");
  await selection.getByRole("button", { name: "Participations" }).click();
  await chart(page, "Label precision (right labels").focus();
  await page.keyboard.press("End");
  assert.match(
    await page.locator("figure", { hasText: "Label precision (right labels" }).locator("[aria-live]").textContent(),
    /^100 participations, fedcorr/,
  );
  await page.context().close();
});

for (const [name, options] of Object.entries({
  light: {},
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 }, hasTouch: true },
})) {
  test(`no picture is wider than the page: ${name}`, async () => {
    const { page, complaints } = await open(browser, full(), options);
    await section(page, "partition").getByRole("button", { name: "Bars" }).click();
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.equal(overflow, 0);
    assert.deepEqual(complaints, []);
    if (process.env.SCREENSHOTS) {
      await mkdir(process.env.SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/pictures-${name}.png`, fullPage: true });
    }
    await page.context().close();
  });
}
