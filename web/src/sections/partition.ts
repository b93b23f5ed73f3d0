// Who holds what: classes against clients.
import { type Partition, partitionOf, truthUnknown } from "../data";
import { h, responsive, segmented, table, unfold } from "../dom";
import { plural, whole } from "../format";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import type { Section } from "../view";

type Labels = "true_classes" | "given_classes";

const kDrawn = 120; // most clients drawn

// Evenly chosen from the first to the last.
function chosen(count: number): number[] {
  const drawn = Math.min(kDrawn, count);
  return Array.from({ length: drawn }, (_, i) =>
    drawn === 1 ? 0 : Math.round((i * (count - 1)) / (drawn - 1)),
  );
}

export function partitionSection(): Section {
  let labels: Labels = "true_classes";
  let partition: Partition | undefined;
  let judged = true; // is it known who is noisy?
  const body = h("div");
  const draw = (): void =>
    renew(body, [partition, labels, judged], () => [
      partition
        ? partitionFigure(partition, judged ? labels : "given_classes", judged)
        : h("p", { class: "empty" }, "This run directory does not record its partition."),
    ]);
  const controls = h(
    "div",
    { class: "controls" },
    segmented(
      "Labels counted",
      [
        { value: "true_classes", text: "True labels" },
        { value: "given_classes", text: "Given labels" },
      ],
      labels,
      (value) => {
        labels = value;
        draw();
      },
    ),
  );
  const element = h(
    "section",
    { "aria-labelledby": "partition" },
    h("h3", { id: "partition" }, "Partition"),
    controls,
    body,
  );
  return {
    element,
    update(view) {
      partition = view.subject && partitionOf(view.report, view.subject);
      judged = !truthUnknown(view.report, view.subject);
      controls.hidden = !judged;
      draw();
    },
  };
}

function partitionFigure(partition: Partition, labels: Labels, judged: boolean): HTMLElement {
  const { clients } = partition;
  const drawn = chosen(clients.length);
  const most = Math.max(1, ...clients.map((client) => Math.max(...client[labels])));
  const sizes = clients.map((client) => client.samples);
  const host = h("div", { class: "picture" });
  responsive(host, (width) =>
    heatMap(
      {
        label: `Samples of each class at ${plural(drawn.length, "client")}; the most in one cell is ${most}.`,
        rows: partition.class_names,
        columns: drawn.map(String),
        value: (row, column) => ({
          share: clients[drawn[column]][labels][row] / most,
          hue: "--clean",
        }),
        cellText: (row, column) => String(clients[drawn[column]][labels][row] || ""),
        rowTitle: "class",
        columnTitle: judged ? "client (bold: noisy)" : "client",
        mark: (column) => clients[drawn[column]].noisy,
      },
      width,
      22,
    ),
  );
  const noisy = clients.filter((client) => client.noisy).length;
  const truth = judged ? `${noisy} of the clients are noisy` : "which of them are noisy is not known";
  const left = drawn.length < clients.length ? ` Drawn: ${drawn.length} of them, evenly chosen.` : "";
  return h(
    "figure",
    {},
    host,
    h(
      "p",
      { class: "note" },
      `${partition.data}: ${whole(partition.train)} training samples over ${plural(clients.length, "client")}, ` +
        `${whole(Math.min(...sizes))} to ${whole(Math.max(...sizes))} each; ${truth}. ` +
        `The deepest colour is ${plural(most, "sample")}.${left}`,
    ),
    unfold("Partition as a table", () => partitionTable(partition, labels, judged), "screen-only"),
  );
}

// All clients, also those that were not drawn.
const partitionTable = (partition: Partition, labels: Labels, judged: boolean): HTMLElement =>
  table(
    labels === "true_classes" ? "Samples by client and true class" : "Samples by client and label",
    [
      { title: "Client" },
      { title: "Truly noisy" },
      { title: "Samples", number: true },
      ...partition.class_names.map((name) => ({ title: name, number: true })),
    ],
    partition.clients.map((client, id) => [
      String(id),
      judged ? (client.noisy ? "yes" : "no") : "–",
      whole(client.samples),
      ...client[labels].map(whole),
    ]),
  );
