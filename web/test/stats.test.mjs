// The arithmetic of the page, without a browser.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { build } from "esbuild";

let stats;
let format;
let data;
let palette;
const load = async (name) => {
  const entry = new URL(`../src/${name}.ts`, import.meta.url).pathname;
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, format: "esm" });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
};
before(async () => {
  stats = await load("stats");
  format = await load("format");
  data = await load("data");
  palette = await load("palette");
});

const history = (accuracy, participations = accuracy.map((_, i) => i + 1)) => ({
  history: { round: accuracy.map((_, i) => i + 1), accuracy, participations },
});

test("spread is the mean and the sample deviation", () => {
  assert.deepEqual(stats.spread([1, 3]), { mean: 2, deviation: Math.SQRT2, count: 2 });
  assert.deepEqual(stats.spread([5]), { mean: 5, deviation: 0, count: 1 });
  assert.equal(stats.spread([]), undefined);
});

test("means go round by round over the runs that reached them", () => {
  const points = stats.meanPoints([history([0.2, null, 0.6]), history([0.4])], "round", "accuracy");
  assert.deepEqual(points.x, [1, 3]);
  assert.ok(Math.abs(points.y[0] - 0.3) < 1e-12);
  assert.equal(points.y[1], 0.6);
  assert.equal(points.low[1], 0.6);
});

test("one run has no band, and x is the mean of the runs' own", () => {
  assert.equal(stats.meanPoints([history([0.2])], "round", "accuracy").low, undefined);
  const both = stats.meanPoints(
    [history([0.1, 0.2], [10, 20]), history([0.1, 0.2], [20, 40])],
    "participations",
    "accuracy",
  );
  assert.deepEqual(both.x, [15, 30]);
});

test("off the round axis a mean never steps back: it ends with the first of its seeds", () => {
  const fast = history([0.1, 0.2, 0.3], [10, 20, 30]);
  const slow = history([0.1, 0.2], [100, 200]);
  const points = stats.meanPoints([fast, slow], "participations", "accuracy");
  assert.deepEqual(points.x, [55, 110]);
  assert.deepEqual(stats.meanPoints([fast, slow], "round", "accuracy").x, [1, 2, 3]);
  assert.deepEqual(stats.meanPoints([fast, history([])], "participations", "accuracy").x, [10, 20, 30]);
});

test("a spread is over the runs that have a number", () => {
  assert.equal(stats.spreadOf([{ v: 1 }, { v: null }, { v: NaN }, {}], (run) => run.v).count, 1);
  assert.equal(stats.spreadOf([{ v: null }], (run) => run.v), undefined);
});

test("a share of whole percents is not rounded down to the percent below", () => {
  for (let percent = 0; percent <= 100; percent += 1) {
    assert.equal(data.wholePercent(percent / 100), percent / 100);
  }
  assert.equal(data.wholePercent(0.2999), 0.29);
});

test("32 methods have 32 looks, none of them that of a method that is told the truth", () => {
  const looks = Array.from({ length: 32 }, (_, i) => JSON.stringify(palette.look(i, false)));
  assert.equal(new Set(looks).size, 32);
  assert.ok(Array.from({ length: 32 }, (_, i) => palette.look(i, true)).every(
    (look) => !looks.includes(JSON.stringify(look)),
  ));
});

test("last10 is the mean over the last ten rounds, not over ten evaluations", () => {
  const rounds = Array.from({ length: 30 }, (_, i) => (i < 20 ? (i % 3 === 2 ? 0.9 : null) : 0.5));
  assert.equal(data.accuracies(history(rounds)).last10, 0.5);
  rounds[25] = null;
  assert.equal(data.accuracies(history(rounds)).last10, undefined);
  assert.equal(data.accuracies(history(rounds)).last, 0.5);
  assert.equal(data.accuracies(history([0.25, 0.75])).last10, 0.5);
});

test("a histogram counts every value once, also when all are equal", () => {
  assert.deepEqual(stats.histogram([[0, 1], [1]], 2).counts, [[1, 1], [0, 1]]);
  assert.deepEqual(stats.histogram([[3, 3]], 4).counts, [[2, 0, 0, 0]]);
});

test("there may be more clients than a function takes arguments", () => {
  const values = Array.from({ length: 1_000_000 }, (_, i) => i);
  assert.equal(data.most(values), 999_999);
  assert.equal(data.least(values), 0);
  assert.deepEqual(stats.histogram([values], 2).counts, [[500_000, 500_000]]);
});

test("numbers are printed for people", () => {
  assert.equal(format.bytes(462_600), "463 kB");
  assert.equal(format.bytes(1_250_000), "1.3 MB");
  assert.equal(format.seconds(65), "1 min 05 s");
  assert.equal(format.percentSpread({ mean: 0.5, deviation: 0.012, count: 3 }), "50.00 ± 1.20");
  assert.equal(format.percentSpread(undefined), "–");
});

test("a density encloses an area of one", () => {
  const { x, y } = stats.densities([[1, 2, 2, 3], [7]], 400);
  const step = x[1] - x[0];
  for (const curve of y) {
    const area = curve.reduce((sum, value) => sum + value * step, 0);
    assert.ok(area > 0.9 && area < 1.01, `area ${area}`);
  }
});

test("ticks are round numbers", () => {
  assert.deepEqual(stats.roundTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(stats.roundTicks(-3, 12, 5), [0, 5, 10]);
});
