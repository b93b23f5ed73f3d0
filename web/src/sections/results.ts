// Who won: accuracies, detection, repair and selection, one line per method.
import { accuracies, type Run } from "../data";
import { type Column, h, table } from "../dom";
import { percentSpread } from "../format";
import { renew } from "../renew";
import { type Spread, spreadOf } from "../stats";
import { groups, type Section, type View } from "../view";

interface Measure extends Column {
  value: (run: Run) => number | undefined;
}

const kMeasures: Measure[] = [
  { title: "Last", value: (run) => accuracies(run)?.last },
  { title: "Mean of last 10", value: (run) => accuracies(run)?.last10 },
  { title: "Best", value: (run) => accuracies(run)?.best },
  { title: "Flag precision", value: (run) => run.summary?.detection?.precision },
  { title: "Flag recall", value: (run) => run.summary?.detection?.recall },
  { title: "Wrong labels repaired", value: repaired },
];

function repaired(run: Run): number | undefined {
  const counts = run.summary?.relabel;
  return counts && counts.wrong_before > 0 ? counts.wrong_to_right / counts.wrong_before : undefined;
}

export function resultsSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "results" },
    h("h2", { id: "results" }, "Results"),
    body,
    h(
      "p",
      { class: "note" },
      "Percent; mean ± standard deviation over the seeds. Accuracies are on the test set. Best is the " +
        "best round, chosen on the test set, and so optimistic: read it beside last.",
    ),
  );
  return {
    element,
    update(view) {
      const rows = rowsOf(view);
      renew(body, rows, () => [resultTable(rows)]);
    },
  };
}

interface Row {
  method: string;
  colour: string;
  isRival: boolean;
  cells: (Spread | undefined)[];
  done: string;
}

const rowsOf = (view: View): Row[] =>
  groups(view).map(({ method, runs, look, isRival }) => ({
    method,
    colour: look.colour,
    isRival,
    cells: kMeasures.map((measure) => spreadOf(runs, measure.value)),
    done: `${runs.filter((run) => run.status === "finished").length} of ${runs.length}`,
  }));

function resultTable(rows: Row[]): HTMLElement {
  const used = kMeasures.map((_, i) => i < 3 || rows.some((row) => row.cells[i] !== undefined));
  const best = kMeasures.map((_, i) =>
    Math.max(...rows.filter((row) => row.isRival).map((row) => row.cells[i]?.mean ?? -1)),
  );
  const columns: Column[] = [
    { title: "Method" },
    ...kMeasures.filter((_, i) => used[i]).map(({ title }) => ({ title, number: true })),
    { title: "Runs done", number: true },
  ];
  const several = rows.length > 1;
  return table(
    "Results by method",
    columns,
    rows.map(({ method, colour, cells, done }) => [
      h(
        "span",
        { class: "method" },
        h("span", { class: "swatch", style: `background: var(${colour})` }),
        method,
      ),
      ...cells
        .map((cell, i) => cellText(cell, several && cell?.mean === best[i]))
        .filter((_, i) => used[i]),
      done,
    ]),
  );
}

const cellText = (cell: Spread | undefined, isBest: boolean): Node | string =>
  isBest ? h("strong", {}, percentSpread(cell)) : percentSpread(cell);
