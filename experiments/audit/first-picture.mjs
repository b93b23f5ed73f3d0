// How long the page of an audit with 50,000 pictures of 1,000 clients takes to its first picture, in headless Chromium.
//   (cd web && npm ci) && node experiments/audit/first-picture.mjs [RUNS]
// The data are made up and put into web/audit.html as render_audit_page() does. Prints milliseconds from the start of the
// navigation to the frame after the first picture is in the page, for every run.
import { readFileSync, writeFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { crc32, deflateSync } from "node:zlib";

const { chromium } = createRequire(new URL("../../web/package.json", import.meta.url))("playwright-core");
const checksum = crc32 ?? ((bytes) => {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return ~sum >>> 0;
});

const chunk = (kind, content) => {
  const body = Buffer.concat([Buffer.from(kind), content]);
  const head = Buffer.alloc(4);
  const tail = Buffer.alloc(4);
  head.writeUInt32BE(content.length);
  tail.writeUInt32BE(checksum(body));
  return Buffer.concat([head, body, tail]);
};
const picture = (number) => {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(28, 0);
  head.writeUInt32BE(28, 4);
  head[8] = 8;
  const rows = Buffer.alloc(28 * 29);
  for (let i = 0; i < rows.length; i++) rows[i] = i % 29 === 0 ? 0 : (i * number * 2654435761) >>> 24;
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]).toString("base64");
};
const pictures = Array.from({ length: 59 }, (_, n) => picture(n + 1));
const shown = Array.from({ length: 50_000 }, (_, n) => ({
  name: `client_${n % 1000}/class/${n}.png`, client: n % 1000, given: n % 10, suggested: (n + 1) % 10, score: n / 50_000, issues: ["label"], png: pictures[n % 59],
}));
const clients = Array.from({ length: 1000 }, (_, client) => ({
  client, name: `client_${client}`, samples: 50, judged: 50, verdict: client % 3 ? "nothing wrong" : "label noise", probability: 0.9, noise_rate: 0.1,
  noise_rate_low: 0.05, noise_rate_high: 0.2, too_few_to_say: false, kind: "pair", excess_rate: 0.1, label_issues: 5, input_noise_issues: 1,
  missing_classes: [], rare_classes: [], duplicates_inside: 0, duplicates_across: 0,
}));
const data = {
  data: "many", method: "fedavg", seed: 1, folds: 5, folds_over: "clients", samples: 50_000, class_names: Array.from({ length: 10 }, (_, c) => `class ${c}`),
  noise_rate: 0.1, noise_rate_low: 0.09, noise_rate_high: 0.11, quality: {}, warnings: [], clients, with_issues: 50_000, shown: shown.slice(0, 600), held: 50_000,
};
let rest = "";
for (let i = 600; i < shown.length; i += 5000) {
  rest += `<script type="application/json" class="rest">${JSON.stringify(shown.slice(i, i + 5000))}</script>\n`;
}
const probe = `<script>(() => { const look = () => document.querySelector(".sheet img") ? requestAnimationFrame(() => setTimeout(() => console.log("first " + Math.round(performance.now())))) : setTimeout(look, 5); look(); })();</script>`;
const template = readFileSync(new URL("../../web/audit.html", import.meta.url), "utf8");
const page = template.replace('"WINNOW-DATA"', () => JSON.stringify(data)).replace("<!-- WINNOW-REST -->", () => rest).replace("<main", () => probe + "<main");
const file = join(tmpdir(), `winnow-first-picture-${process.pid}.html`);
writeFileSync(file, page);
console.log(`${(page.length / 1e6).toFixed(0)} MB`);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
try {
  for (let run = 0; run < Number(process.argv[2] ?? 5); run++) {
    const tab = await browser.newPage();
    const first = tab.waitForEvent("console", { predicate: (message) => message.text().startsWith("first ") });
    await tab.goto(pathToFileURL(file).href);
    console.log(`${(await first).text()} ms`);
    await tab.waitForFunction(() => !document.querySelector("script.rest"));
    const left = await tab.locator("button.more").last().textContent();
    if (!left.includes("49940")) throw new Error(`samples are missing: ${left}`);
    await tab.close();
  }
} finally {
  await browser.close();
  rmSync(file);
}
