// The numbers by which a method tells clients apart: their distribution over truly clean and truly
// noisy clients, with two normal distributions fitted to all of them.
import { isNumber, partitionOf, type Score, truthUnknown } from "../data";
import { h, responsive, svg } from "../dom";
import { plural, short } from "../format";
import { renew } from "../renew";
import { histogram, normalDensity } from "../stats";
import type { Section } from "../view";

const kNames: Record<string, string> = {
  lid: "LID: local intrinsic dimension of the client's predictions",
  ncs: "NCS: how often the client fell below the best of its round",
  ncs_ratio: "NCS per time sampled",
  gradient_norm: "Gradient norm",
  validation_accuracy: "Accuracy on the server's validation set",
  expertise: "Expertise",
  reliability: "Reliability",
  flag_share: "Share of its rounds in which it was flagged",
  flag_share_early: "Share of its rounds up to penalty_rounds in which it was flagged",
};

const nameOf = (score: string): string => kNames[score] ?? score.replaceAll("_", " ");

export function scoresSection(): Section {
  const body = h("div", { class: "pair" });
  const element = h(
    "section",
    { "aria-labelledby": "scores" },
    h("h3", { id: "scores" }, "Scores of the clients"),
    body,
    h(
      "p",
      { class: "note" },
      "Dashed: the mixture of two normal distributions fitted to the scores for this page. It shows how " +
        "far the scores fall into two groups; not every method divides its clients by it.",
    ),
  );
  return {
    element,
    update(view) {
      const scores = Object.entries(view.subject?.findings?.scores ?? {});
      element.hidden = scores.length === 0;
      const partition = view.subject && partitionOf(view.report, view.subject);
      const truth = truthUnknown(view.report, view.subject) ? [] : (partition?.clients ?? []).map((one) => one.noisy);
      renew(body, [scores, truth], () =>
        scores.map(([name, score], i) =>
          scoreFigure(`clip-${i}`, name, score, (id) => truth[Number(id)]),
        ),
      );
    },
  };
}

// `clip` is an id of its own; a method may call its scores anything.
function scoreFigure(
  clip: string,
  name: string,
  score: Score,
  noisy: (id: string) => boolean | undefined,
): HTMLElement {
  const entries = Object.entries(score.by_client).filter((entry): entry is [string, number] =>
    isNumber(entry[1]),
  );
  const values = (truth: boolean | undefined) =>
    entries.filter(([id]) => noisy(id) === truth).map(([, value]) => value);
  const groups = [
    { look: "clean", text: "truly clean", values: values(false) },
    { look: "noisy", text: "truly noisy", values: values(true) },
    { look: "unknown", text: "clients", values: values(undefined) },
  ].filter((group) => group.values.length > 0);
  const host = h("div", { class: "picture" });
  if (groups.length > 0) {
    responsive(host, (width) => scoreChart(clip, name, groups, score, width));
  }
  const facts = [
    plural(entries.length, "client"),
    score.correlation_with_noise != null &&
      `correlation with the noise ${score.correlation_with_noise.toFixed(2)}`,
    score.roc_area != null && `ROC area ${score.roc_area.toFixed(2)}`,
  ];
  return h(
    "figure",
    {},
    h("figcaption", {}, nameOf(name)),
    h(
      "p",
      { class: "keys" },
      ...groups.map(({ look, text }) => h("span", {}, h("i", { class: `key ${look}` }), text)),
      score.mixture && h("span", {}, h("i", { class: "key mixture" }), "mixture"),
    ),
    host,
    h("p", { class: "note" }, `${facts.filter(Boolean).join(" · ")}`),
  );
}

function scoreChart(
  clip: string,
  name: string,
  groups: { look: string; values: number[] }[],
  score: Score,
  width: number,
): SVGElement {
  const count = groups.reduce((sum, group) => sum + group.values.length, 0);
  const bins = Math.max(8, Math.min(40, Math.ceil(2 * Math.sqrt(count))));
  const found = histogram(groups.map((group) => group.values), bins);
  const stacked = found.counts[0].map((_, bin) => found.counts.reduce((sum, c) => sum + c[bin], 0));
  const most = Math.max(...stacked);
  const left = 34;
  const height = 170;
  const step = (width - left - 8) / bins;
  const y = (value: number) => 6 + (1 - value / most) * height;
  const below = new Array<number>(bins).fill(0);
  const bars = groups.map((group, g) => {
    const d = found.counts[g].map((value, bin) => {
      const from = below[bin];
      below[bin] += value;
      const x = left + bin * step + 0.75;
      return value === 0
        ? ""
        : `M${x.toFixed(1)} ${y(from).toFixed(1)}h${(step - 1.5).toFixed(1)}V${y(from + value).toFixed(1)}h-${(step - 1.5).toFixed(1)}z`;
    });
    return svg("path", { class: group.look, d: d.join("") });
  });
  const end = found.start + bins * found.width;
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height + 30}`,
      width,
      height: height + 30,
      role: "img",
      "aria-label": `Distribution of ${nameOf(name)} over ${plural(count, "client")}, from ${short(found.start)} to ${short(end)}.`,
    },
    svg("clipPath", { id: clip }, svg("rect", { x: left, y: 2, width: width - left - 8, height: height + 4 })),
    ...[0, most].map((value) =>
      svg("text", { x: left - 6, y: y(value) + (value === 0 ? -2 : 4), class: "row-name" }, String(value)),
    ),
    svg("line", { x1: left, x2: width - 8, y1: y(0), y2: y(0), class: "grid" }),
    ...bars,
    ...mixtureLines(score, found.start, end, count * found.width, y, left, width - left - 8, clip),
  );
  const middle = (found.start + end) / 2;
  [found.start, middle, end].forEach((value, i) => {
    const anchor = ["start", "middle", "end"][i];
    const x = left + ((width - left - 8) * i) / 2;
    picture.append(
      svg("text", { x, y: height + 22, class: "column-name", style: `text-anchor: ${anchor}` }, short(value)),
    );
  });
  return picture;
}

// The two components, scaled to counts per bin.
function mixtureLines(
  score: Score,
  start: number,
  end: number,
  scale: number,
  y: (value: number) => number,
  left: number,
  across: number,
  clip: string,
): SVGElement[] {
  const { means = [], variances = [], weights = [] } = score.mixture ?? {};
  const points = 160;
  return means.map((mean, k) => {
    const d = Array.from({ length: points + 1 }, (_, i) => {
      const value = start + ((end - start) * i) / points;
      const height = scale * weights[k] * normalDensity(value, mean, variances[k]);
      return `${(left + (across * i) / points).toFixed(1)} ${Math.max(-50, y(height)).toFixed(1)}`;
    });
    return svg("path", { class: "mixture", d: `M${d.join("L")}`, "clip-path": `url(#${clip})` });
  });
}
