// Accuracy against rounds, and against what the rounds cost.
import { methods } from "../data";
import { curves, kCosts, kSpreads, options } from "../curves";
import { h, segmented } from "../dom";
import { LineChart } from "../line_chart";
import { needsDashes } from "../palette";
import type { XAxis } from "../stats";
import { type Section, type View, visibleGroups } from "../view";

const kTitle = "Test accuracy";

export function accuracySection(): Section {
  let mode = kSpreads[0].value;
  let cost: XAxis = "participations";
  let view: View | undefined;
  const byRound = new LineChart(options("round", "accuracy", kTitle));
  const byCost = new LineChart(options(cost, "accuracy", kTitle));
  const draw = (): void => {
    if (view) {
      byCost.describe(options(cost, "accuracy", kTitle));
      byRound.show(curves(view, "round", "accuracy", mode));
      byCost.show(curves(view, cost, "accuracy", mode));
    }
  };
  const note = h("p", { class: "note" });
  const controls = h(
    "div",
    { class: "controls" },
    segmented("Spread over seeds", kSpreads, mode, (value) => {
      mode = value;
      draw();
    }),
    segmented("Cost on the second chart", kCosts, cost, (value) => {
      cost = value;
      draw();
    }),
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
          ? `Lines are means over up to ${most} seeds, round by round over the seeds that reached the ` +
            "round; bands are ± one standard deviation. Against cost a mean ends where the first of its seeds does."
          : "One run for each line: there is no spread to show.";
      const dashes =
        "A dashed line is a method that is told the truth about the noise, as a reference." +
        (needsDashes(methods(view.report).length)
          ? " Dots, and dots between dashes, only tell methods of one colour apart."
          : "");
      note.textContent = `${lines} ${dashes}`;
      draw();
    },
  };
}
