// The numbers by which a method tells clients apart: their distribution over truly clean and truly
// noisy clients, with two normal distributions fitted to all of them; each against the client's
// noise; and how they came about, where they were taken several times.
import { isNumber, least, most, noiseOf, type Score, trulyNoisy } from "../data";
import { h, responsive, svg } from "../dom";
import { percent, plural, short } from "../format";
import { dot, makeFrame, picture } from "../frame";
import { renew } from "../renew";
import { figure, filePart } from "../save";
import { histogram, normalDensity } from "../stats";
import type { Section } from "../view";

const kNames: Record<string, string> = {
  lid: "LID: local intrinsic dimension of the client's predictions",
  lid_cumulative: "Cumulative LID",
  ncs: "NCS: how often the client fell below the best of its round",
  ncs_ratio: "NCS per time sampled",
  gradient_norm: "Gradient norm",
  validation_accuracy: "Accuracy on the server's validation set",
  expertise: "Expertise",
  reliability: "Reliability",
  local_accuracy: "Test accuracy of the client's own model",
  local_accuracy_own: "Test accuracy of the client's own model on the classes that it holds",
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
      const noisy = trulyNoisy(view.report, view.subject);
      const noise = noiseOf(view.report, view.subject);
      renew(body, [scores, view.subject?.partition, noise(0)], () =>
        scores.flatMap(([name, score], i) => [
          scoreFigure(`clip-${i}`, name, score, noisy),
          ...againstNoise(name, score, noisy, noise),
        ]),
      );
    },
  };
}

// Small pictures of one score after the other, for scores that were taken several times.
export function seriesSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "series" },
    h("h3", { id: "series" }, "Scores from iteration to iteration"),
    body,
  );
  return {
    element,
    update(view) {
      const series = Object.entries(view.subject?.findings?.series ?? {});
      element.hidden = series.length === 0;
      const noisy = trulyNoisy(view.report, view.subject);
      renew(body, [series, view.subject?.partition, noisy(0)], () =>
        series.map(([name, times], i) =>
          figure(
            { file: `series-${filePart(name)}` },
            { class: "multiples" },
            h("figcaption", {}, nameOf(name)),
            keys(groupsOf(times[0], noisy), times.some((one) => one.mixture !== undefined)),
            h(
              "div",
              { class: "small" },
              ...times.map((score, time) =>
                smallChart(`clip-${i}-${time}`, `${nameOf(name)}, iteration ${time + 1}`, score, noisy),
              ),
            ),
          ),
        ),
      );
    },
  };
}

function smallChart(clip: string, name: string, score: Score, noisy: Truth): HTMLElement {
  const groups = groupsOf(score, noisy);
  const host = h("div", { class: "picture" });
  if (groups.length > 0) {
    responsive(host, (width) => scoreChart(clip, name, groups, score, width, 96));
  }
  const area = score.roc_area != null ? `ROC area ${score.roc_area.toFixed(2)}` : "";
  return h("div", {}, h("h4", {}, name.slice(name.lastIndexOf(",") + 2)), host, h("p", { class: "note" }, area));
}

type Truth = (id: string) => boolean | undefined;

interface Group {
  look: string;
  text: string;
  values: number[];
}

const entriesOf = (score: Score): [string, number][] =>
  Object.entries(score.by_client).filter((entry): entry is [string, number] => isNumber(entry[1]));

function groupsOf(score: Score, noisy: Truth): Group[] {
  const entries = entriesOf(score);
  const values = (truth: boolean | undefined) =>
    entries.filter(([id]) => noisy(id) === truth).map(([, value]) => value);
  return [
    { look: "clean", text: "truly clean", values: values(false) },
    { look: "noisy", text: "truly noisy", values: values(true) },
    { look: "unknown", text: "clients", values: values(undefined) },
  ].filter((group) => group.values.length > 0);
}

const keys = (groups: Group[], mixture: boolean): HTMLElement =>
  h(
    "p",
    { class: "keys" },
    ...groups.map(({ look, text }) => h("span", {}, h("i", { class: `key ${look}` }), text)),
    mixture && h("span", {}, h("i", { class: "key mixture" }), "mixture"),
  );

// Every client as a point: its noise and its score.
function againstNoise(
  id: string,
  score: Score,
  noisy: Truth,
  noise: (id: string) => number | undefined,
): HTMLElement[] {
  const name = nameOf(id);
  const points = entriesOf(score)
    .map(([id, value]) => ({ id, value, noise: noise(id) }))
    .filter((point): point is { id: string; value: number; noise: number } => isNumber(point.noise));
  if (points.length < 2) {
    return [];
  }
  const groups = groupsOf(score, noisy);
  const host = h("div", { class: "picture" });
  const values = points.map((point) => point.value);
  const low = least(values);
  const high = most(values);
  const room = 0.05 * (high - low) || 1;
  responsive(host, (width) => {
    const frame = makeFrame(
      width,
      170,
      { low: -0.02, high: 1.02, title: "noisy samples of the client (%)", format: (x) => percent(x, 0) },
      { low: low - room, high: high + room, title: "score" },
    );
    const dots = (look: string, truth: boolean) =>
      svg("path", {
        class: look,
        d: points
          .filter((point) => noisy(point.id) === truth)
          .map((point) => dot(frame.x(point.noise), frame.y(point.value), 3.2))
          .join(""),
      });
    return picture(
      width,
      frame.height,
      `${name} of ${plural(points.length, "client")} against their noise, from ${short(low)} to ${short(high)}.`,
      ...frame.lines,
      dots("clean", false),
      dots("noisy", true),
    );
  });
  const correlation = score.correlation_with_noise;
  return [
    figure(
      { file: `score-${filePart(id)}-noise` },
      {},
      h("figcaption", {}, `${name} against the noise of the client`),
      keys(groups, false),
      host,
      h(
        "p",
        { class: "note" },
        `A point is a client.${correlation != null ? ` Correlation ${correlation.toFixed(2)}.` : ""}` +
          " The table of all clients has the values.",
      ),
    ),
  ];
}

// `clip` is an id of its own; a method may call its scores anything.
function scoreFigure(clip: string, id: string, score: Score, noisy: Truth): HTMLElement {
  const name = nameOf(id);
  const entries = entriesOf(score);
  const groups = groupsOf(score, noisy);
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
  return figure(
    { file: `score-${filePart(id)}` },
    {},
    h("figcaption", {}, name),
    keys(groups, score.mixture !== undefined),
    host,
    h("p", { class: "note" }, `${facts.filter(Boolean).join(" · ")}`),
  );
}

function scoreChart(
  clip: string,
  name: string,
  groups: Group[],
  score: Score,
  width: number,
  height = 170,
): SVGElement {
  const count = groups.reduce((sum, group) => sum + group.values.length, 0);
  const bins = Math.max(8, Math.min(40, Math.ceil(2 * Math.sqrt(count))));
  const found = histogram(groups.map((group) => group.values), bins);
  const stacked = found.counts[0].map((_, bin) => found.counts.reduce((sum, c) => sum + c[bin], 0));
  const tallest = most(stacked);
  const left = 34;
  const step = (width - left - 8) / bins;
  // Room for the mixture's peaks, unless they would press the bars flat.
  const { means = [], variances = [], weights = [] } = score.mixture ?? {};
  const peaks = means.map((mean, k) => count * found.width * weights[k] * normalDensity(mean, mean, variances[k]));
  const top = Math.max(tallest, Math.min(1.6 * tallest, Math.max(0, ...peaks)));
  const y = (value: number) => 6 + (1 - value / top) * height;
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
      "aria-label": `Distribution of ${name} over ${plural(count, "client")}, from ${short(found.start)} to ${short(end)}.`,
    },
    svg("clipPath", { id: clip }, svg("rect", { x: left, y: 2, width: width - left - 8, height: height + 4 })),
    ...[0, tallest].map((value) =>
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
