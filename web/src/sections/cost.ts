// What each method costs: one card per method.
import { accuracies, costUntil, isFinished, type Run, wholePercent } from "../data";
import { h } from "../dom";
import { bytes, percent, seconds, whole } from "../format";
import { renew } from "../renew";
import { type Spread, spreadOf } from "../stats";
import { groups, kUsesTruth, type Section, type View } from "../view";

interface Measure {
  title: string;
  value: (run: Run) => number | undefined;
  format: (value: number) => string;
}

const last = (values: number[] | undefined): number | undefined => values?.[values.length - 1];

const kMeasures: Measure[] = [
  { title: "Participations", value: (run) => last(run.history?.participations), format: whole },
  { title: "Sent by clients", value: (run) => run.summary?.bytes_up, format: bytes },
  { title: "Sent to clients", value: (run) => run.summary?.bytes_down, format: bytes },
  { title: "Training steps", value: (run) => run.summary?.client_steps, format: whole },
  { title: "Training time", value: (run) => run.summary?.train_seconds, format: seconds },
  { title: "Wall time", value: (run) => last(run.history?.seconds), format: seconds },
];

// The highest whole percent that every finished run has reached.
function commonTarget(view: View): number | undefined {
  const runs = groups(view).flatMap((group) => group.runs.filter(isFinished));
  const best = runs.map((run) => accuracies(run)?.best);
  const reached = best.filter((value): value is number => value !== undefined);
  return reached.length > 1 ? wholePercent(Math.min(...reached)) : undefined;
}

export function costSection(): Section {
  const cards = h("div", { class: "cards" });
  const note = h("p", { class: "note" });
  const element = h(
    "section",
    { "aria-labelledby": "cost" },
    h("h2", { id: "cost" }, "Cost"),
    cards,
    note,
  );
  return {
    element,
    update(view) {
      const target = commonTarget(view);
      const measures = [...kMeasures];
      if (target !== undefined) {
        measures.splice(1, 0, {
          title: `… until ${percent(target, 0)}%`,
          value: (run) => costUntil(run, target),
          format: whole,
        });
      }
      const rows = groups(view).map(({ method, look, runs, isRival }) => {
        const finished = runs.filter(isFinished);
        return {
          method: isRival ? method : `${method} ${kUsesTruth}`,
          colour: look.colour,
          cells: measures.map((measure) => spreadOf(finished, measure.value)),
          lacking: finished.length < runs.length && `${finished.length} of ${runs.length} runs done`,
        };
      });
      const most = measures.map((_, i) => Math.max(...rows.map((row) => row.cells[i]?.mean ?? 0)));
      renew(cards, [target, rows], () =>
        rows.map((row) =>
          h(
            "article",
            { class: "card", style: `--hue: var(${row.colour})` },
            h("h3", {}, row.method),
            row.lacking && h("p", { class: "note" }, row.lacking),
            h(
              "dl",
              {},
              ...row.cells.flatMap((cell, i) => entry(measures[i], cell, most[i])),
            ),
          ),
        ),
      );
      note.textContent =
        "Means over the finished runs, all rounds; bars compare the methods. Bytes are counted message by message." +
        (target === undefined
          ? ""
          : ` ${percent(target, 0)}% is the highest whole percent that every finished run here reached; the participations until then are those up to the first such round.`);
    },
  };
}

function entry(measure: Measure, cell: Spread | undefined, most: number): Node[] {
  const share = cell === undefined || most === 0 ? 0 : cell.mean / most;
  return [
    h("dt", {}, measure.title),
    h(
      "dd",
      {},
      cell === undefined ? "–" : measure.format(cell.mean),
      h("span", { class: "gauge", style: `width: ${(100 * share).toFixed(1)}%`, "aria-hidden": "true" }),
    ),
  ];
}
