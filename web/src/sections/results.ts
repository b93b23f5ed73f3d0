// Who won: accuracies, detection, repair and selection, one line per method.
import { accuracies, isFinished, type Run } from "../data";
import { type Column, h, table } from "../dom";
import { percentSpread } from "../format";
import { renew } from "../renew";
import { type Spread, spreadOf } from "../stats";
import { groups, kUsesTruth, type Section, type View } from "../view";

interface Measure extends Column {
  metric?: string; // its name in `winnow table --metric`
  value: (run: Run) => number | null | undefined;
  applies?: (run: Run) => boolean; // to this run; without it to every one
}

const detects = (run: Run): boolean => run.summary?.detection !== undefined;

// Of the clients that were flagged; runs of version 0.1 have shorter names for it.
const flags =
  (what: "precision" | "recall" | "accuracy") =>
  (run: Run): number | null | undefined => {
    const found = run.summary?.detection;
    const value = found?.[`flag_${what}`];
    return value === undefined ? found?.[what] : value;
  };

const kMeasures: Measure[] = [
  { title: "Last", metric: "last", value: (run) => accuracies(run)?.last },
  { title: "Last ten rounds", metric: "last10", value: (run) => accuracies(run)?.last10 },
  { title: "Best", metric: "best", value: (run) => accuracies(run)?.best },
  { title: "Flag precision", metric: "flag_precision", value: flags("precision"), applies: detects },
  { title: "Flag recall", metric: "flag_recall", value: flags("recall"), applies: detects },
  { title: "Flag accuracy", metric: "flag_accuracy", value: flags("accuracy"), applies: detects },
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
  const references = h(
    "p",
    { class: "note" },
    `${kUsesTruth}: the method is told the truth about the noise. It is a reference, not a competitor, and never ` +
      "marked as best. A method that repairs labels keeps more data and can do better.",
  );
  const element = h(
    "section",
    { "aria-labelledby": "results" },
    h("h2", { id: "results" }, "Results"),
    body,
    h(
      "p",
      { class: "note" },
      "In percent: mean ± standard deviation over the finished runs, one for each seed; a value without ± is " +
        "from a single run. The best value of a column is bold; a line with unfinished runs is never the best. " +
        "Accuracies are measured on the test set. “Last ten rounds” is their mean. “Best” is the best round, " +
        "chosen on the test set and therefore optimistic: compare it with “Last”.",
    ),
    references,
  );
  return {
    element,
    update(view) {
      const rows = rowsOf(view);
      renew(body, rows, () => [resultTable(rows)]);
      references.hidden = !rows.some((row) => row.usesTruth);
    },
  };
}

interface Row {
  method: string;
  usesTruth: boolean;
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
      usesTruth: !isRival,
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
    ...kMeasures
      .filter((_, i) => used[i])
      .map(({ title, metric }) => ({ title, number: true, ...(metric && { hint: `${metric} in winnow table` }) })),
    { title: "Runs done", number: true },
  ];
  return table(
    "Results by method",
    columns,
    rows.map(({ method, usesTruth, colour, cells, canBeBest, done }) => [
      h(
        "span",
        { class: "method" },
        h("span", { class: "swatch", style: `background: var(${colour})` }),
        h("span", {}, method, usesTruth && ` ${kUsesTruth}`),
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
