// Takes the README's pictures of a report page: node pictures.mjs report.html ../docs/pictures
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [report, folder] = process.argv.slice(2);
if (!report || !folder) {
  console.error("usage: node pictures.mjs REPORT.html DIR");
  process.exit(2);
}
const desk = { viewport: { width: 1280, height: 1150 } };
const pictures = {
  "report.png": { ...desk, colorScheme: "light" },
  "report-dark.png": { ...desk, colorScheme: "dark" },
  "report-phone.png": { viewport: { width: 390, height: 844 }, colorScheme: "light" },
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
for (const [name, options] of Object.entries(pictures)) {
  const page = await browser.newPage(options);
  await page.goto(pathToFileURL(resolve(report)).href);
  await page.waitForSelector(".chart[data-drawn]");
  await page.screenshot({ path: join(folder, name) });
  await page.close();
}
await browser.close();
