// Accuracy against rounds, and against what the rounds cost.
import { methods, type Run } from "../data";
import { h, segmented } from "../dom";
import { bytes, percent, seconds, whole } from "../format";
import { type ChartOptions, type Curve, LineChart } from "../line_chart";
import { needsDashes } from "../palette";
import { meanPoints, pointsOf, type XAxis, type YAxis } from "../stats";
import { type Section, type View, visibleGroups } from "../view";

type SpreadMode = "mean" | "seeds";

const kAxes: Record<XAxis, Omit<ChartOptions, "title" | "formatY">> = {
  round: { x: "round", formatX: (x) => `Round ${whole(x)}`, formatTick: whole },
  participations: {
    x: "participations (one client's training in one round)",
    formatX: (x) => `${whole(x)} participations`,
    formatTick: whole,
  },
  bytes: { x: "bytes sent and received", formatX: bytes },
  seconds: { x: "wall time of the run", formatX: seconds },
};

export function options(xAxis: XAxis, title: string): ChartOptions {
  return { title, ...kAxes[xAxis], formatY: (y) => percent(y, y === Math.round(y * 100) / 100 ? 0 : 1) };
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
      thin: shown.length > 1,
      points: pointsOf(run.history!, xAxis, yAxis),
    }));
  });
}

const title = (xAxis: XAxis): string =>
  ({
    round: "Test accuracy against rounds (%)",
    participations: "Test accuracy against participations (%)",
    bytes: "Test accuracy against traffic (%)",
    seconds: "Test accuracy against time (%)",
  })[xAxis];

export function accuracySection(): Section {
  let mode: SpreadMode = "mean";
  let cost: XAxis = "participations";
  let view: View | undefined;
  const byRound = new LineChart(options("round", title("round")));
  const byCost = new LineChart(options(cost, title(cost)));
  const draw = (): void => {
    if (view) {
      byCost.describe(options(cost, title(cost)));
      byRound.show(curves(view, "round", "accuracy", mode));
      byCost.show(curves(view, cost, "accuracy", mode));
    }
  };
  const note = h("p", { class: "note" });
  const controls = h(
    "div",
    { class: "controls" },
    segmented(
      "Spread over seeds",
      [
        { value: "mean", text: "Mean ± deviation" },
        { value: "seeds", text: "Every seed" },
      ],
      mode,
      (value) => {
        mode = value;
        draw();
      },
    ),
    segmented(
      "Cost on the second chart",
      [
        { value: "participations", text: "Participations" },
        { value: "bytes", text: "Traffic" },
        { value: "seconds", text: "Time" },
      ],
      cost,
      (value) => {
        cost = value;
        draw();
      },
    ),
  );
  const element = h(
    "section",
    { "aria-labelledby": "accuracy" },
    h("h2", { id: "accuracy" }, "Accuracy"),
    controls,
    h("div", { class: "pair" }, byRound.element, byCost.element),
    note,
  );
  return {
    element,
    update(next) {
      view = next;
      const begun = visibleGroups(view).map(({ runs }) => runs.filter((run) => run.history));
      const most = Math.max(0, ...begun.map((runs) => runs.length));
      const lines =
        most > 1
          ? `Lines are means over up to ${most} seeds, round by round over those that got there; bands ` +
            "are ± one standard deviation. Against cost a mean ends where the first of its seeds does."
          : "One run for each line: there is no spread to show.";
      const dashes =
        "A dashed line is a method that is told the truth, a bound rather than a rival." +
        (needsDashes(methods(view.report).length)
          ? " Dots, and dots between dashes, only tell methods of one colour apart."
          : "");
      note.textContent = `${lines} ${dashes}`;
      draw();
    },
  };
}
