// How alike the clients' models are to each other.
import { least, type Likeness, noiseOf, type Partition, partitionOf } from "../data";
import { h, responsive, segmented, table, unfold } from "../dom";
import { plural } from "../format";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import { figure } from "../save";
import type { Section, View } from "../view";

type Order = "number" | "class" | "noise";

export function likenessSection(): Section {
  let order: Order = "class";
  let view: View | undefined;
  const body = h("div");
  const draw = (): void => {
    const run = view?.subject;
    const likeness = run?.findings?.likeness;
    element.hidden = likeness === undefined;
    const partition = view && run && partitionOf(view.report, run);
    const noise = view ? noiseOf(view.report, run) : () => undefined;
    renew(body, [likeness, order, run?.partition, noise(0)], () =>
      likeness ? [likenessFigure(likeness, sorted(likeness, order, partition, noise), order)] : [],
    );
  };
  const element = h(
    "section",
    { "aria-labelledby": "likeness" },
    h("h3", { id: "likeness" }, "How alike clients are"),
    h(
      "div",
      { class: "controls" },
      segmented(
        "Order of the clients",
        [
          { value: "class", text: "By largest class" },
          { value: "noise", text: "By noise" },
          { value: "number", text: "By number" },
        ],
        order,
        (value) => {
          order = value;
          draw();
        },
      ),
    ),
    body,
  );
  return {
    element,
    update(next) {
      view = next;
      draw();
    },
  };
}

// Places in the matrix.
function sorted(
  likeness: Likeness,
  order: Order,
  partition: Partition | undefined,
  noise: (id: number) => number | undefined,
): number[] {
  const places = likeness.clients.map((_, i) => i);
  if (order === "number") {
    return places;
  }
  // Clients whose largest classes are the same stand together, those of the same second class beside.
  const classes = (id: number) => {
    const held = partition?.clients[id]?.true_classes ?? [];
    return held
      .map((count, c) => ({ count, c }))
      .sort((a, b) => b.count - a.count || a.c - b.c)
      .slice(0, 2)
      .reduce((key, { c }) => key * 10000 + c, 0);
  };
  const key = (place: number) =>
    order === "class" ? classes(likeness.clients[place]) : (noise(likeness.clients[place]) ?? 0);
  return places.sort((a, b) => key(a) - key(b) || a - b);
}

const kOrders: Record<Order, string> = {
  number: "by number",
  class: "by the two classes that they truly hold most of",
  noise: "by their share of noisy samples",
};

function likenessFigure(likeness: Likeness, order: number[], how: Order): HTMLElement {
  const names = order.map((place) => String(likeness.clients[place]));
  const pairs = likeness.values.flatMap((row, i) => row.filter((_, j) => i !== j));
  const low = Math.min(1, least(pairs));
  // From the least alike pair to the same client: what all share tells nothing apart.
  const share = (value: number) => (low < 1 ? (value - low) / (1 - low) : 1);
  const host = h("div", { class: "picture square" });
  responsive(host, (width) => {
    const side = Math.min(width, 620);
    return heatMap(
      {
        label: `Cosine of the ${likeness.of} of ${plural(names.length, "client")} for one random image, from ${low.toFixed(2)} to 1.`,
        rows: names,
        columns: names,
        value: (row, column) => ({
          share: share(likeness.values[order[row]][order[column]]),
          hue: "--clean",
        }),
        rowTitle: "client",
        columnTitle: "client",
      },
      side,
      side / names.length,
    );
  });
  const left =
    names.length < likeness.known
      ? ` Of ${plural(likeness.known, "client")} ${names.length} are compared, evenly chosen.`
      : "";
  return figure(
    { file: "likeness" },
    {},
    h("figcaption", {}, `Cosine of the clients' ${likeness.of} for one random image`),
    host,
    h(
      "p",
      { class: "note" },
      `No colour is ${low.toFixed(2)}, the least alike pair; the deepest is 1. Clients are sorted ${kOrders[how]}.${left}`,
    ),
    unfold(
      "Matrix as a table",
      () =>
        table(
          "Cosine by client and client",
          [{ title: "Client" }, ...names.map((name) => ({ title: name, number: true }))],
          order.map((row, i) => [
            names[i],
            ...order.map((column) => likeness.values[row][column].toFixed(2)),
          ]),
        ),
      "screen-only",
    ),
  );
}
