// Figures saved as files, from a page that lies on the disk.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { addPictures, sample } from "./sample.mjs";
import { launch, render, section, visit } from "./support.mjs";

let browser;
let folder;
before(async () => {
  browser = await launch();
  folder = await mkdtemp(join(tmpdir(), "winnow-save-"));
});
after(async () => {
  await browser.close();
  await rm(folder, { recursive: true });
});

async function onDisk(report, options) {
  const path = join(folder, "page.html");
  await writeFile(path, render(report));
  return visit(browser, pathToFileURL(path).href, options);
}

// The file behind a button of a figure.
async function saved(page, figure, kind) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    figure.getByRole("button", { name: `Save as ${kind}` }).click(),
  ]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

// What a program without a style sheet would draw: no classes, no variables, nothing from elsewhere.
async function assertStandsAlone(page, text) {
  assert.match(text, /^<\?xml version="1.0" encoding="UTF-8"\?>\n<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  assert.doesNotMatch(text, /class=|style=|var\(|<script|NaN|Infinity|undefined/);
  for (const [, address] of text.matchAll(/href="([^"]*)"/g)) {
    assert.match(address, /^data:image\/png;base64,/);
  }
  const fault = await page.evaluate((svg) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
    return parsed.querySelector("parsererror")?.textContent ?? "";
  }, text);
  assert.equal(fault, "");
}

const figureOf = (page, title) => page.locator("figure", { hasText: title });

test("curves are saved as a picture and as a table, without a network", async () => {
  const { page, complaints, requests } = await onDisk(sample());
  const figure = figureOf(page, "Test accuracy against rounds");
  const { name, text } = await saved(page, figure, "SVG");
  assert.equal(name, "setting-IID-accuracy-rounds.svg");
  await assertStandsAlone(page, text);
  for (const words of ["Test accuracy against rounds (%)", ">round<", ">fedcorr<", ">oracle<"]) {
    assert.ok(text.includes(words), words);
  }
  assert.match(text, /stroke="rgb\(31, 98, 172\)"/, "the first method's colour");
  assert.match(text, /stroke-dasharray="8px, 4px"/, "oracle is told the truth");
  assert.match(text, /fill-opacity="0.15"/, "the band");
  const csv = await saved(page, figure, "CSV");
  assert.equal(csv.name, "setting-IID-accuracy-rounds.csv");
  const lines = csv.text.trim().split("\n");
  assert.equal(lines[0], "method,round,accuracy,deviation,runs");
  assert.equal(lines.length, 1 + 3 * 20);
  assert.match(lines[1], /^fedavg,1,0\.\d+,0\.\d+,2$/);
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests.filter((url) => !/^(data|file|blob):/.test(url)), []);
  await page.context().close();
});

test("a file has what the chart shows: every seed, another axis, fewer methods", async () => {
  const { page } = await onDisk(sample({ methods: ["fedavg", 'a "b", c'], columns: ["IID"] }));
  const accuracy = section(page, "accuracy");
  await accuracy.getByRole("button", { name: "Every seed" }).click();
  await accuracy.getByRole("button", { name: "Traffic" }).click();
  await page.locator(".legend button", { hasText: "fedavg" }).click();
  const { name, text } = await saved(page, figureOf(page, "Test accuracy against traffic"), "CSV");
  assert.equal(name, "accuracy-bytes.csv");
  const lines = text.trim().split("\n");
  assert.equal(lines[0], "method,seed,bytes,accuracy");
  assert.equal(lines.length, 1 + 2 * 20);
  assert.match(lines[1], /^"a ""b"", c",1,1000000,0\.\d+$/);
  await page.context().close();
});

test("every figure of a run can be saved, in the colours of paper also from the dark page", async () => {
  const report = sample({ columns: ["IID"], seeds: [1], classes: 10, clients: 20 });
  addPictures(report);
  let opened = await onDisk(report, { colorScheme: "dark" });
  const names = [];
  for (let i = 0; i < (await opened.page.locator("figure:visible").count()); i += 1) {
    if (i % 8 === 7) {
      await opened.page.context().close(); // Chromium refuses the eleventh file of a page
      opened = await onDisk(report, { colorScheme: "dark" });
    }
    const { page } = opened;
    const { name, text } = await saved(page, page.locator("figure:visible").nth(i), "SVG");
    await assertStandsAlone(page, text);
    assert.doesNotMatch(text, /rgb\(19, 21, 24\)|rgb\(231, 232, 234\)/, `${name} is light`);
    names.push(name);
  }
  assert.equal(new Set(names).size, names.length, String(names));
  for (const name of ["noise", "score-lid", "series-lid", "likeness", "confusion-given", "stages", "images-flagged"]) {
    assert.ok(names.includes(`run-fedcorr-IID-s1-${name}.svg`), `${name} in ${names}`);
  }
  await opened.page.context().close();
  const { page, complaints } = await onDisk(report);
  const series = await saved(page, figureOf(page, "Cumulative LID"), "SVG");
  for (const words of ["iteration 5", "truly clean", "mixture"]) {
    assert.ok(series.text.includes(words), words);
  }
  const images = await saved(page, section(page, "images").locator("figure").first(), "SVG");
  assert.equal(images.text.match(/<image /g).length, 9);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("a saved picture has the size of what is in it", async () => {
  const long = "a method with a name that is far longer than any chart has room for at the end of a line";
  const { page } = await onDisk(sample({ methods: [long, "fedavg"], columns: ["IID"] }));
  const { text } = await saved(page, figureOf(page, "Test accuracy against rounds"), "SVG");
  assert.ok(text.includes(`>${long}<`));
  const fits = await page.evaluate((svg) => {
    const host = document.createElement("div");
    host.innerHTML = svg.slice(svg.indexOf("<svg"));
    document.body.append(host);
    const [, , width, height] = host.firstChild.getAttribute("viewBox").split(" ").map(Number);
    const box = host.firstChild.getBBox();
    return box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height;
  }, text);
  assert.ok(fits);
  await page.context().close();
});

test("buttons that save say what, and paper has none", async () => {
  const { page } = await onDisk(sample());
  const button = page.getByRole("button", { name: "Save as SVG: Test accuracy against rounds (%)" });
  assert.ok(await button.isVisible());
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".save:visible").count(), 0);
  await page.context().close();
});
