// Who holds what: classes against clients.
import { type Partition, partitionOf } from "../data";
import { h, responsive, segmented } from "../dom";
import { plural, whole } from "../format";
import { heatMap } from "../heat_map";
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
  const body = h("div");
  const draw = (): void => {
    body.replaceChildren(
      partition
        ? partitionFigure(partition, labels)
        : h("p", { class: "empty" }, "This run directory does not record its partition."),
    );
  };
  const element = h(
    "section",
    { "aria-labelledby": "partition" },
    h("h3", { id: "partition" }, "Partition"),
    h(
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
    ),
    body,
  );
  return {
    element,
    update(view) {
      partition = view.subject && partitionOf(view.report, view.subject);
      draw();
    },
  };
}

function partitionFigure(partition: Partition, labels: Labels): HTMLElement {
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
        columnTitle: "client (bold: noisy)",
        mark: (column) => clients[drawn[column]].noisy,
      },
      width,
      22,
    ),
  );
  const noisy = clients.filter((client) => client.noisy).length;
  const left = drawn.length < clients.length ? ` Drawn: ${drawn.length} of them, evenly chosen.` : "";
  return h(
    "figure",
    {},
    host,
    h(
      "p",
      { class: "note" },
      `${partition.data}: ${whole(partition.train)} training samples over ${plural(clients.length, "client")}, ` +
        `${whole(Math.min(...sizes))} to ${whole(Math.max(...sizes))} each; ${noisy} of the clients are noisy. ` +
        `The deepest colour is ${plural(most, "sample")}.${left}`,
    ),
  );
}
