// What helps to read the page: losses, contents, settings, tables on small screens.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { addPictures, sample } from "./sample.mjs";
import { chart, curves, launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const kPhone = { viewport: { width: 360, height: 740 }, hasTouch: true };

test("training and test loss are drawn against rounds and cost", async () => {
  const { page, complaints } = await open(browser, sample());
  assert.equal(await curves(page, "Training loss against rounds"), "3");
  assert.equal(await curves(page, "Test loss against rounds"), "3");
  const loss = section(page, "loss");
  await loss.getByRole("button", { name: "Participations" }).click();
  await chart(page, "Training loss against participations").focus();
  await page.keyboard.press("End");
  const spoken = loss.locator("figure", { hasText: "Training loss" }).locator("[aria-live]");
  assert.match(await spoken.textContent(), /^100 participations, .*fedavg 0\.\d+/);
  await page.locator(".legend button", { hasText: "fedavg" }).click();
  assert.equal(await curves(page, "Test loss against participations"), "2");
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("what older logs do not have is not drawn", async () => {
  const report = sample();
  report.runs.forEach((run) => delete run.history.train_loss);
  const { page, complaints } = await open(browser, report);
  const loss = section(page, "loss");
  assert.deepEqual(await loss.locator("figure:visible figcaption").allTextContents(), ["Test loss against rounds"]);
  assert.deepEqual(complaints, []);
  await page.context().close();
  report.runs.forEach((run) => delete run.history.loss);
  const { page: neither } = await open(browser, report);
  assert.equal(await section(neither, "loss").isVisible(), false);
  await neither.context().close();
});

test("the contents name what is shown, and lead there from the keyboard", async () => {
  const { page, complaints } = await open(browser, sample());
  const contents = page.getByRole("navigation", { name: "Contents" });
  const names = () => contents.locator("a").allTextContents();
  assert.equal(await contents.getByRole("link", { name: "Cost" }).isVisible(), false);
  await contents.locator("summary").focus();
  await page.keyboard.press("Enter");
  assert.ok(await contents.getByRole("link", { name: "Cost" }).isVisible());
  assert.ok((await names()).includes("Loss"));
  assert.ok((await names()).includes("Labels against the truth"));
  assert.ok(!(await names()).includes("How alike clients are"), "this run has no such data");
  await page.keyboard.press("Escape");
  assert.equal(await contents.getByRole("link", { name: "Cost" }).isVisible(), false);
  await page.keyboard.press("Enter");
  await contents.getByRole("link", { name: "The experiment" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await contents.getByRole("link", { name: "Cost" }).isVisible(), false);
  assert.equal(await page.evaluate(() => document.activeElement.id), "experiment");
  const top = await page.locator("#experiment").evaluate((heading) => heading.getBoundingClientRect().top);
  assert.ok(top >= 40 && top < 900, `the heading is at ${top}`);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the contents follow the run that is looked at", async () => {
  const report = sample({ columns: ["IID"], seeds: [1] });
  addPictures(report);
  const { page } = await open(browser, report);
  const links = page.getByRole("navigation", { name: "Contents" }).locator("a");
  assert.ok((await links.allTextContents()).includes("How alike clients are"));
  await page.getByRole("combobox", { name: "Method" }).selectOption("fedavg");
  assert.ok(!(await links.allTextContents()).includes("How alike clients are"));
  await page.context().close();
});

test("on a phone the contents stay in reach, and on paper they are gone", async () => {
  const { page } = await open(browser, sample(), kPhone);
  const button = page.locator(".contents summary");
  await page.evaluate(() => scrollTo(0, 3000));
  const box = await button.boundingBox();
  assert.ok(box.y > 600 && box.y + box.height <= 740 && box.height >= 36, JSON.stringify(box));
  await button.click();
  const list = await page.locator(".contents ol").boundingBox();
  assert.ok(list.x >= 0 && list.y >= 0 && list.x + list.width <= 360, JSON.stringify(list));
  await page.getByRole("link", { name: "Partition" }).click();
  assert.ok(await page.locator("#partition").isVisible());
  assert.equal(await page.getByRole("link", { name: "Cost" }).isVisible(), false);
  await page.emulateMedia({ media: "print" });
  assert.equal(await button.isVisible(), false);
  await page.context().close();
});

test("settings at their defaults are left out until they are asked for", async () => {
  const { page, complaints } = await open(browser, sample());
  const experiment = section(page, "experiment");
  const keys = () => experiment.locator(".settings dt").allTextContents();
  assert.deepEqual(await keys(), ["name", "train.lr", "rounds"]);
  assert.ok(await experiment.getByText("1 other setting at the default in all runs.").isVisible());
  const fold = experiment.locator("details", { hasText: "Parameters of fedcorr" });
  await fold.locator("summary").click();
  await fold.locator("dt").first().waitFor();
  assert.deepEqual(await fold.locator("dt").allTextContents(), ["method.name", "method.iterations"]);
  await experiment.getByRole("button", { name: "All settings" }).click();
  assert.deepEqual((await keys()).slice(0, 4), ["name", "train.lr", "train.momentum", "rounds"]);
  await fold.locator("dt", { hasText: "method.mixup" }).waitFor();
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("without knowledge of the defaults all settings are shown", async () => {
  const report = sample();
  report.runs.forEach((run) => delete run.changed);
  const { page } = await open(browser, report);
  const experiment = section(page, "experiment");
  assert.ok(await experiment.getByText("train.momentum").isVisible());
  assert.equal(await experiment.getByRole("button", { name: "All settings" }).isVisible(), false);
  await page.context().close();
});

test("a table that is wider than the screen says that it scrolls, until its end is reached", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"] }), kPhone);
  const region = page.getByRole("region", { name: "Results by method" });
  const frame = page.locator(".wide", { has: region });
  const looks = (name) => frame.evaluate((element, look) => element.classList.contains(look), name);
  assert.ok(await frame.getByText("Scroll sideways").isVisible());
  assert.equal(await looks("more-right"), true);
  assert.equal(await looks("more-left"), false);
  await region.focus();
  await region.evaluate((element) => (element.scrollLeft = element.scrollWidth));
  await page.waitForFunction((element) => !element.classList.contains("more-right"), await frame.elementHandle());
  assert.equal(await looks("more-left"), true);
  await page.context().close();
  const { page: wide } = await open(browser, sample({ methods: ["fedavg"], columns: ["IID"] }));
  assert.equal(await section(wide, "results").getByText("Scroll sideways").isVisible(), false);
  await wide.context().close();
});

test("long names of methods are not cut", async () => {
  const name = "clipfl over fedprox with a proximal weight of 0.1";
  const { page } = await open(browser, sample({ methods: [name, "fedavg"], columns: ["IID"] }));
  assert.equal(await page.locator(".legend button").first().textContent(), name);
  await chart(page, "Test accuracy against rounds").focus();
  await page.keyboard.press("End");
  const readout = page.locator("figure", { hasText: "Test accuracy against rounds" }).locator(".readout");
  assert.ok(await readout.getByText(name).isVisible());
  const cell = page.getByRole("region", { name: "Results by method" }).locator("tbody th").first();
  const { inner, outer } = await cell.evaluate((element) => ({
    inner: element.scrollWidth,
    outer: element.clientWidth,
  }));
  assert.equal(await cell.textContent(), name);
  assert.ok(inner <= outer, `${inner} > ${outer}`);
  await page.context().close();
});
