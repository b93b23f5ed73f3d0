// Means and spreads over seeds.
import { type History, isNumber, least, most, type Run } from "./data";

export interface Spread {
  mean: number;
  deviation: number; // of the sample (n - 1); 0 for a single value
  count: number;
}

export function spread(values: number[]): Spread | undefined {
  if (values.length === 0) {
    return undefined;
  }
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
  return { mean, deviation, count: values.length };
}

// Over the runs that have a value.
export function spreadOf(
  runs: Run[],
  value: (run: Run) => number | null | undefined,
): Spread | undefined {
  return spread(runs.map(value).filter(isNumber));
}

export type XAxis = "round" | "participations" | "bytes" | "seconds";
export type YAxis = "accuracy" | "loss" | "train_loss" | "label_precision" | "label_recall";

export interface Points {
  x: number[];
  y: number[];
  low?: number[];
  high?: number[];
  counts?: number[]; // runs in a mean
  deviations?: (number | undefined)[]; // over these, where they are two or more
}

export function pointsOf(history: History, xAxis: XAxis, yAxis: YAxis): Points {
  const points: Points = { x: [], y: [] };
  const values = history[yAxis] ?? [];
  history.round.forEach((_, i) => {
    const value = values[i];
    if (isNumber(value)) {
      points.x.push(history[xAxis][i]);
      points.y.push(value);
    }
  });
  return points;
}

// Round by round the mean over the runs that have a value there, and the mean ± deviation where two
// or more have. Rounds cost the runs differently: off the round axis a mean over fewer runs could lie to
// the left of the one before, so only rounds with as many runs as any count there.
export function meanPoints(runs: Run[], xAxis: XAxis, yAxis: YAxis): Points {
  const rounds = new Map<number, { x: number[]; y: number[] }>();
  for (const { history } of runs) {
    history?.round.forEach((round, i) => {
      const value = history[yAxis]?.[i];
      if (!isNumber(value)) {
        return;
      }
      let entry = rounds.get(round);
      if (entry === undefined) {
        rounds.set(round, (entry = { x: [], y: [] }));
      }
      entry.x.push(history[xAxis][i]);
      entry.y.push(value);
    });
  }
  const full = most([...rounds.values()].map(({ y }) => y.length));
  const rows = [...rounds.values()]
    .filter(({ y }) => xAxis === "round" || y.length === full)
    .map(({ x, y }) => ({ x: spread(x)!.mean, y: spread(y)! }));
  rows.sort((a, b) => a.x - b.x);
  const points: Points = {
    x: rows.map((row) => row.x),
    y: rows.map((row) => row.y.mean),
    counts: rows.map((row) => row.y.count),
    deviations: rows.map((row) => (row.y.count > 1 ? row.y.deviation : undefined)),
  };
  if (rows.some((row) => row.y.count > 1)) {
    points.low = rows.map((row) => row.y.mean - row.y.deviation);
    points.high = rows.map((row) => row.y.mean + row.y.deviation);
  }
  return points;
}

export interface Histogram {
  start: number;
  width: number; // of a bin
  counts: number[][]; // one list per group
}

export function histogram(groups: number[][], bins: number): Histogram {
  const all = groups.flat();
  const start = least(all);
  const width = (most(all) - start) / bins || 1;
  const counts = groups.map((values) => {
    const found = new Array<number>(bins).fill(0);
    for (const value of values) {
      found[Math.min(bins - 1, Math.floor((value - start) / width))] += 1;
    }
    return found;
  });
  return { start, width, counts };
}

export const normalDensity = (x: number, mean: number, variance: number): number =>
  Math.exp(-((x - mean) ** 2) / (2 * variance)) / Math.sqrt(2 * Math.PI * variance);

// A smooth curve over `points` places from the first to the last value of all groups: the mean of normal
// distributions around the values of each group, as wide as Silverman's rule says for the group.
export function densities(groups: number[][], points: number): { x: number[]; y: number[][] } {
  const all = groups.flat();
  const low = least(all);
  const high = most(all);
  const room = 0.08 * (high - low) || 1;
  const x = Array.from(
    { length: points },
    (_, i) => low - room + ((high - low + 2 * room) * i) / (points - 1),
  );
  return { x, y: groups.map((values) => densityOf(values, x, (high - low) / 200 || 1e-3)) };
}

function densityOf(values: number[], x: number[], narrowest: number): number[] {
  const sorted = [...values].sort((a, b) => a - b);
  const quarter = (share: number) => sorted[Math.floor(share * (sorted.length - 1))];
  const range = (quarter(0.75) - quarter(0.25)) / 1.34;
  const { deviation } = spread(values)!;
  const typical = range > 0 ? Math.min(deviation, range) : deviation;
  const width = Math.max(0.9 * typical * values.length ** -0.2, narrowest);
  return x.map(
    (at) =>
      values.reduce((sum, value) => sum + normalDensity(at, value, width * width), 0) / values.length,
  );
}

// At most about `count` round numbers from low to high.
export function roundTicks(low: number, high: number, count: number): number[] {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => span / one <= count)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
