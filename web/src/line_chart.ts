// Curves over a common x axis on a canvas (uPlot): bands for the spread, names at the ends of the
// lines, values under the pointer or, with the arrow keys, at a chosen place.
import uPlot from "uplot";

import { least, most } from "./data";
import { cssColour, h, svg } from "./dom";
import { makeFrame, picture } from "./frame";
import { figure, nameSaves, type Table } from "./save";
import type { Points } from "./stats";

export interface Curve {
  name: string;
  colour: string; // CSS variable
  dash: number[];
  seed?: string; // of a single run
  thin?: boolean; // one of many of the same name: drawn lighter, named once
  points: Points;
}

export interface ChartOptions {
  title: string;
  file: string; // what it is saved as, without the ending
  columns: [x: string, y: string]; // in a CSV file, as the program calls them
  x: string; // what the axis measures, with its unit
  formatX: (value: number) => string;
  formatTick?: (value: number) => string;
  formatY: (value: number) => string;
}

const kLabelled = 12; // most curves whose names fit at their ends
const kLabelFrom = 480; // pixels of width below which the legend alone names them
const kLine = 18; // characters in a line of a name
const kLines = 3; // of a name at the end of its curve; the legend has all of it
const kLineHeight = 15;
const kFont = "12px system-ui, -apple-system, 'Segoe UI', sans-serif";

export class LineChart {
  readonly element: HTMLElement;
  private readonly plot = h("div", { class: "plot" });
  private readonly readout = h("div", { class: "readout", hidden: true });
  private readonly spoken = h("p", { class: "hidden", "aria-live": "polite" });
  private readonly heading = h("figcaption");
  private readonly axis = h("p", { class: "axis" });
  private readonly focus: HTMLElement;
  private chart: uPlot | undefined;
  private curves: Curve[] = [];
  private at: number | null = null;

  constructor(private options: ChartOptions) {
    this.focus = h(
      "div",
      {
        class: "chart",
        tabindex: 0,
        role: "group",
        keydown: (event) => this.key(event as KeyboardEvent),
        blur: () => this.chart?.setCursor({ left: -10, top: -10 }),
      },
      this.plot,
      this.readout,
    );
    this.element = figure(
      {
        file: () => this.options.file,
        picture: () => curvesPicture(this.curves, this.options),
        csv: () => curvesTable(this.curves, this.options),
      },
      {},
      this.heading,
      this.focus,
      this.axis,
      this.spoken,
    );
    this.describe(options);
    const again = () => this.draw();
    new ResizeObserver(() => {
      if (this.plot.clientWidth !== this.chart?.width) {
        this.draw();
      }
    }).observe(this.plot);
    for (const query of ["print", "(prefers-color-scheme: dark)"]) {
      matchMedia(query).addEventListener("change", again);
    }
  }

  describe(options: ChartOptions): void {
    this.options = options;
    this.heading.textContent = options.title;
    this.axis.textContent = options.x;
    nameSaves(this.element);
    this.focus.setAttribute(
      "aria-label",
      `${options.title}, against ${options.x}. The left and right arrow keys read the values.`,
    );
  }

  show(curves: Curve[]): void {
    this.curves = curves.filter((curve) => curve.points.x.length > 0);
    this.element.classList.toggle("nothing", this.curves.length === 0);
    this.draw();
  }

  private draw(): void {
    const width = this.plot.clientWidth;
    if (width === 0) {
      return;
    }
    this.chart?.destroy();
    this.chart = undefined;
    this.readout.hidden = true;
    this.focus.dataset.curves = String(new Set(this.curves.map((curve) => curve.name)).size);
    if (this.curves.length === 0) {
      this.plot.replaceChildren(h("p", { class: "empty" }, "Nothing to draw yet."));
      return;
    }
    this.plot.replaceChildren();
    const height = Math.round(Math.min(340, Math.max(220, width * 0.58)));
    this.chart = new uPlot({ width, height, ...this.settings(width) }, this.data(), this.plot);
    this.focus.dataset.drawn = "true";
  }

  // Per curve its values, then the two edges of its band.
  private data(): uPlot.AlignedData {
    return uPlot.join(
      this.curves.map(({ points }) =>
        points.low && points.high
          ? [points.x, points.y, points.low, points.high]
          : [points.x, points.y],
      ) as uPlot.AlignedData[],
    );
  }

  private settings(width: number): Omit<uPlot.Options, "width" | "height"> {
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    for (const curve of this.curves) {
      const colour = cssColour(curve.colour);
      const few = curve.points.x.length <= 2;
      series.push({
        label: curve.name,
        stroke: curve.thin ? colour + "99" : colour,
        width: curve.thin ? 1 : 2,
        dash: curve.dash,
        spanGaps: true,
        points: { show: few, size: 6, fill: colour },
      });
      if (curve.points.low) {
        const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
        bands.push({ series: [series.length + 1, series.length], fill: colour + "26" });
        series.push(edge, edge);
      }
    }
    const line = { stroke: cssColour("--grid"), width: 1 };
    const look = { stroke: cssColour("--muted"), font: kFont, grid: line, ticks: line };
    const { formatTick, formatX, formatY } = this.options;
    const room = this.labelRoom(width);
    return {
      series,
      bands,
      legend: { show: false },
      padding: [8, room, 0, 0],
      scales: { x: { time: false } },
      axes: [
        {
          ...look,
          size: 30,
          space: 60,
          values: (_, ticks) => ticks.map((tick) => (formatTick ?? formatX)(tick)),
        },
        { ...look, size: 42, values: (_, ticks) => ticks.map((tick) => formatY(tick)) },
      ],
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      hooks: {
        draw: room > 16 ? [(chart) => this.nameLines(chart)] : [],
        setCursor: [(chart) => this.read(chart)],
      },
    };
  }

  private named(): Curve[] {
    const names = new Map(this.curves.map((curve) => [curve.name, curve]));
    return [...names.values()];
  }

  private labelRoom(width: number): number {
    const named = this.named();
    if (width < kLabelFrom || named.length > kLabelled) {
      return 16;
    }
    const pen = document.createElement("canvas").getContext("2d")!;
    pen.font = kFont;
    const lines = named.flatMap((curve) => wrapped(curve.name));
    return 14 + Math.max(...lines.map((line) => pen.measureText(line).width));
  }

  // Names at the right edge, at the height where their lines end, moved apart where they would overlap.
  private nameLines(chart: uPlot): void {
    const scale = devicePixelRatio;
    const { left, top, width, height } = chart.bbox;
    const labels = this.named().map(({ name, colour, points }) => {
      const lines = wrapped(name);
      return {
        lines,
        colour: cssColour(colour),
        y: chart.valToPos(points.y[points.y.length - 1], "y", true),
        height: kLineHeight * scale * lines.length,
      };
    });
    moveApart(labels, top + height);
    const pen = chart.ctx;
    pen.save();
    pen.font = kFont.replace("12px", `${12 * scale}px`);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const label of labels) {
      pen.fillStyle = label.colour;
      label.lines.forEach((line, i) => {
        const y = label.y + (i - (label.lines.length - 1) / 2) * kLineHeight * scale;
        pen.fillText(line, left + width + 8 * scale, y);
      });
    }
    pen.restore();
  }

  // The curves' values at the pointer: at their own nearest point, since not all have one at every x.
  private read(chart: uPlot): void {
    const index = chart.cursor.idx;
    if (index === null || index === undefined || (chart.cursor.left ?? -1) < 0) {
      this.readout.hidden = true;
      this.at = null;
      return;
    }
    this.at = index;
    const x = chart.data[0][index];
    const rows = this.named()
      .map((curve) => ({ curve, value: nearest(curve.points, x) }))
      .filter((row): row is { curve: Curve; value: number } => row.value !== undefined)
      .sort((a, b) => b.value - a.value);
    const head = h("strong", {}, this.options.formatX(x));
    this.readout.replaceChildren(
      head,
      ...rows.map(({ curve, value }) =>
        h(
          "div",
          {},
          h("span", { class: "swatch", style: `background: var(${curve.colour})` }),
          h("span", {}, curve.name),
          h("span", { class: "number" }, this.options.formatY(value)),
        ),
      ),
    );
    this.readout.hidden = false;
    const left = chart.over.offsetLeft + (chart.cursor.left ?? 0);
    const free = this.plot.clientWidth - left;
    const box = this.readout.offsetWidth;
    this.readout.style.left = `${free > box + 20 ? left + 14 : Math.max(0, left - box - 14)}px`;
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };
    const chart = this.chart;
    if (chart === undefined) {
      return;
    }
    if (event.key === "Escape") {
      chart.setCursor({ left: -10, top: -10 });
      return;
    }
    const last = chart.data[0].length - 1;
    const ends: Record<string, number> = { Home: 0, End: last };
    const step = steps[event.key];
    if (step === undefined && ends[event.key] === undefined) {
      return;
    }
    event.preventDefault();
    const from = this.at ?? (step === 1 ? -1 : last + 1);
    const to = ends[event.key] ?? Math.min(last, Math.max(0, from + step));
    chart.setCursor({ left: chart.valToPos(chart.data[0][to], "x"), top: 10 });
    this.spoken.textContent = [...this.readout.children].map((row) => rowText(row)).join(", ");
  }
}

// Downwards from the highest, then back up from the bottom where that is passed. `y` is the middle.
function moveApart(labels: { y: number; height: number }[], bottom: number): void {
  labels.sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; i += 1) {
    const above = labels[i - 1];
    labels[i].y = Math.max(labels[i].y, above.y + (above.height + labels[i].height) / 2);
  }
  let limit = bottom;
  for (let i = labels.length - 1; i >= 0; i -= 1) {
    const label = labels[i];
    label.y = Math.min(label.y, limit - label.height / 2);
    limit = label.y - label.height / 2;
  }
}

// A name in lines, broken between words where that is possible.
export function wrapped(name: string): string[] {
  const lines: string[] = [];
  for (const word of name.split(/\s+/).flatMap((part) => part.match(new RegExp(`.{1,${kLine}}`, "gu")) ?? [])) {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + word.length < kLine) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines.length <= kLines ? lines : [...lines.slice(0, kLines - 1), `${lines[kLines - 1].slice(0, kLine - 1)}…`];
}

// The same curves as an SVG drawing, with whole names.
function curvesPicture(curves: Curve[], options: ChartOptions): SVGElement {
  const all = curves.flatMap(({ points }) => [points.y, points.low ?? [], points.high ?? []]).flat();
  const x = curves.flatMap(({ points }) => points.x);
  const [low, high] = [least(all), most(all)];
  const room = 0.04 * (high - low) || 0.01;
  const frame = makeFrame(
    700,
    350,
    { low: least(x), high: Math.max(most(x), least(x) + 1e-9), title: options.x, format: options.formatTick ?? options.formatX },
    { low: low - room, high: high + room, title: "", format: options.formatY },
  );
  const path = (xs: number[], ys: number[]) =>
    xs.map((at, i) => `${frame.x(at).toFixed(1)} ${frame.y(ys[i]).toFixed(1)}`).join("L");
  const bands = curves.flatMap(({ colour, points: { x: xs, low: below, high: above } }) =>
    below && above
      ? [
          svg("path", {
            style: `fill: var(${colour}); fill-opacity: 0.15`,
            d: `M${path(xs, below)}L${path([...xs].reverse(), [...above].reverse())}z`,
          }),
        ]
      : [],
  );
  const lines = curves.map(({ colour, dash, thin, points }) =>
    svg("path", {
      style:
        `fill: none; stroke: var(${colour}); stroke-width: ${thin ? 1 : 2}; ` +
        `stroke-dasharray: ${dash.join(" ") || "none"}`,
      d: `M${path(points.x, points.y)}`,
    }),
  );
  const named = [...new Map(curves.map((curve) => [curve.name, curve])).values()].map((curve) => ({
    curve,
    y: frame.y(curve.points.y[curve.points.y.length - 1]),
    height: kLineHeight,
  }));
  moveApart(named, Math.max(frame.bottom, 8 + kLineHeight * named.length));
  const pen = document.createElement("canvas").getContext("2d")!;
  pen.font = kFont;
  const widest = Math.max(0, ...named.map(({ curve }) => pen.measureText(curve.name).width));
  const names = named.map(({ curve, y }) =>
    svg("text", { x: frame.right + 8, y, style: `fill: var(${curve.colour})` }, curve.name),
  );
  return picture(
    Math.ceil(frame.right + 20 + widest),
    Math.max(frame.height, 16 + kLineHeight * named.length),
    options.title,
    ...frame.lines,
    ...bands,
    ...lines,
    ...names,
  );
}

// A line for every point: means with their deviation and the number of runs, or single runs.
function curvesTable(curves: Curve[], { columns }: ChartOptions): Table {
  const single = curves.some((curve) => curve.seed !== undefined);
  return {
    columns: single ? ["method", "seed", ...columns] : ["method", ...columns, "deviation", "runs"],
    rows: curves.flatMap(({ name, seed, points }) =>
      points.x.map((x, i) =>
        single
          ? [name, seed, x, points.y[i]]
          : [name, x, points.y[i], points.deviations?.[i], points.counts?.[i]],
      ),
    ),
  };
}

const rowText = (row: Element): string =>
  row.children.length === 0
    ? (row.textContent ?? "")
    : [...row.children].map((cell) => cell.textContent).join(" ").trim();

// The value at the point of a curve nearest to x, nothing beyond its ends.
function nearest(points: Points, x: number): number | undefined {
  const { x: xs, y } = points;
  if (xs.length === 0 || x < xs[0] || x > xs[xs.length - 1]) {
    return undefined;
  }
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return x - xs[low] < xs[high] - x ? y[low] : y[high];
}
