// What a method that repairs labels has reached at the end of each of its stages, client by client.
import { isNumber, type LabelsAt, most, partitionOf, type Run } from "../data";
import { h, responsive, svg, table, unfold } from "../dom";
import { percent, plural, whole } from "../format";
import { dot, makeFrame, picture } from "../frame";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import { figure, filePart } from "../save";
import type { Section } from "../view";

const kLooks = ["wrong", "after", "later"]; // of the times, in their order

const timeName = (time: LabelsAt): string => (time.name === "start" ? "at the start" : `after ${time.name}`);

export function stagesSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "stages" },
    h("h3", { id: "stages" }, "Labels from stage to stage"),
    body,
  );
  return {
    element,
    update(view) {
      const run = view.subject;
      const times = run?.labels ?? [];
      element.hidden = times.length === 0;
      const names = (run && partitionOf(view.report, run)?.class_names) ?? [];
      renew(body, [times, names, run?.findings?.noise_levels], () =>
        times.length === 0
          ? []
          : [
              h("div", { class: "pair" }, levelsFigure(run!, times), ...splitFigure(times)),
              ...confusionFigures(times, names),
            ],
      );
    },
  };
}

const ids = (values: Record<string, unknown>): string[] => Object.keys(values);

function levelsFigure(run: Run, times: LabelsAt[]): HTMLElement {
  const estimated = (id: string) => run.findings?.noise_levels?.[id]?.estimated;
  const first = times[0].levels;
  const clients = ids(first).sort((a, b) => first[b] - first[a] || Number(a) - Number(b));
  const host = h("div", { class: "picture" });
  responsive(host, (width) => {
    const frame = makeFrame(
      width,
      190,
      { low: 0, high: clients.length, title: "clients, the noisiest first", format: () => "" },
      { low: 0, high: 1, title: "wrong labels (%)", format: (y) => percent(y, 0) },
    );
    const step = (frame.right - frame.left) / clients.length;
    const bar = step > 4 ? step * 0.72 : step;
    const from = (i: number) => frame.left + i * step + (step - bar) / 2;
    const paths = times.slice(0, kLooks.length).map((time, t) => {
      const d = clients.map((id, i) => {
        const level = time.levels[id];
        if (!isNumber(level)) {
          return "";
        }
        const y = frame.y(level).toFixed(1);
        return t === 0
          ? `M${from(i).toFixed(2)} ${frame.bottom}h${bar.toFixed(2)}V${y}h-${bar.toFixed(2)}z`
          : `M${from(i).toFixed(2)} ${y}h${bar.toFixed(2)}`;
      });
      return svg("path", { class: kLooks[t], d: d.join("") });
    });
    const radius = Math.max(1.6, Math.min(4, step / 3));
    const dots = clients.map((id, i) => {
      const level = estimated(id);
      return isNumber(level) ? dot(from(i) + bar / 2, frame.y(level), radius) : "";
    });
    return picture(
      width,
      frame.height,
      `Share of wrong labels of ${plural(clients.length, "client")} ${times.map(timeName).join(", ")}. The table below has the values.`,
      ...frame.lines,
      ...paths,
      svg("path", { class: "estimated", d: dots.join("") }),
    );
  });
  const key = (look: string, text: string) => h("span", {}, h("i", { class: `key ${look}` }), text);
  const share = (value: number | null | undefined) => (isNumber(value) ? percent(value) : "–");
  return figure(
    { file: "stages" },
    {},
    h("figcaption", {}, "Wrong labels of every client (%)"),
    h(
      "p",
      { class: "keys" },
      ...times.slice(0, kLooks.length).map((time, t) => key(kLooks[t], timeName(time))),
      key("estimated", "estimated by the method"),
    ),
    host,
    unfold(
      "Wrong labels as a table",
      () =>
        table(
          "Share of wrong labels by client, in percent",
          [
            { title: "Client" },
            ...times.map((time) => ({ title: timeName(time), number: true })),
            { title: "estimated", number: true },
          ],
          clients.map((id) => [id, ...times.map((time) => share(time.levels[id])), share(estimated(id))]),
        ),
      "screen-only",
    ),
  );
}

// The last time at which clients told their samples apart.
function splitFigure(times: LabelsAt[]): HTMLElement[] {
  const time = times.find((one) => ids(one.splits).length > 0);
  if (time === undefined) {
    return [];
  }
  const clients = ids(time.splits).map(Number).sort((a, b) => a - b);
  const counts = clients.map((id) => time.splits[id]);
  const highest = Math.max(1, most(counts.map(([found, , missed]) => found + missed)));
  const deepest = most(counts.map(([, falseAlarms]) => falseAlarms));
  const host = h("div", { class: "picture" });
  responsive(host, (width) => {
    const frame = makeFrame(
      width,
      190,
      { low: 0, high: clients.length, title: "clients that the method took for noisy", format: () => "" },
      { low: -Math.max(deepest, 0.08 * highest), high: highest, title: "samples", format: (y) => whole(Math.abs(y)) },
    );
    const step = (frame.right - frame.left) / clients.length;
    const bar = step > 4 ? step * 0.72 : step;
    const part = (low: (c: number[]) => number, high: (c: number[]) => number) =>
      counts
        .map((count, i) => {
          const x = frame.left + i * step + (step - bar) / 2;
          const [a, b] = [frame.y(low(count)), frame.y(high(count))];
          return a === b ? "" : `M${x.toFixed(2)} ${a.toFixed(1)}h${bar.toFixed(2)}V${b.toFixed(1)}h-${bar.toFixed(2)}z`;
        })
        .join("");
    const named = clients.flatMap((id, i) =>
      step >= 22 || i % Math.ceil(26 / step) === 0
        ? [
            svg(
              "text",
              { x: frame.left + (i + 0.5) * step, y: frame.bottom + 13, class: "column-name" },
              String(id),
            ),
          ]
        : [],
    );
    return picture(
      width,
      frame.height,
      `Samples that ${plural(clients.length, "client")} took for wrongly labelled, ${timeName(time)}. The table below has the numbers.`,
      ...frame.lines,
      svg("path", { class: "found", d: part(() => 0, ([found]) => found) }),
      svg("path", { class: "wrong", d: part(([found]) => found, ([found, , missed]) => found + missed) }),
      svg("path", { class: "distorted", d: part(() => 0, ([, falseAlarms]) => -falseAlarms) }),
      svg("line", { x1: frame.left, x2: frame.right, y1: frame.y(0), y2: frame.y(0), class: "zero" }),
      ...named,
    );
  });
  const total = (k: number) => counts.reduce((sum, count) => sum + count[k], 0);
  const key = (look: string, text: string) => h("span", {}, h("i", { class: `key ${look}` }), text);
  return [
    figure(
      { file: "found" },
      {},
      h("figcaption", {}, `Wrong labels that clients found among their samples, ${timeName(time)}`),
      h(
        "p",
        { class: "keys" },
        key("found", "wrong and found"),
        key("wrong", "wrong and missed"),
        key("distorted", "right, but suspected (downwards)"),
      ),
      host,
      h(
        "p",
        { class: "note" },
        `Together ${whole(total(0))} found, ${whole(total(2))} missed, ${whole(total(1))} suspected though right, ` +
          `${whole(total(3))} rightly left alone. Counted with the labels that the clients had before the repair.`,
      ),
      unfold(
        "Found samples as a table",
        () =>
          table(
            "Samples by client",
            [
              { title: "Client" },
              { title: "Wrong, found", number: true },
              { title: "Wrong, missed", number: true },
              { title: "Right, suspected", number: true },
              { title: "Right, left alone", number: true },
            ],
            clients.map((id, i) => {
              const [found, falseAlarms, missed, leftAlone] = counts[i];
              return [String(id), ...[found, missed, falseAlarms, leftAlone].map(whole)];
            }),
          ),
        "screen-only",
      ),
    ),
  ];
}

// The same few clients at every time, one beside the other.
function confusionFigures(times: LabelsAt[], classNames: string[]): HTMLElement[] {
  const clients = ids(times[0].confusions ?? {});
  if (clients.length === 0) {
    return [];
  }
  return [
    h("h4", { class: "sub" }, `Labels of the first ${plural(clients.length, "client")} against the truth`),
    h(
      "div",
      { class: "pair" },
      ...clients.map((id) =>
        figure(
          { file: `confusion-client-${filePart(id)}` },
          {},
          h("figcaption", {}, `Client ${id}`),
          h(
            "div",
            { class: "triple" },
            ...times.map((time) => smallMatrix(id, time, time.confusions?.[id], classNames)),
          ),
        ),
      ),
    ),
    h(
      "p",
      { class: "note" },
      "Rows are true classes, columns labels, by number of the class; percent of the samples of the true class.",
    ),
  ];
}

function smallMatrix(
  id: string,
  time: LabelsAt,
  counts: number[][] | undefined,
  classNames: string[],
): HTMLElement {
  if (counts === undefined) {
    return h("div");
  }
  const totals = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const right = counts.reduce((sum, row, i) => sum + row[i], 0);
  const all = Math.max(1, totals.reduce((sum, value) => sum + value, 0));
  const share = (row: number, column: number) => counts[row][column] / Math.max(1, totals[row]);
  const numbers = counts.map((_, i) => String(i));
  const host = h("div", { class: "picture" });
  const title = `${timeName(time)}: ${percent(right / all, 0)}% right`;
  responsive(host, (width) =>
    heatMap(
      {
        label: `Client ${id}, ${title}.`,
        rows: numbers,
        columns: numbers,
        value: (row, column) =>
          row === column
            ? { share: share(row, column), hue: "--clean" }
            : { share: Math.sqrt(share(row, column)) * 0.9, hue: "--noisy" },
        rowTitle: "true class",
        columnTitle: "label",
      },
      width,
    ),
  );
  return h(
    "div",
    {},
    h("h5", {}, title),
    host,
    unfold(
      "Table",
      () =>
        table(
          `Client ${id}, ${title}: samples of each true class by label`,
          [{ title: "True class" }, ...numbers.map((name, i) => ({ title: classNames[i] ?? name, number: true }))],
          counts.map((row, i) => [classNames[i] ?? numbers[i], ...row.map(whole)]),
        ),
      "screen-only",
    ),
  );
}
