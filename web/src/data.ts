// The data of the page as `winnow report --json` prints it (src/winnow/run/report_data.h), and the
// questions the sections ask of it.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type ByClient<T> = Record<string, T>;

export interface History {
  round: number[];
  accuracy: (number | null)[];
  participations: number[];
  bytes: number[];
  seconds: number[];
  label_precision?: (number | null)[];
  label_recall?: (number | null)[];
}

export interface Score {
  by_client: ByClient<number>;
  correlation_with_noise?: number;
  roc_area?: number;
  mixture?: { means: number[]; variances: number[]; weights: number[] };
}

export interface Findings {
  round?: number;
  flagged?: number[];
  noise_levels?: ByClient<{ estimated: number; real: number }>;
  scores?: Record<string, Score>;
  confusion?: { before: number[][]; after?: number[][] };
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
  noise?: { noisy_clients: number; samples: number; wrong_labels: number; distorted: number };
  detection?: { flagged: number; precision: number; recall: number };
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
}

export interface Run {
  id: string;
  row: string;
  column: string;
  seed: number;
  status: "waiting" | "started" | "finished";
  experiment?: { [key: string]: Json };
  planned_rounds?: number | null;
  history?: History;
  summary?: Summary;
  findings?: Findings;
  partition?: number;
}

export interface Report {
  version: string;
  runs: Run[];
  partitions: Partition[];
  live?: string;
}

const unique = <T>(values: T[]): T[] => [...new Set(values)];

export const methods = (report: Report): string[] => unique(report.runs.map((run) => run.row));
export const settings = (report: Report): string[] => unique(report.runs.map((run) => run.column));
export const seeds = (report: Report): number[] => unique(report.runs.map((run) => run.seed));

export const runsOf = (report: Report, setting: string, method?: string): Run[] =>
  report.runs.filter(
    (run) => run.column === setting && (method === undefined || run.row === method),
  );

export const partitionOf = (report: Report, run: Run): Partition | undefined =>
  run.partition === undefined ? undefined : report.partitions[run.partition];

export const usesTruth = (runs: Run[]): boolean =>
  runs.some((run) => run.summary?.uses_ground_truth === true);

const present = (values: (number | null)[]): number[] =>
  values.filter((value): value is number => value !== null);

export interface Accuracies {
  best: number;
  last: number;
  last10: number;
}

// As the program's table has them, also while a run goes on.
export function accuracies(run: Run): Accuracies | undefined {
  const values = present(run.history?.accuracy ?? []);
  if (values.length === 0) {
    return undefined;
  }
  const tail = values.slice(-10);
  return {
    best: Math.max(...values),
    last: values[values.length - 1],
    last10: tail.reduce((sum, value) => sum + value, 0) / tail.length,
  };
}

// The first round's entry of `column` where the accuracy is at least `target`.
export function costUntil(run: Run, target: number): number | undefined {
  const history = run.history;
  const at = history?.accuracy.findIndex((value) => value !== null && value >= target) ?? -1;
  return history === undefined || at < 0 ? undefined : history.participations[at];
}

export type Verdict = "hit" | "false alarm" | "missed" | "left alone";

export function verdict(flagged: boolean, noisy: boolean): Verdict {
  if (flagged) {
    return noisy ? "hit" : "false alarm";
  }
  return noisy ? "missed" : "left alone";
}
