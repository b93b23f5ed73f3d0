// What the charts of all methods have in common: their axes, and a curve for each method or run.
import type { Run } from "./data";
import { bytes, percent, seconds, whole } from "./format";
import type { ChartOptions, Curve } from "./line_chart";
import { meanPoints, pointsOf, type XAxis, type YAxis } from "./stats";
import { type View, visibleGroups } from "./view";

export type SpreadMode = "mean" | "seeds";

export const kSpreads: { value: SpreadMode; text: string }[] = [
  { value: "mean", text: "Mean ± deviation" },
  { value: "seeds", text: "Every seed" },
];

export const kCosts: { value: XAxis; text: string }[] = [
  { value: "participations", text: "Participations" },
  { value: "bytes", text: "Traffic" },
  { value: "seconds", text: "Wall time" },
];

interface AxisWords extends Pick<ChartOptions, "x" | "formatX" | "formatTick"> {
  against: string;
  file: string;
}

const kAxes: Record<XAxis, AxisWords> = {
  round: { against: "rounds", file: "rounds", x: "round", formatX: (x) => `Round ${whole(x)}`, formatTick: whole },
  participations: {
    against: "participations",
    file: "participations",
    x: "participations (one client's training in one round)",
    formatX: (x) => `${whole(x)} participations`,
    formatTick: whole,
  },
  bytes: { against: "traffic", file: "bytes", x: "traffic (bytes sent and received)", formatX: bytes },
  seconds: { against: "wall time", file: "seconds", x: "wall time of the run", formatX: seconds },
};

const kFiles: Record<YAxis, string> = {
  accuracy: "accuracy",
  loss: "loss",
  train_loss: "train-loss",
  label_precision: "label-precision",
  label_recall: "label-recall",
};

// What the program draws against several things; the others have no axis in the names of their files.
const kAgainstCost = new Set<YAxis>(["accuracy", "loss", "train_loss"]);

const isLoss = (yAxis: YAxis): boolean => yAxis === "loss" || yAxis === "train_loss";

// Two decimals, as in the tables; whole percents, such as those of the axis, without.
const percentAt = (y: number): string => percent(y, Math.abs(y - Math.round(y * 100) / 100) < 1e-9 ? 0 : 2);
const lossAt = (y: number): string => String(Number(y.toPrecision(4)));

export function options(xAxis: XAxis, yAxis: YAxis, what: string): ChartOptions {
  const { against, file, x, formatX, formatTick } = kAxes[xAxis];
  return {
    title: `${what} against ${against}${isLoss(yAxis) ? "" : " (%)"}`,
    file: xAxis === "round" && !kAgainstCost.has(yAxis) ? kFiles[yAxis] : `${kFiles[yAxis]}-${file}`,
    columns: [xAxis, yAxis],
    x,
    formatX,
    formatTick,
    formatY: isLoss(yAxis) ? lossAt : percentAt,
  };
}

// One curve per method: the mean over its seeds with a band, or every seed by itself.
export function curves(view: View, xAxis: XAxis, yAxis: YAxis, mode: SpreadMode = "mean"): Curve[] {
  return visibleGroups(view).flatMap(({ method, runs, look }) => {
    const shown: Run[] = runs.filter((run) => run.history !== undefined);
    const base = { name: method, colour: look.colour, dash: look.dash };
    if (mode === "mean") {
      return [{ ...base, points: meanPoints(shown, xAxis, yAxis) }];
    }
    return shown.map((run) => ({
      ...base,
      seed: run.seed,
      thin: shown.length > 1,
      points: pointsOf(run.history!, xAxis, yAxis),
    }));
  });
}
