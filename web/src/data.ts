// The data of the page as `winnow report --json` prints it (src/winnow/sweep/report_data.h), and the
// questions the sections ask of it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type ByClient<T> = Record<string, T>;

export interface History {
  round: number[];
  accuracy: (number | null)[];
  participations: number[];
  bytes: number[];
  seconds: number[];
  loss?: (number | null)[]; // on the test set
  train_loss?: (number | null)[];
  label_precision?: (number | null)[];
  label_recall?: (number | null)[];
}

export interface Score {
  by_client: ByClient<number | null>;
  correlation_with_noise?: number | null;
  roc_area?: number | null;
  mixture?: { means: number[]; variances: number[]; weights: number[] };
}

// How alike some clients are, a row for each.
export interface Likeness {
  of: string; // what was compared
  known: number; // clients that could have been
  clients: number[];
  values: number[][]; // -1 to 1
}

export interface Findings {
  round?: number;
  flagged?: number[];
  noise_levels?: ByClient<{ estimated: number | null; real?: number | null }>;
  scores?: Record<string, Score>;
  series?: Record<string, Score[]>; // one entry for every time that they were taken
  likeness?: Likeness;
  confusion?: { before: number[][]; after?: number[][] };
}

// How right labels were at one time.
export interface LabelsAt {
  name: string; // "start", or the stage that has ended
  round: number;
  levels: ByClient<number>; // share of wrong labels
  splits: ByClient<[found: number, falseAlarms: number, missed: number, leftAlone: number]>;
  confusions?: ByClient<number[][]>; // [true][label], of some clients
}

export interface GroupImage {
  client: number;
  noisy: boolean | null; // null: not known
  png: string; // in base64
}

export interface Summary {
  participations: number;
  bytes_up: number;
  bytes_down: number;
  client_steps: number;
  train_seconds: number;
  wall_seconds: number;
  model_hash: string;
  device?: string;
  precision?: string;
  lanes?: number;
  libtorch?: string;
  uses_ground_truth?: boolean;
  truth_unknown?: boolean; // as in the partition
  // Null where it has no meaning: the precision of no flags, the recall of no noisy clients.
  detection?: {
    flagged: number;
    flag_precision?: number | null;
    flag_recall?: number | null;
    flag_accuracy?: number; // share of all clients on the right side
    // As runs of version 0.1 call them.
    precision?: number | null;
    recall?: number | null;
    accuracy?: number;
  };
  selection?: { label_precision: number; label_recall: number };
  relabel?: {
    wrong_to_right: number;
    wrong_to_wrong: number;
    right_to_wrong: number;
    wrong_before: number;
    wrong_now: number;
  };
}

export interface PartitionClient {
  samples: number;
  true_classes: number[];
  given_classes: number[];
  wrong_share: number;
  distorted_share: number;
  noisy: boolean;
}

export interface Partition {
  data: string;
  train: number;
  test: number;
  class_names: string[];
  clients: PartitionClient[];
  truth_unknown?: boolean; // the user's own labels, with no noise put on them
}

export type MemberStatus = "enrolled" | "present" | "working" | "away" | "left" | "revoked" | "done";

export interface Member {
  name: string;
  client: number;
  status: MemberStatus;
  last_seen: string | null; // "2026-11-18T06:20:00.123Z"
  expires: string | null; // its certificate
  samples: number;
  rounds: number;
  absences: number;
  refusals: number;
  version?: string;
}

export interface Run {
  id: string;
  row: string;
  column: string;
  seed: string; // it may have more digits than a number keeps
  status: "waiting" | "started" | "stopped" | "finished" | "failed";
  uses_ground_truth?: boolean;
  experiment?: { [key: string]: Json };
  changed?: string[]; // keys of the experiment that are not at their defaults
  planned_rounds?: number | null;
  history?: History;
  summary?: Summary;
  findings?: Findings;
  labels?: LabelsAt[];
  members?: { round: number; members: Member[] }; // of a federation that is or was served
  norms?: { thinned: boolean; by_client: ByClient<number[]> };
  images?: { flagged: GroupImage[]; others: GroupImage[] };
  partition?: number;
}

export interface ArenaCell {
  runs: number;
  mean: number; // percent
  rank: number | null; // none: a reference, told the truth
  difference: number | null; // to the reference, in points
}

export interface ArenaMethod {
  name: string;
  uses_ground_truth: boolean;
  rank: number | null;
  wins: number;
  settings: number;
  runs: number;
  worst: { points: number; setting: string } | null;
  bytes: number | null;
  seconds: number | null;
  reveals: { field: string; tells: string }[] | null; // beside model and number of samples
  cells: (ArenaCell | null)[]; // by setting; null: missing
}

// Which method wins where (src/winnow/report/arena.h).
export interface Arena {
  metric: string;
  reference: string;
  settings: string[];
  methods: ArenaMethod[]; // the best first, references last
  not_begun: string[];
  cells: number;
  missing: number;
}

export interface Report {
  version: string;
  runs: Run[];
  partitions: Partition[];
  arena?: Arena; // of a sweep that is one
  live?: string;
}

// The data as they arrive, in the form above.
export function readReport(data: Report): Report {
  return { ...data, runs: data.runs.map((run) => ({ ...run, seed: String(run.seed) })) };
}

// Of as many values as there are; a call takes only so many arguments.
export const most = (values: number[]): number => values.reduce((a, b) => Math.max(a, b), -Infinity);
export const least = (values: number[]): number => values.reduce((a, b) => Math.min(a, b), Infinity);

export const isNumber = (value: unknown): value is number => Number.isFinite(value);

const unique = <T>(values: T[]): T[] => [...new Set(values)];

export const methods = (report: Report): string[] => unique(report.runs.map((run) => run.row));
export const settings = (report: Report): string[] => unique(report.runs.map((run) => run.column));
export const seeds = (report: Report): string[] => unique(report.runs.map((run) => run.seed));

export const runsOf = (report: Report, setting: string, method?: string): Run[] =>
  report.runs.filter(
    (run) => run.column === setting && (method === undefined || run.row === method),
  );

export const isFinished = (run: Run): boolean => run.status === "finished";

// Several rows may be variants of one method. What a run that has not begun plays is known from the others of its row.
export const methodNames = (report: Report): string[] => {
  const begun = report.runs.filter((run) => run.experiment);
  const rows = new Set(begun.map((run) => run.row));
  const others = report.runs.filter((run) => !rows.has(run.row));
  return unique([...begun, ...others].map((run) => String(tableOf(run, "method").name ?? run.row)));
};

export const partitionOf = (report: Report, run: Run): Partition | undefined =>
  run.partition === undefined ? undefined : report.partitions[run.partition];

const tableOf = (run: Run, name: string): { [key: string]: Json } =>
  (run.experiment?.[name] ?? {}) as { [key: string]: Json };

// Of every run what its partition says, or else what was asked for.
export const dataNames = (report: Report): string[] =>
  unique(
    report.runs.map((run) => partitionOf(report, run)?.data ?? tableOf(run, "data").name),
  ).filter((name): name is string => typeof name === "string");

export const clientCounts = (report: Report): number[] =>
  unique(
    report.runs.map(
      (run) => partitionOf(report, run)?.clients.length ?? tableOf(run, "federation").clients,
    ),
  )
    .filter(isNumber)
    .sort((a, b) => a - b);

// The run says so from its first round on; of older runs only the summary does.
export const usesTruth = (runs: Run[]): boolean =>
  runs.some((run) => run.uses_ground_truth || run.summary?.uses_ground_truth);

const kMostCompared = 1000; // classes, as kMostConfusionClasses of src/winnow/judge/quality.h

// Whether there are too many classes to record how labels were confused.
export const tooManyToCompare = (report: Report, run: Run | undefined): boolean =>
  run !== undefined && (partitionOf(report, run)?.class_names.length ?? 0) > kMostCompared;

// The partition says so from the first round on. Directories of version 0.1 have it in the summary;
// until that is there, findings that compare no labels say the same.
export const truthUnknown = (report: Report, run: Run | undefined): boolean =>
  (run && partitionOf(report, run)?.truth_unknown) ??
  run?.summary?.truth_unknown ??
  (run?.findings?.round !== undefined &&
    run.findings.confusion === undefined &&
    !tooManyToCompare(report, run));

// By client; undefined where it is not known.
export function trulyNoisy(report: Report, run: Run | undefined): (id: string | number) => boolean | undefined {
  const clients = truthUnknown(report, run) || run === undefined ? [] : (partitionOf(report, run)?.clients ?? []);
  return (id) => clients[Number(id)]?.noisy;
}

// Of a client's samples; undefined where it is not known.
export function noiseOf(report: Report, run: Run | undefined): (id: string | number) => number | undefined {
  const clients = truthUnknown(report, run) || run === undefined ? [] : (partitionOf(report, run)?.clients ?? []);
  return (id) => {
    const client = clients[Number(id)];
    return client && Math.max(client.wrong_share, client.distorted_share);
  };
}

export interface Accuracies {
  best: number;
  last: number;
  last10?: number; // not there where one of the last ten rounds was not evaluated
}

const kLastRounds = 10;

// As the program's table has them, also while a run goes on.
export function accuracies(run: Run): Accuracies | undefined {
  const rounds = run.history?.accuracy ?? [];
  const values = rounds.filter(isNumber);
  if (values.length === 0) {
    return undefined;
  }
  const tail = rounds.slice(-kLastRounds);
  return {
    best: most(values),
    last: values[values.length - 1],
    ...(tail.every(isNumber) && {
      last10: tail.reduce((sum, value) => sum + value, 0) / tail.length,
    }),
  };
}

const kRounding = 1e-9; // what shares may have lost on their way

// A share such as 0.29 is 29 whole percent, though 100 * 0.29 is a little less.
export const wholePercent = (share: number): number => Math.floor(100 * share + kRounding) / 100;

// The participations up to the first round whose accuracy is at least `target`.
export function costUntil(run: Run, target: number): number | undefined {
  const history = run.history;
  const at = history?.accuracy.findIndex((value) => value !== null && value + kRounding >= target) ?? -1;
  return history === undefined || at < 0 ? undefined : history.participations[at];
}

export type Verdict = "hit" | "false alarm" | "missed" | "left alone" | "flagged" | "not flagged";

// `noisy` is undefined where the truth is not known.
export function verdict(flagged: boolean, noisy: boolean | undefined): Verdict {
  if (noisy === undefined) {
    return flagged ? "flagged" : "not flagged";
  }
  if (flagged) {
    return noisy ? "hit" : "false alarm";
  }
  return noisy ? "missed" : "left alone";
}
