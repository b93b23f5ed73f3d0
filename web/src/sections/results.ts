// Who won: accuracies, detection, repair and selection, one line per method.
import { accuracies, isFinished, type Run } from "../data";
import { type Column, h, table } from "../dom";
import { percentSpread } from "../format";
import { renew } from "../renew";
import { type Spread, spreadOf } from "../stats";
import { groups, type Section, type View } from "../view";

interface Measure extends Column {
  value: (run: Run) => number | null | undefined;
  applies?: (run: Run) => boolean; // to this run; without it to every one
}

const detects = (run: Run): boolean => run.summary?.detection !== undefined;

const kMeasures: Measure[] = [
  { title: "Last", value: (run) => accuracies(run)?.last },
  { title: "Last ten rounds", value: (run) => accuracies(run)?.last10 },
  { title: "Best", value: (run) => accuracies(run)?.best },
  { title: "Flag precision", value: (run) => run.summary?.detection?.precision, applies: detects },
  { title: "Flag recall", value: (run) => run.summary?.detection?.recall, applies: detects },
  { title: "Detection accuracy", value: (run) => run.summary?.detection?.accuracy, applies: detects },
  {
    title: "Wrong labels repaired",
    value: repaired,
    applies: (run) => run.summary?.relabel !== undefined,
  },
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
      "Percent; mean ± standard deviation over the finished runs of a line, one for each seed; without ± " +
        "it is a single run. Where runs are not finished, the line is never the best, in bold. Accuracies " +
        "are on the test set. Best is the best round, chosen on the test set, and so optimistic: read it " +
        "beside last.",
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
  canBeBest: boolean[]; // by measure
  cells: (Spread | undefined)[];
  used: boolean[]; // by measure
  done: string;
}

// Only what is finished counts: a run under way would be compared at another round.
const rowsOf = (view: View): Row[] =>
  groups(view).map(({ method, runs, look, isRival }) => {
    const finished = runs.filter(isFinished);
    const cells = kMeasures.map((measure) => spreadOf(finished, measure.value));
    return {
      method,
      colour: look.colour,
      canBeBest: cells.map((cell) => isRival && cell?.count === runs.length),
      cells,
      used: kMeasures.map(({ applies }) => applies === undefined || finished.some(applies)),
      done: `${finished.length} of ${runs.length}`,
    };
  });

function resultTable(rows: Row[]): HTMLElement {
  const used = kMeasures.map((_, i) => rows.some((row) => row.used[i]));
  const rivals = kMeasures.map((_, i) => rows.filter((row) => row.canBeBest[i]));
  const best = rivals.map((own, i) => Math.max(...own.map((row) => row.cells[i]!.mean)));
  const columns: Column[] = [
    { title: "Method" },
    ...kMeasures.filter((_, i) => used[i]).map(({ title }) => ({ title, number: true })),
    { title: "Runs done", number: true },
  ];
  return table(
    "Results by method",
    columns,
    rows.map(({ method, colour, cells, canBeBest, done }) => [
      h(
        "span",
        { class: "method" },
        h("span", { class: "swatch", style: `background: var(${colour})` }),
        method,
      ),
      ...cells
        .map((cell, i) =>
          cellText(cell, rivals[i].length > 1 && canBeBest[i] && cell?.mean === best[i]),
        )
        .filter((_, i) => used[i]),
      done,
    ]),
  );
}

const cellText = (cell: Spread | undefined, isBest: boolean): Node | string =>
  isBest ? h("strong", {}, percentSpread(cell)) : percentSpread(cell);
