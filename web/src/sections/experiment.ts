// The experiment itself: what all runs share, where they differ, and every run.
import { accuracies, isNumber, type Json, methods, type Report, type Run } from "../data";
import { h, segmented, table, unfold } from "../dom";
import { percent, plural, seconds } from "../format";
import { renew } from "../renew";
import type { Section } from "../view";

type Flat = Map<string, string>;

function flatten(value: Json, path: string, flat: Flat): Flat {
  const isList = Array.isArray(value);
  const isTree = value !== null && typeof value === "object" && !isList;
  if (isTree || (isList && value.some((entry) => entry !== null && typeof entry === "object"))) {
    for (const [key, entry] of Object.entries(value as object)) {
      flatten(entry as Json, path === "" ? key : `${path}.${key}`, flat);
    }
  } else {
    flat.set(path, typeof value === "string" ? value : JSON.stringify(value));
  }
  return flat;
}

const common = (flats: Flat[]): Flat =>
  new Map([...flats[0]].filter(([key, value]) => flats.every((flat) => flat.get(key) === value)));

type Shown = "changed" | "all";

export function experimentSection(): Section {
  let shown: Shown = "changed";
  let report: Report | undefined;
  const draw = (): void => {
    const described = report?.runs.filter((run) => run.experiment !== undefined) ?? [];
    choice.hidden = !described.some((run) => run.changed);
    renew(
      shared,
      [
        shown,
        described.map((run) => [run.row, run.column, run.seed, run.planned_rounds, run.experiment, run.changed]),
      ],
      () => settings(report!, described, shown),
    );
  };
  const choice = h(
    "div",
    { class: "controls" },
    segmented<Shown>(
      "Settings shown",
      [
        { value: "changed", text: "Changed settings" },
        { value: "all", text: "All settings" },
      ],
      shown,
      (value) => {
        shown = value;
        draw();
      },
    ),
  );
  const shared = h("div");
  const runs = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "experiment" },
    h("h2", { id: "experiment" }, "The experiment"),
    choice,
    shared,
    h("div", { class: "runs" }, h("h3", { id: "runs" }, "Runs"), runs),
  );
  return {
    element,
    update(view) {
      report = view.report;
      draw();
      const rows = report.runs.map(runRow);
      renew(runs, rows, () => [runTable(rows)]);
    },
  };
}

// The experiment as the run took it: with all digits of the seed, and the rounds of methods that have
// a schedule of their own.
const played = (run: Run): Json => ({
  ...run.experiment,
  seed: run.seed,
  ...(isNumber(run.planned_rounds) && { rounds: run.planned_rounds }),
});

// What an experiment file would have to say: settings that are not at their defaults in some run. A
// method may have its own number of rounds, so they are always shown. Directories of which the defaults
// are not known have everything shown.
function changedKeys(runs: Run[], shown: Shown): (key: string) => boolean {
  if (shown === "all" || runs.some((run) => run.changed === undefined)) {
    return () => true;
  }
  const changed = new Set(["rounds", ...runs.flatMap((run) => run.changed!)]);
  return (key) => changed.has(key);
}

function settings(report: Report, runs: Run[], shown: Shown): Element[] {
  if (runs.length === 0) {
    return [];
  }
  const flats = runs.map((run) => flatten(played(run), "", new Map()));
  const shared = common(flats);
  const isShown = changedKeys(runs, shown);
  const kept = new Map([...shared].filter(([key]) => isShown(key)));
  const left = shared.size - kept.size;
  return [
    ...(runs.length > 1 ? [differences(runs, flats, shared)] : []),
    h("h3", {}, runs.length === 1 ? "Settings" : "The same in all runs"),
    list(kept),
    ...(left > 0 ? [h("p", { class: "note" }, `${plural(left, "other setting")} at the default in all runs.`)] : []),
    ...methods(report).flatMap((method) => {
      const own = flats.filter((_, i) => runs[i].row === method);
      if (own.length === 0 || runs.length === 1) {
        return [];
      }
      const isOwn = changedKeys(runs.filter((run) => run.row === method), shown);
      const parameters = [...common(own)].filter(([key]) => key.startsWith("method.") && isOwn(key));
      return [unfold(`Parameters of ${method}`, () => list(new Map(parameters)), "on-paper")];
    }),
  ];
}

// Keys other than the method's own that are not the same everywhere: "value (settings)" for each value.
function differences(runs: Run[], flats: Flat[], shared: Flat): HTMLElement {
  const keys = [...new Set(flats.flatMap((flat) => [...flat.keys()]))].filter(
    (key) => !shared.has(key) && !key.startsWith("method."),
  );
  const count = new Set(runs.map((run) => run.column)).size;
  const rows = keys.map((key) => {
    const byValue = new Map<string, Set<string>>();
    flats.forEach((flat, i) => {
      const value = flat.get(key);
      if (value !== undefined) {
        byValue.set(value, (byValue.get(value) ?? new Set()).add(runs[i].column));
      }
    });
    const values = [...byValue].map(([value, columns]) =>
      columns.size < count ? `${quoted(value)} (${[...columns].join(", ")})` : quoted(value),
    );
    return [key, values.join(", ")];
  });
  return rows.length === 0
    ? h("p", {}, "All runs share every setting.")
    : table(
        "Settings in which the runs differ",
        [{ title: "Differs between runs" }, { title: "Values" }],
        rows,
      );
}

const quoted = (value: string): string => (value === "" ? '""' : value);

const list = (flat: Flat): HTMLElement =>
  h(
    "dl",
    { class: "settings" },
    ...[...flat].flatMap(([key, value]) => [
      h("div", {}, h("dt", {}, key), h("dd", {}, quoted(value))),
    ]),
  );

function runRow(run: Run): string[] {
  const share = (value: number | undefined) => (value === undefined ? "–" : percent(value));
  const done = run.history?.round.length ?? 0;
  const found = accuracies(run);
  const wall = run.summary?.wall_seconds ?? run.history?.seconds[done - 1];
  return [
    run.id.split("/").filter(Boolean).pop() ?? run.id,
    run.row,
    run.column || "–",
    run.seed,
    run.status,
    run.planned_rounds ? `${done} of ${run.planned_rounds}` : String(done),
    share(found?.best),
    share(found?.last),
    wall === undefined ? "–" : seconds(wall),
    run.summary ? [run.summary.device, run.summary.precision].filter(Boolean).join(" ") : "–",
    run.summary?.model_hash.slice(0, 12) ?? "–",
  ];
}

const runTable = (rows: string[][]): HTMLElement =>
  table(
    "Runs",
    [
      { title: "Directory" },
      { title: "Method" },
      { title: "Setting" },
      { title: "Seed", number: true },
      { title: "State" },
      { title: "Rounds", number: true },
      { title: "Best %", number: true },
      { title: "Last %", number: true },
      { title: "Wall time", number: true },
      { title: "Device" },
      { title: "Model hash" },
    ],
    rows.map((cells) => [...cells.slice(0, -1), h("code", {}, cells[cells.length - 1])]),
  );
