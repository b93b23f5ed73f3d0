// The built page in a real browser.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { chart, curves, launch, open, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("a page loads without complaint and asks nothing of the network", async () => {
  const { page, complaints, requests } = await open(browser, sample());
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests.filter((url) => !url.startsWith("data:")), []);
  assert.equal(await page.title(), "sample: Winnow report");
  await page.context().close();
});

test("every method has a curve, and a click on its legend hides it in all charts", async () => {
  const { page } = await open(browser, sample());
  const rounds = "Test accuracy against rounds";
  assert.equal(await curves(page, rounds), "3");
  assert.equal(await curves(page, "Test accuracy against participations"), "3");
  assert.equal(await curves(page, "Label precision (right labels"), "1");
  const button = page.locator(".legend button", { hasText: "fedavg" });
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  assert.equal(await curves(page, rounds), "2");
  assert.equal(await curves(page, "Test accuracy against participations"), "2");
  await button.click();
  assert.equal(await curves(page, rounds), "3");
  await page.context().close();
});

test("a curve is drawn in its method's colour and gone when hidden", async () => {
  const { page } = await open(browser, sample({ methods: ["fedavg", "fedcorr"] }));
  const inked = () =>
    page.locator(".chart canvas").first().evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let found = 0;
      for (let i = 0; i < data.length; i += 4) {
        found += data[i] === 0x1f && data[i + 1] === 0x62 && data[i + 2] === 0xac ? 1 : 0;
      }
      return found;
    });
  assert.ok((await inked()) > 100);
  await page.locator(".legend button", { hasText: "fedavg" }).click();
  assert.equal(await inked(), 0);
  await page.context().close();
});

test("the legend and the charts can be used from the keyboard", async () => {
  const { page } = await open(browser, sample());
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  for (let i = 0; i < 14 && (await focused()) !== "fedavg"; i += 1) {
    await page.keyboard.press("Tab");
  }
  assert.equal(await focused(), "fedavg");
  await page.keyboard.press("Space");
  assert.equal(await curves(page, "Test accuracy against rounds"), "2");
  await chart(page, "Test accuracy against rounds").focus();
  await page.keyboard.press("End");
  const spoken = page.locator("figure", { hasText: "Test accuracy against rounds" }).locator("[aria-live]");
  assert.match(await spoken.textContent(), /^Round 20, .*fedcorr \d+/);
  await page.context().close();
});

test("the setting, the axis and the run in detail can be chosen", async () => {
  const { page, complaints } = await open(browser, sample());
  await page.getByRole("button", { name: "Dirichlet 0.5" }).click();
  await section(page, "accuracy").getByRole("button", { name: "Traffic" }).click();
  assert.equal(await curves(page, "Test accuracy against traffic"), "3");
  await section(page, "accuracy").getByRole("button", { name: "Every seed" }).click();
  assert.equal(await page.getByRole("combobox", { name: "Method" }).inputValue(), "fedcorr");
  assert.equal(await page.locator(".verdict .count").allTextContents().then(String), "2,1,4,5");
  await page.getByText("All clients as a table").click();
  await page.locator("details tbody tr").nth(11).waitFor();
  await page.getByRole("combobox", { name: "Method" }).selectOption("fedavg");
  assert.ok(await page.getByText("This method flags nobody.").isVisible());
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("names from the data are shown as text", async () => {
  const evil = '</script><img src=x onerror="document.title=1">';
  const { page, complaints } = await open(browser, sample({ methods: [evil, "b"] }));
  assert.equal(await page.locator(".legend button").first().textContent(), evil);
  assert.equal(await page.locator("img").count(), 0);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("runs without findings, partition, rounds or directory are shown as far as they go", async () => {
  const report = sample();
  report.partitions = [];
  for (const run of report.runs) {
    delete run.findings;
    delete run.partition;
  }
  report.runs[0].summary = undefined;
  report.runs[0].status = "started";
  report.runs[1] = { ...report.runs[1], status: "waiting", history: undefined, experiment: undefined };
  delete report.runs[1].summary;
  const { page, complaints } = await open(browser, report);
  assert.ok(await page.getByText("does not record its partition").isVisible());
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the matrices and the partition can be read as tables", async () => {
  const { page, complaints } = await open(browser, sample());
  const cells = async (name, summary) => {
    const fold = section(page, name).locator("details", { hasText: summary });
    await fold.locator("summary").click();
    await fold.locator("table").waitFor();
    return fold.locator("tbody tr").last().locator("th, td").allTextContents();
  };
  const given = await cells("confusion", "Given labels as a table");
  assert.deepEqual(given, ["class 3", "5 (14.29)", "5 (14.29)", "5 (14.29)", "20 (57.14)"]);
  assert.equal((await cells("confusion", "After repair as a table")).at(-1), "60 (80.00)");
  assert.deepEqual(
    await cells("partition", "Partition as a table"),
    ["11", "no", "40", "10", "10", "10", "10"],
  );
  assert.equal(await section(page, "partition").locator("tbody tr").count(), 12);
  assert.deepEqual(complaints, []);
  await page.context().close();
});

test("the head names every number of clients, from the experiment where no partition is kept", async () => {
  const facts = async (report) => {
    const { page } = await open(browser, report);
    const text = await page.locator(".facts").textContent();
    await page.context().close();
    return text;
  };
  const report = sample();
  report.partitions[1].clients.push(...report.partitions[1].clients.slice(0, 8));
  assert.match(await facts(report), /^synthetic · 12 or 20 clients · 3 methods/);
  report.partitions = [];
  for (const run of report.runs) {
    delete run.partition;
    run.experiment = { ...run.experiment, data: { name: "mnist" }, federation: { clients: 1500 } };
  }
  assert.match(await facts(report), /^mnist · 1,500 clients · 3 methods/);
});

test("the settings have the rounds that were played, not those that the method does not use", async () => {
  const report = sample({ methods: ["fedavg", "fedcorr"], columns: ["IID"], rounds: 20 });
  for (const run of report.runs) {
    run.experiment = { ...run.experiment, rounds: 20 };
    run.planned_rounds = run.row === "fedcorr" ? 35 : 20;
  }
  const { page } = await open(browser, report);
  const table = section(page, "experiment").getByRole("table", { name: "Settings in which" });
  const row = table.locator("tr", { hasText: "rounds" });
  assert.deepEqual(await row.locator("th, td").allTextContents(), ["rounds", "20, 35"]);
  await page.context().close();
  const alone = { ...report, runs: report.runs.filter((run) => run.row === "fedcorr").slice(0, 1) };
  const { page: single } = await open(browser, alone);
  const entry = section(single, "experiment").locator("dl.settings div", { hasText: "rounds" });
  assert.equal(await entry.locator("dd").textContent(), "35");
  await single.context().close();
});

test("scores have names for people", async () => {
  const report = sample({ methods: ["fedcorr"], columns: ["IID"], seeds: [1] });
  const { scores } = report.runs[0].findings;
  const same = scores.lid;
  Object.assign(scores, { flag_share: same, flag_share_early: same, of_my_own: same });
  const { page } = await open(browser, report);
  const names = [
    "LID: local intrinsic dimension of the client's predictions",
    "Share of its rounds in which it was flagged",
    "Share of its rounds up to penalty_rounds in which it was flagged",
    "of my own",
  ];
  assert.deepEqual(
    await section(page, "scores").locator("figcaption").allTextContents(),
    names.flatMap((name) => [name, `${name} against the noise of the client`]),
  );
  await page.context().close();
});

test("a seed keeps all its digits and can be chosen", async () => {
  const long = ["18446744073709551614", "18446744073709551615"];
  const { page } = await open(browser, sample({ seeds: long }));
  await page.getByRole("combobox", { name: "Seed" }).selectOption(long[1]);
  assert.equal(await page.getByRole("combobox", { name: "Seed" }).inputValue(), long[1]);
  assert.equal(await page.locator(".runs td", { hasText: long[1] }).count(), 6);
  assert.ok(await section(page, "experiment").getByText(long.join(", ")).isVisible());
  await page.context().close();
});

for (const [name, options] of Object.entries({
  light: {},
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 }, hasTouch: true },
})) {
  test(`nothing is wider than the page: ${name}`, async () => {
    const methods = ["fedavg", "fedcorr", "fedavg with a name that is far too long for a phone"];
    const { page, complaints } = await open(browser, sample({ methods }), options);
    assert.equal(await overflow(page), 0);
    assert.deepEqual(complaints, []);
    if (process.env.SCREENSHOTS) {
      await mkdir(process.env.SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png`, fullPage: true });
    }
    await page.context().close();
  });
}

test("paper is white, also for readers of the dark page", async () => {
  const { page } = await open(browser, sample(), { colorScheme: "dark" });
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(ground, "rgb(255, 255, 255)");
  await page.context().close();
});

test("paper has the methods' parameters and not the long tables of clients", async () => {
  const { page } = await open(browser, sample());
  const parameters = page.locator("details", { hasText: "Parameters of fedcorr" });
  const clients = page.locator("details", { hasText: "All clients as a table" });
  await clients.locator("summary").click();
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.emulateMedia({ media: "print" });
  assert.ok(await parameters.getByText("method.name").isVisible());
  assert.ok(!(await clients.isVisible()));
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  await page.emulateMedia({ media: "screen" });
  assert.ok(!(await parameters.getByText("method.name").isVisible()));
  assert.ok(await clients.locator("table").isVisible());
  await page.context().close();
});

test("text keeps a contrast of 4.5 to 1 in both schemes", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await open(browser, sample(), { colorScheme });
    const contrasts = await page.evaluate(() => {
      const channel = (value) => {
        const c = value / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      };
      const light = (name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        const [r, g, b] = [1, 3, 5].map((at) => channel(parseInt(hex.slice(at, at + 2), 16)));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const contrast = (a, b) => {
        const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
      };
      return {
        text: Math.min(contrast("--ink", "--panel"), contrast("--muted", "--ground")),
        curves: Math.min(...[0, 1, 2, 3, 4, 5, 6, 7].map((i) => contrast(`--hue-${i}`, "--panel"))),
      };
    });
    assert.ok(contrasts.text >= 4.5, `${colorScheme} text ${contrasts.text}`);
    assert.ok(contrasts.curves >= 3, `${colorScheme} curves ${contrasts.curves}`);
    await page.context().close();
  }
});

test("30 runs of 1,000 rounds show their first chart within two seconds", async () => {
  const methods = Array.from({ length: 10 }, (_, i) => `method ${i}`);
  const report = sample({ methods, columns: ["IID"], seeds: [1, 2, 3], rounds: 1000, clients: 100 });
  const begun = performance.now();
  const { page, complaints } = await open(browser, report);
  const taken = performance.now() - begun;
  assert.equal(await curves(page, "Test accuracy against rounds"), "10");
  assert.deepEqual(complaints, []);
  assert.ok(taken < 2000, `took ${taken.toFixed(0)} ms`);
  await page.context().close();
});

test("many clients are drawn, and their tables say where they end", async () => {
  const report = sample({ methods: ["fedavg"], columns: ["IID"], seeds: [1], clients: 150_000 });
  const { page, complaints } = await open(browser, report);
  for (const title of ["All clients as a table", "Partition as a table"]) {
    await page.locator("summary", { hasText: title }).click();
  }
  const ends = page.locator(".note", { hasText: "The first 5000 of 150000 rows" });
  await ends.nth(1).waitFor();
  assert.equal(await ends.count(), 2);
  assert.deepEqual(complaints, []);
  await page.context().close();
});
