// How well clients chose what to train on, round by round.
import { curves, options } from "../curves";
import { h, segmented } from "../dom";
import { LineChart } from "../line_chart";
import type { XAxis } from "../stats";
import type { Section, View } from "../view";

const kPrecision = "Label precision (right labels among the chosen)";
const kRecall = "Label recall (chosen among the right labels)";

export function selectionSection(): Section {
  let axis: XAxis = "round";
  let view: View | undefined;
  const precision = new LineChart(options(axis, "label_precision", kPrecision));
  const recall = new LineChart(options(axis, "label_recall", kRecall));
  const draw = (): void => {
    precision.describe(options(axis, "label_precision", kPrecision));
    recall.describe(options(axis, "label_recall", kRecall));
    if (view) {
      precision.show(curves(view, axis, "label_precision"));
      recall.show(curves(view, axis, "label_recall"));
    }
  };
  const element = h(
    "section",
    { "aria-labelledby": "selection" },
    h("h2", { id: "selection" }, "Choice of samples"),
    h(
      "div",
      { class: "controls" },
      segmented(
        "What the choice of samples is drawn against",
        [
          { value: "round", text: "Rounds" },
          { value: "participations", text: "Participations" },
        ],
        axis,
        (value) => {
          axis = value;
          draw();
        },
      ),
    ),
    h("div", { class: "pair" }, precision.element, recall.element),
    h(
      "p",
      { class: "note" },
      "For methods whose clients train on part of their samples: mean over the clients of a round.",
    ),
  );
  return {
    element,
    update(next) {
      view = next;
      const chose = (run: (typeof next.report.runs)[number]) =>
        run.history?.label_precision !== undefined;
      element.hidden = !next.report.runs.some(chose);
      draw();
    },
  };
}
