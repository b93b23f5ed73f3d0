// Made-up reports of any size, with the same form as `winnow report --json`.

// A small generator with a fixed start: the same report every time.
function generator() {
  let state = 1;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}

export function sample({
  methods = ["fedavg", "fedcorr", "oracle"],
  columns = ["IID", "Dirichlet 0.5"],
  seeds = [1, 2],
  rounds = 20,
  clients = 12,
  classes = 4,
} = {}) {
  const random = generator();
  const report = { winnow_report: 1, version: "test", runs: [], partitions: [] };
  seeds.forEach((seed) => report.partitions.push(partition(seed, clients, classes, random)));
  for (const column of columns) {
    for (const row of methods) {
      seeds.forEach((seed, i) => {
        report.runs.push(run({ row, column, seed, rounds, clients, classes, random }, i));
      });
    }
  }
  return report;
}

function partition(seed, clients, classes, random) {
  return {
    data: "synthetic",
    train: clients * 40,
    test: 100,
    class_names: Array.from({ length: classes }, (_, i) => `class ${i}`),
    clients: Array.from({ length: clients }, (_, client) => ({
      client,
      samples: 40,
      true_classes: new Array(classes).fill(10),
      given_classes: Array.from({ length: classes }, () => Math.floor(20 * random())),
      wrong_share: client % 2 === 0 ? 0.5 : 0,
      distorted_share: 0,
      noisy: client % 2 === 0,
    })),
  };
}

function run({ row, column, seed, rounds, clients, classes, random }, partition) {
  const list = Array.from({ length: rounds }, (_, i) => i + 1);
  const top = 0.6 + 0.3 * random();
  const little = generator(); // a little, apart from the draws of everything else
  const square = (right) =>
    Array.from({ length: classes }, (_, i) =>
      Array.from({ length: classes }, (__, j) => (i === j ? right : 5)),
    );
  const by = (value) =>
    Object.fromEntries(Array.from({ length: clients }, (_, i) => [i, value(i)]));
  return {
    id: `runs/${row}_${column}_s${seed}`,
    row,
    column,
    seed,
    status: "finished",
    partition,
    planned_rounds: rounds,
    experiment: {
      name: "sample",
      seed,
      method: { name: row, ...(row === "fedcorr" && { iterations: 3, mixup: 1 }) },
      train: { lr: 0.1, momentum: 0.5 },
    },
    changed: ["name", "seed", "method.name", "train.lr", ...(row === "fedcorr" ? ["method.iterations"] : [])],
    history: {
      round: list,
      accuracy: list.map((i) => top * (1 - Math.exp(-i / 8)) + 0.02 * random()),
      loss: list.map((i) => (i % 2 === 0 ? 2.3 * Math.exp(-i / 10) + 0.05 * little() : null)),
      train_loss: list.map((i) => 2 * Math.exp(-i / 6) + 0.05 * little()),
      participations: list.map((i) => i * 5),
      bytes: list.map((i) => i * 1e6),
      seconds: list.map((i) => i * 1.5),
      ...(row === "fedcorr" && {
        label_precision: list.map(() => 0.8 + 0.1 * random()),
        label_recall: list.map(() => 0.7 + 0.1 * random()),
      }),
    },
    summary: {
      participations: rounds * 5,
      bytes_up: 4e7,
      bytes_down: 5e7,
      client_steps: 1000,
      train_seconds: 12,
      wall_seconds: 15,
      model_hash: "0123456789abcdef",
      device: "cpu",
      uses_ground_truth: row === "oracle" || undefined,
      detection: row === "fedcorr" ? { flagged: 3, flag_precision: 1, flag_recall: 0.5, flag_accuracy: 0.85 } : undefined,
    },
    findings:
      row === "fedcorr"
        ? {
            round: rounds,
            flagged: [0, 1, 2],
            noise_levels: by((i) => ({ estimated: i % 2 ? 0 : 0.4, real: 0.1 })),
            scores: {
              lid: {
                by_client: by((i) => (i % 2 ? 2 : 5) + random()),
                roc_area: 1,
                mixture: { means: [2.5, 5.5], variances: [0.1, 0.1], weights: [0.5, 0.5] },
              },
            },
            confusion: { before: square(20), after: square(60) },
          }
        : { round: rounds, confusion: { before: square(20) } },
  };
}

// A run with everything that the papers draw: FedCorr's scores and stages, FedRN's likeness, FedNS's norms
// and images.
export function addPictures(report, run = report.runs.find(({ row }) => row === "fedcorr")) {
  const random = generator();
  const { clients, class_names: names } = report.partitions[run.partition];
  const by = (value) => Object.fromEntries(clients.map((_, i) => [i, value(i)]));
  const score = (iteration) => ({
    by_client: by((i) => (clients[i].noisy ? 5 : 2) + iteration * random()),
    roc_area: 1,
    mixture: { means: [2.5, 5.5], variances: [0.1, 0.2], weights: [0.5, 0.5] },
  });
  const iterations = [1, 2, 3, 4, 5].map(score);
  run.findings.series = { lid: iterations, lid_cumulative: iterations };
  const level = (share) => by((i) => share * clients[i].wrong_share);
  const square = (right) =>
    names.map((_, i) => names.map((__, j) => (i === j ? right : Math.round(4 * random()))));
  const confusions = (right) => Object.fromEntries([0, 1, 2, 3, 4].map((id) => [id, square(right)]));
  const splits = Object.fromEntries(
    clients.flatMap(({ noisy }, i) => (noisy ? [[i, [15, 2, 5, 18]]] : [])),
  );
  run.labels = [
    { name: "start", round: 0, levels: level(1), splits: {}, confusions: confusions(5) },
    { name: "stage 1", round: 10, levels: level(0.4), splits, confusions: confusions(20) },
    { name: "stage 2", round: 15, levels: level(0.2), splits: {}, confusions: confusions(40) },
  ];
  const ids = clients.map((_, i) => i);
  run.findings.likeness = {
    of: "logits",
    known: clients.length,
    clients: ids,
    values: ids.map((i) => ids.map((j) => (i === j ? 1 : i % 2 === j % 2 ? 0.8 : 0.1))),
  };
  run.norms = {
    thinned: false,
    by_client: by((i) => Array.from({ length: 12 }, () => (clients[i].noisy ? 3 : 6) + 2 * random())),
  };
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAAAAABX3VL4AAAADklEQVR4nGNwOMBwwAEABgYCAXUCFc8AAAAASUVORK5CYII=";
  const images = (noisy) =>
    Array.from({ length: 9 }, (_, i) => ({ client: i % clients.length, noisy: noisy && i > 2, png: pixel }));
  run.images = { flagged: images(true), others: images(false) };
  return run;
}
