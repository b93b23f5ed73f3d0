// Who holds what: classes against clients.
import { least, most, type Partition, partitionOf, truthUnknown } from "../data";
import { h, responsive, segmented, svg, table, unfold } from "../dom";
import { plural, whole } from "../format";
import { picture } from "../frame";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import { figure } from "../save";
import type { Section } from "../view";

type Labels = "true_classes" | "given_classes";
type Form = "matrix" | "bars";

const kDrawn = 120; // most clients drawn
const kNamed = 20; // most classes with a key

// Evenly chosen from the first to the last.
function chosen(count: number): number[] {
  const drawn = Math.min(kDrawn, count);
  return Array.from({ length: drawn }, (_, i) =>
    drawn === 1 ? 0 : Math.round((i * (count - 1)) / (drawn - 1)),
  );
}

export function partitionSection(): Section {
  let labels: Labels = "true_classes";
  let form: Form = "matrix";
  let partition: Partition | undefined;
  let judged = true; // is it known who is noisy?
  const body = h("div");
  const draw = (): void => {
    counted.hidden = !judged || form === "bars";
    renew(body, [partition, labels, form, judged], () => {
      if (partition === undefined) {
        return [h("p", { class: "empty" }, "This run directory does not record its partition.")];
      }
      return form === "bars"
        ? barFigures(partition, judged)
        : [partitionFigure(partition, judged ? labels : "given_classes", judged)];
    });
  };
  const counted = segmented(
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
  );
  const controls = h(
    "div",
    { class: "controls" },
    segmented(
      "How the partition is drawn",
      [
        { value: "matrix", text: "Matrix" },
        { value: "bars", text: "Bars" },
      ],
      form,
      (value) => {
        form = value;
        draw();
      },
    ),
    counted,
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
      draw();
    },
  };
}

function partitionFigure(partition: Partition, labels: Labels, judged: boolean): HTMLElement {
  const { clients } = partition;
  const drawn = chosen(clients.length);
  const largest = Math.max(1, most(clients.map((client) => most(client[labels]))));
  const sizes = clients.map((client) => client.samples);
  const host = h("div", { class: "picture" });
  responsive(host, (width) =>
    heatMap(
      {
        label: `Samples of each class at ${plural(drawn.length, "client")}; the most in one cell is ${largest}.`,
        rows: partition.class_names,
        columns: drawn.map(String),
        value: (row, column) => ({
          share: clients[drawn[column]][labels][row] / largest,
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
  const counted = labels === "true_classes" ? "true" : "given";
  return figure(
    { file: `partition-${counted}` },
    {},
    h("figcaption", {}, `Samples of each class by ${counted} label, client by client`),
    host,
    h(
      "p",
      { class: "note" },
      `${partition.data}: ${whole(partition.train)} training samples over ${plural(clients.length, "client")}, ` +
        `${whole(least(sizes))} to ${whole(most(sizes))} each; ${truth}. ` +
        `The deepest colour is ${plural(largest, "sample")}.${left}`,
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

// Apart in hue, and neighbours in lightness too.
const classColour = (c: number): string =>
  `hsl(${Math.round((c * 137.5) % 360)} 52% ${c % 2 === 0 ? 58 : 44}%)`;

// What every client holds, without and with the noise on its labels, one bar for a client.
function barFigures(partition: Partition, judged: boolean): HTMLElement[] {
  const { clients, class_names: names } = partition;
  const drawn = chosen(clients.length);
  const largest = Math.max(1, ...drawn.map((id) => clients[id].samples));
  const bars = (title: string, labels: Labels) => {
    const host = h("div", { class: "picture" });
    responsive(host, (width) => {
      const left = 34;
      const step = Math.max(6, Math.min(22, 440 / drawn.length));
      const bar = step > 8 ? step * 0.76 : step - 1;
      const scale = (width - left - 4) / largest;
      const paths = names.map((_, c) => {
        const d = drawn.map((id, i) => {
          const counts = clients[id][labels];
          const before = counts.slice(0, c).reduce((sum, count) => sum + count, 0);
          const y = (4 + i * step + (step - bar) / 2).toFixed(1);
          return counts[c] > 0
            ? `M${(left + before * scale).toFixed(1)} ${y}h${(counts[c] * scale).toFixed(1)}v${bar.toFixed(1)}h-${(counts[c] * scale).toFixed(1)}z`
            : "";
        });
        return svg("path", { d: d.join(""), style: `fill: ${classColour(c)}` });
      });
      const every = Math.ceil(12 / step);
      const numbers = drawn.flatMap((id, i) =>
        i % every === 0
          ? [
              svg(
                "text",
                {
                  x: left - 6,
                  y: 4 + (i + 0.5) * step,
                  class: judged && clients[id].noisy ? "row-name marked" : "row-name",
                },
                String(id),
              ),
            ]
          : [],
      );
      const height = 8 + drawn.length * step;
      return picture(
        width,
        height + 18,
        `${title}: samples of each class at ${plural(drawn.length, "client")}. The matrix has a table of them.`,
        ...paths,
        ...numbers,
        svg("text", { x: left, y: height + 8, class: "column-name", style: "text-anchor: start" }, "0"),
        svg(
          "text",
          { x: width - 4, y: height + 8, class: "column-name", style: "text-anchor: end" },
          plural(largest, "sample"),
        ),
      );
    });
    const file = `partition-bars-${labels === "true_classes" ? "true" : "given"}`;
    return figure({ file }, {}, h("figcaption", {}, title), host);
  };
  const key = (name: string, c: number) =>
    h("span", {}, h("i", { class: "key", style: `background: ${classColour(c)}` }), name);
  const left = drawn.length < clients.length ? ` Drawn: ${drawn.length} of ${plural(clients.length, "client")}, evenly chosen.` : "";
  return [
    h("p", { class: "keys" }, ...(names.length <= kNamed ? names.map(key) : [])),
    h(
      "div",
      { class: "pair" },
      ...(judged ? [bars("True labels", "true_classes")] : []),
      bars(judged ? "Given labels, with the noise" : "Given labels", "given_classes"),
    ),
    h(
      "p",
      { class: "note" },
      `A bar is a client${judged ? ", a bold number a noisy one" : ""}; its parts are the classes in their order.${left}`,
    ),
  ];
}
