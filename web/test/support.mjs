// A browser, and pages made the way the program makes them.
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const template = await readFile(new URL("../dist/report.html", import.meta.url), "utf8");

// As render_page() of src/winnow/report/page.cpp.
export const render = (data) =>
  template.replace('"WINNOW-DATA"', () => JSON.stringify(data).replaceAll("<", "\\u003c"));

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });

// Opens a page and returns it with everything it complained about and every request it made.
export async function open(browser, data, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(5000);
  const complaints = [];
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  await page.setContent(render(data), { waitUntil: "load" });
  await page.waitForSelector(".chart[data-drawn]");
  return { page, complaints, requests };
}
