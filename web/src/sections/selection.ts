// How well clients chose what to train on, round by round.
import { h } from "../dom";
import { LineChart } from "../line_chart";
import type { Section } from "../view";
import { curves, options } from "./accuracy";

export function selectionSection(): Section {
  const precision = new LineChart(options("round", "Precision: right labels among the chosen (%)"));
  const recall = new LineChart(options("round", "Recall: chosen among the right labels (%)"));
  const element = h(
    "section",
    { "aria-labelledby": "selection" },
    h("h2", { id: "selection" }, "Choice of samples"),
    h("div", { class: "pair" }, precision.element, recall.element),
    h(
      "p",
      { class: "note" },
      "For methods whose clients train on part of their samples: mean over the clients of a round.",
    ),
  );
  return {
    element,
    update(view) {
      const chose = (run: (typeof view.report.runs)[number]) =>
        run.history?.label_precision !== undefined;
      element.hidden = !view.report.runs.some(chose);
      precision.show(curves(view, "round", "label_precision"));
      recall.show(curves(view, "round", "label_recall"));
    },
  };
}
