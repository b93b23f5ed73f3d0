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

// A page with everything it complains about and every request it makes.
async function blank(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000); // a busy machine takes its time
  const complaints = [];
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      complaints.push(message.text());
    }
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  return { page, complaints, requests };
}

// A page with these data, once it is drawn.
export async function open(browser, data, options = {}) {
  const opened = await blank(browser, options);
  await opened.page.setContent(render(data), { waitUntil: "load" });
  await opened.page.waitForSelector(".chart[data-drawn]");
  return opened;
}

// The page at an address, once it is drawn.
export async function visit(browser, address, options = {}) {
  const opened = await blank(browser, options);
  await opened.page.goto(address);
  await opened.page.waitForSelector(".chart[data-drawn]");
  return opened;
}

export const chart = (page, title) => page.locator("figure", { hasText: title }).locator(".chart");
export const curves = (page, title) => chart(page, title).getAttribute("data-curves");
export const section = (page, name) => page.locator(`section[aria-labelledby="${name}"]`);
