// A page served as `winnow watch` does, while the runs go on.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { sample } from "./sample.mjs";
import { curves, launch, render, section } from "./support.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

// Serves `report`, and then whatever the test puts in its place together with a new stamp.
async function serve(report) {
  const served = { stamp: "1", body: JSON.stringify(report), asked: [] };
  const server = createServer((request, response) => {
    if (request.url === "/") {
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.end(render({ ...report, live: served.stamp }));
      return;
    }
    served.asked.push(request.headers["if-none-match"]);
    const known = served.asked.at(-1) === `"${served.stamp}"`;
    response.writeHead(known ? 304 : 200, { ETag: `"${served.stamp}"` });
    response.end(known ? "" : served.body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  served.close = () => {
    server.close();
    server.closeAllConnections();
  };
  served.show = (next, stamp) => Object.assign(served, { body: JSON.stringify(next), stamp });
  served.page = await browser.newPage();
  await served.page.goto(`http://127.0.0.1:${server.address().port}/`);
  await served.page.getByText("Live: ").waitFor();
  return served;
}

const says = (page, text) => page.getByText(text).waitFor({ timeout: 10000 });

test("a served page follows the runs and says when nobody answers", async () => {
  const served = await serve(sample({ methods: ["fedavg"] }));
  const { page } = served;
  await says(page, "Live: 4 of 4 runs finished, 0 under way");
  assert.equal(await curves(page, "Test accuracy against rounds"), "1");
  served.show(sample({ methods: ["fedavg", "fedcorr"] }), "2");
  await says(page, "Live: 8 of 8 runs finished, 0 under way");
  assert.equal(await curves(page, "Test accuracy against rounds"), "2");
  await page.waitForTimeout(2500);
  assert.equal(served.asked.at(-1), '"2"');
  served.close();
  await says(page, "Not up to date: winnow watch does not answer");
  await page.close();
});

test("an answer that cannot be shown is asked for again and not taken for silence", async () => {
  const served = await serve(sample({ methods: ["fedavg"] }));
  const { page } = served;
  served.show(null, "2");
  await says(page, "Not up to date: ");
  assert.doesNotMatch(await page.locator(".status").textContent(), /does not answer/);
  served.show(sample({ methods: ["fedavg", "fedcorr"] }), "2");
  await says(page, "Live: 8 of 8 runs finished");
  assert.ok(served.asked.every((stamp) => stamp === '"1"'), String(served.asked));
  served.close();
  await page.close();
});

test("a run whose process is gone counts as stopped, not as under way", async () => {
  const report = sample({ methods: ["fedavg"] });
  ["started", "stopped", "failed", "waiting"].forEach((status, i) => (report.runs[i].status = status));
  const served = await serve(report);
  await says(served.page, "Live: 0 of 4 runs finished, 1 under way, 1 stopped, 1 failed");
  assert.equal(await served.page.locator(".runs td", { hasText: "stopped" }).count(), 1);
  served.close();
  await served.page.close();
});

test("an update leaves what the reader has scrolled, unfolded and focused", async () => {
  const report = sample({ methods: ["fedcorr", "fedavg"] });
  report.runs[0].status = "started";
  const served = await serve(report);
  const { page } = served;
  await page.setViewportSize({ width: 390, height: 800 });
  await page.getByText("All clients as a table").click();
  await page.getByText("Parameters of fedavg").click();
  const frames = ["Clients", "Results by method", "Runs"].map((name) =>
    page.getByRole("region", { name, exact: true }),
  );
  for (const frame of frames) {
    await frame.evaluate((element) => (element.scrollLeft = 60));
  }
  const [clients, results, runs] = frames;
  await clients.focus();
  const changed = structuredClone(report);
  changed.runs[0].findings.round = 25;
  changed.runs[0].findings.noise_levels[0].estimated = 0.77;
  changed.runs.push({ ...changed.runs[1], id: "runs/late", seed: 9 });
  served.show(changed, "2");
  await clients.getByText("77.00").waitFor({ timeout: 10000 });
  await runs.getByText("late").waitFor();
  await results.getByText("2 of 3").waitFor();
  for (const frame of frames) {
    assert.equal(await frame.evaluate((element) => element.scrollLeft), 60);
  }
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Clients");
  assert.ok(await section(page, "experiment").locator("details[open]").getByText("method.name").isVisible());
  served.close();
  await page.close();
});

test("an update without news leaves the tables alone", async () => {
  const report = sample({ methods: ["fedcorr", "fedavg"] });
  const served = await serve(report);
  const { page } = served;
  await page.evaluate(() => document.querySelectorAll("table").forEach((one) => (one.marked = true)));
  served.show({ ...report, runs: report.runs.map((run) => ({ ...run, status: "failed" })) }, "2");
  await says(page, "8 failed");
  const kept = await page.evaluate(() => [...document.querySelectorAll("table")].map((one) => !!one.marked));
  assert.deepEqual(kept, [false, true, false]); // results and runs say who is done; settings are the same
  served.close();
  await page.close();
});
