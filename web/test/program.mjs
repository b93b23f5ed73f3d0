// The page as the program makes it, from a finished sweep of several methods and seeds with noisy labels.
//   WINNOW_PAGE=report.html              what `winnow report` wrote
//   WINNOW_WATCH=http://127.0.0.1:PORT/  where `winnow watch` serves it
//   node web/test/program.mjs            with one of them or both
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { curves, launch, section, visit } from "./support.mjs";

const { WINNOW_PAGE, WINNOW_WATCH } = process.env;

if (WINNOW_PAGE || WINNOW_WATCH) {
  let browser;
  before(async () => (browser = await launch()));
  after(() => browser.close());

  test("the page of winnow report", { skip: !WINNOW_PAGE && "WINNOW_PAGE is not set" }, async () => {
    const address = pathToFileURL(resolve(WINNOW_PAGE)).href;
    const { page, complaints, requests } = await visit(browser, address);
    await usePage(page);
    assert.deepEqual(complaints, []);
    assert.deepEqual(requests.filter((url) => url !== address && !url.startsWith("data:")), []);
  });

  test("the page of winnow watch", { skip: !WINNOW_WATCH && "WINNOW_WATCH is not set" }, async () => {
    const address = new URL(WINNOW_WATCH).href;
    const data = new URL("data.json", address).href;
    const { page, complaints, requests } = await visit(browser, address);
    await usePage(page);
    // The page asks every two seconds; two answers later it has to be content with the first.
    await page.waitForResponse(data);
    await page.waitForResponse(data);
    assert.match(await page.locator(".status").textContent(), /^Live: (\d+) of \1 runs finished, 0 under way$/);
    assert.deepEqual(complaints, []);
    const others = requests.filter((url) => ![address, data].includes(url) && !url.startsWith("data:"));
    assert.deepEqual(others, []);
  });
} else {
  console.log("web/test/program.mjs: skipped, neither WINNOW_PAGE nor WINNOW_WATCH is set");
}

async function usePage(page) {
  const rounds = "Test accuracy against rounds";
  const entries = page.locator(".legend button");
  const methods = await entries.count();
  assert.ok(methods >= 2, `${methods} methods in the legend`);
  assert.equal(await curves(page, rounds), String(methods));
  await entries.first().click();
  assert.equal(await curves(page, rounds), String(methods - 1));
  await entries.first().click();
  assert.equal(await curves(page, rounds), String(methods));
  assert.match(await page.locator(".facts").textContent(), /\d+ clients · .*[2-9] seeds/);

  for (const loss of ["Training loss against rounds", "Test loss against rounds"]) {
    assert.equal(await curves(page, loss), String(methods));
  }
  const settings = section(page, "experiment");
  assert.ok(await settings.locator("dt", { hasText: /^train\.epochs$/ }).isVisible(), "not at its default");
  assert.equal(await settings.locator("dt", { hasText: /^train\.momentum$/ }).count(), 0);
  await settings.getByRole("button", { name: "All settings" }).click();
  assert.ok(await settings.locator("dt", { hasText: /^train\.momentum$/ }).isVisible());
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as CSV: Training loss against rounds" }).click(),
  ]);
  assert.equal(saved.suggestedFilename(), "train-loss-rounds.csv");

  await section(page, "partition").locator("svg[role=img] path").first().waitFor({ state: "attached" });
  const noise = section(page, "clients").locator("svg path.wrong");
  assert.match((await noise.getAttribute("d")) ?? "", /^M/, "no client has wrong labels");
  assert.equal(await page.getByText("cannot be drawn").count(), 0);
}
