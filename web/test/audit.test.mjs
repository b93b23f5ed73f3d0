// The page of an audit in a real browser.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { deflateSync } from "node:zlib";

import { launch } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const template = await readFile(new URL("../audit.html", import.meta.url), "utf8");
const script = (data) => JSON.stringify(data).replaceAll("<", "\\u003c");

// As render_audit_page() of src/winnow/report/page.cpp: the first 600 samples, and the others behind them.
const render = ({ shown, ...data }) =>
  template
    .replace('"WINNOW-DATA"', () => script({ ...data, held: shown.length, shown: shown.slice(0, 600) }))
    .replace("<!-- WINNOW-REST -->", () =>
      shown.length > 600 ? `<script type="application/json" class="rest">${script(shown.slice(600))}</script>` : "");

const checksum = (bytes) => {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return ~sum >>> 0;
};
const chunk = (kind, content) => {
  const body = Buffer.concat([Buffer.from(kind), content]);
  const [head, tail] = [Buffer.alloc(4), Buffer.alloc(4)];
  head.writeUInt32BE(content.length);
  tail.writeUInt32BE(checksum(body));
  return Buffer.concat([head, body, tail]);
};
// Grey, 28 x 28, with a bright square whose place depends on the number.
const picture = (number) => {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(28, 0);
  head.writeUInt32BE(28, 4);
  head[8] = 8;
  const rows = Buffer.alloc(28 * 29);
  for (let y = 0; y < 28; y++) {
    for (let x = 0; x < 28; x++) {
      const inside = Math.abs(y - 7 - (number % 3) * 6) < 5 && Math.abs(x - 7 - (number % 4) * 5) < 5;
      rows[29 * y + 1 + x] = inside ? 230 : (number * 7 + x * 3 + y) % 90;
    }
  }
  const parts = [chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), ...parts]).toString("base64");
};

const long = "a_hospital_whose_name_is_far_too_long_for_the_narrow_screen_of_a_phone";
const kinds = [["label"], ["input noise", "blurry"], ["label", "outlier"]];
// Clients with a verdict of each kind; the last one has no sample with an issue.
function sample({ clients = 8, samples = 150 } = {}) {
  const verdicts = ["nothing wrong", "label noise", "input noise", "rare but honest", "hostile"];
  const holders = clients - 1;
  return {
    data: `/home/somebody/data/${long}`, method: "fedavg", seed: 1, folds: 5, folds_over: "clients", samples: 4000,
    class_names: ["T-shirt", "Trouser", "Pullover", "Dress"], noise_rate: 0.1, noise_rate_low: 0.09,
    noise_rate_high: 0.11, warnings: [`3 samples are not judged: no client outside their fold holds their class`],
    quality: { planted_labels: 40, planted_images: 40, planted_label_recall: 0.9, planted_image_recall: 0.8, implied_flag_precision: 0.85, labels: { wrong: 50, found: 40, flag_precision: 0.625, flag_recall: 0.8, roc_area: 0.9 },
      labels_by_kind: { pair: { wrong: 20, found: 15, flag_precision: 0.5, flag_recall: 0.75, roc_area: null }, symmetric: { wrong: 30, found: 25, flag_precision: 0.6, flag_recall: 0.83, roc_area: 0.95 } },
      cleanlab_rule_in_sample: { wrong: 50, found: 30, flag_precision: 0.4, flag_recall: 0.6, roc_area: 0.8 }, true_noise_rate: 0.0125, honest_called_noisy: 0.25 },
    clients: Array.from({ length: clients }, (_, client) => ({
      client, name: client === 1 ? long : `client_${client}`, samples: 500, judged: 500, verdict: verdicts[client % 5],
      probability: 0.5 + (client % 9) / 20, noise_rate: (client % 9) / 20, noise_rate_low: (client % 9) / 30, noise_rate_high: (client % 9) / 15,
      too_few_to_say: client === 3, kind: client % 5 === 1 ? "pair" : "none", excess_rate: 0.1, label_issues: 5,
      input_noise_issues: 1, missing_classes: [1], rare_classes: [], duplicates_inside: 0, duplicates_across: 0,
    })),
    with_issues: samples + 20,
    shown: Array.from({ length: samples }, (_, n) => ({
      name: `client_${n % holders}/${long}/${n}.png`, client: n % holders, given: n % 4, suggested: (n + 1) % 4,
      score: n / samples, issues: kinds[n % 3], png: picture(n),
    })),
  };
}

async function open(data, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  const requests = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  await page.setContent(render(data), { waitUntil: "load" });
  await page.waitForFunction(() => !document.querySelector("script.rest"));
  return { page, complaints, requests };
}
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
const shot = async (page, name) => {
  if (process.env.SCREENSHOTS) {
    await mkdir(process.env.SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: `${process.env.SCREENSHOTS}/audit-${name}.png`, fullPage: true });
  }
};
const choice = (page, name) => page.getByRole("combobox", { name });
const said = (page) => page.getByRole("status").textContent();
const cards = (page) => page.locator(".sheet li");
const focused = (page) => page.evaluate(() => document.activeElement.textContent);
// Presses Tab until the wanted text has the focus.
async function tab_to(page, wanted) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    if ((await focused(page)) === wanted) return;
  }
  assert.fail(`Tab never comes to ${wanted}`);
}

for (const [name, options] of Object.entries({
  light: {},
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 }, hasTouch: true },
  "dark phone": { viewport: { width: 360, height: 740 }, colorScheme: "dark" },
})) {
  test(`an audit is drawn, no wider than its page: ${name}`, async () => {
    const { page, complaints, requests } = await open(sample(), options);
    assert.equal(await overflow(page), 0);
    assert.deepEqual(complaints, []);
    assert.deepEqual(requests.filter((url) => !url.startsWith("data:")), []);
    assert.equal(await page.locator("tbody tr").count(), 8);
    assert.ok((await cards(page).count()) >= 60);
    await shot(page, name.replace(" ", "-"));
    await page.context().close();
  });
}

test("it says how good it is, with the ledger and with what was planted", async () => {
  const { page } = await open(sample());
  const text = await page.locator("body").textContent();
  assert.ok(text.includes("40 of 50 found, flag precision 62.5\u00a0%, flag recall 80.0\u00a0%, ROC area 0.900"), text.slice(0, 1500));
  assert.ok(text.includes("implied flag precision 85.0\u00a0%"));
  for (const words of ["wrong labels, of these pair: 15 of 20 found", "of these symmetric: 25 of 30 found", "cleanlab's rule, models that saw the samples: 30 of 50 found", "True share of wrong labels: 1.3\u00a0%", "Honest clients called noisy: 25.0\u00a0%"]) {
    assert.ok(text.includes(words), words);
  }
  await page.context().close();
});

test("what a member of a federation cannot know is a dash", async () => {
  const data = sample({ clients: 2 });
  Object.assign(data.clients[0], { missing_classes: null, duplicates_across: null, rare_classes: [2, 3] });
  const { page, complaints } = await open(data);
  const cells = async (name) => page.locator("tbody tr", { hasText: name }).locator("td").allTextContents();
  assert.deepEqual((await cells("client_0")).slice(-4), ["-", "2", "0", "-"]);
  assert.deepEqual((await cells(long)).slice(-4), ["1", "0", "0", "0"]);
  await page.getByRole("button", { name: "missing classes" }).click();
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("a phone has two pictures side by side, buttons that a finger hits, and the client always in sight", async () => {
  const { page } = await open(sample(), { viewport: { width: 360, height: 740 } });
  const [one, two, three] = await Promise.all([0, 1, 2].map((i) => cards(page).nth(i).boundingBox()));
  assert.equal(one.y, two.y);
  assert.ok(three.y > one.y);
  for (const name of ["client", "kind"]) {
    assert.ok((await choice(page, name).boundingBox()).height >= 40);
  }
  assert.ok((await page.locator("tbody button").first().boundingBox()).height >= 32);
  assert.ok((await page.locator("tbody td").first().boundingBox()).width >= 100);
  await page.locator(".wide").evaluate((node) => (node.scrollLeft = 400));
  assert.ok((await page.locator("tbody td").first().boundingBox()).x >= 0);
  await page.context().close();
});

test("text keeps a contrast of 4.5 to 1 in both schemes", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await open(sample({ samples: 3 }), { colorScheme });
    const contrasts = await page.evaluate(() => {
      const channel = (value) => {
        const c = value / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      };
      const light = (name) => {
        let hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
        if (hex.length === 3) hex = [...hex].map((digit) => digit + digit).join("");
        const [r, g, b] = [0, 2, 4].map((at) => channel(parseInt(hex.slice(at, at + 2), 16)));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const pairs = ["--ink", "--muted", "--bad", "--good", "--mark"].flatMap((ink) => [[ink, "--panel"], [ink, "--ground"]]);
      return pairs.map(([ink, ground]) => {
        const [low, high] = [light(ink), light(ground)].sort((x, y) => x - y);
        return [`${ink} on ${ground}`, (high + 0.05) / (low + 0.05)];
      });
    });
    for (const [what, contrast] of contrasts) {
      assert.ok(contrast >= 4.5, `${colorScheme}: ${what} ${contrast}`);
    }
    await page.context().close();
  }
});

test("paper is white, has all clients, no controls, and every picture that it lists", async () => {
  const { page } = await open(sample({ clients: 70 }), { colorScheme: "dark" });
  assert.equal(await page.locator("tbody tr").count(), 50);
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.deepEqual(await page.evaluate(() => ["table", "body"].map((one) => getComputedStyle(document.querySelector(one)).backgroundColor)), ["rgb(255, 255, 255)", "rgb(255, 255, 255)"]);
  assert.equal(await page.locator("tbody tr").count(), 70);
  assert.ok(!(await choice(page, "client").isVisible()));
  assert.equal(await page.locator("button.more:visible").count(), 0);
  const blank = await page.locator(".sheet img").evaluateAll((all) => all.filter((one) => !one.complete || one.naturalWidth === 0).length);
  assert.equal(blank, 0);
  assert.match(await page.locator(".paper").textContent(), /The 60 worst of 150 samples/);
  assert.equal(await overflow(page), 0);
  await shot(page, "print");
  // No picture waits until somebody scrolls to it, which nobody does on paper.
  assert.equal(await page.locator('.sheet img[loading="lazy"]').count(), 0);
  const pdf = await page.pdf(process.env.SCREENSHOTS ? { path: `${process.env.SCREENSHOTS}/audit.pdf` } : {});
  assert.ok(pdf.length > 20_000);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.emulateMedia({ media: "screen" });
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator("tbody tr").count(), 50);
  await page.context().close();
});

test("samples are filtered by client and by kind, and both together", async () => {
  const { page } = await open(sample());
  assert.equal(await said(page), "150 of 170 samples with an issue; the page holds the 150 worst, samples.csv all.");
  await choice(page, "kind").selectOption("blurry");
  assert.match(await said(page), /^50 of 170/);
  await choice(page, "client").selectOption({ label: "client_2 (22)" });
  const shown = sample().shown.filter((one) => one.client === 2 && one.issues.includes("blurry"));
  assert.equal(await cards(page).count(), shown.length);
  for (const text of await cards(page).allTextContents()) {
    assert.match(text, /blurry.*client_2:/);
  }
  await choice(page, "client").selectOption("");
  await choice(page, "kind").selectOption("");
  assert.match(await said(page), /^150 of 170/);
  await page.context().close();
});

test("samples behind the first 600 are counted and drawn", async () => {
  const { page } = await open(sample({ samples: 700 }));
  assert.match(await said(page), /^700 of 720/);
  assert.equal(await choice(page, "client").locator("option").first().textContent(), "all clients");
  assert.equal(await choice(page, "kind").locator("option", { hasText: "label (" }).textContent(), "label (467)");
  await page.context().close();
});

test("the keyboard sorts, chooses a client, and reaches more samples", async () => {
  const { page } = await open(sample());
  await tab_to(page, "samples");
  await page.keyboard.press("Enter");
  const header = page.getByRole("columnheader", { name: "samples" });
  assert.equal(await header.getAttribute("aria-sort"), "descending");
  await page.keyboard.press("Space");
  assert.equal(await header.getAttribute("aria-sort"), "ascending");
  assert.equal(await focused(page), "samples");
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(ring, "solid");
  await tab_to(page, "client_2");
  await page.keyboard.press("Enter");
  assert.equal(await choice(page, "client").inputValue(), "2");
  assert.equal(await focused(page), "Samples, worst first");
  assert.match(await said(page), /^22 of 170/);
  // The next two stops are the choices; letters choose.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.type("outl");
  assert.equal(await choice(page, "kind").inputValue(), "outlier");
  const shown = sample().shown.filter((one) => one.client === 2 && one.issues.includes("outlier"));
  assert.match(await said(page), new RegExp(`^${shown.length} of 170`));
  await page.context().close();
});

test("a client without a sample on the page shows none, not all", async () => {
  const { page } = await open(sample());
  await page.getByRole("button", { name: "client_7" }).click();
  assert.match(await said(page), /^0 of 170/);
  assert.equal(await cards(page).count(), 0);
  await page.context().close();
});

test("clients are there fifty at a time", async () => {
  const { page } = await open(sample({ clients: 70 }));
  const more = page.getByRole("button", { name: "more clients (20 left)" });
  await more.focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("tbody tr").count(), 70);
  assert.ok(!(await more.isVisible()));
  await page.context().close();
});

test("text from the data is never markup", async () => {
  const data = sample({ samples: 3 });
  data.shown[0].name = "<img src=x onerror=alert(1)>.png";
  data.clients[0].name = "</script><b>bold</b>";
  const { page, complaints } = await open(data);
  assert.equal(await page.locator("b").count(), 0);
  assert.equal(await page.locator(".sheet img").count(), 3);
  assert.ok(await page.getByText("<img src=x onerror=alert(1)>.png").first().isVisible());
  assert.deepEqual(complaints, []);
  await page.context().close();
});
