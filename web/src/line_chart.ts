// Curves over a common x axis on a canvas (uPlot): bands for the spread, names at the ends of the
// lines, values under the pointer or, with the arrow keys, at a chosen place.
import uPlot from "uplot";

import { cssColour, h } from "./dom";
import type { Points } from "./stats";

export interface Curve {
  name: string;
  colour: string; // CSS variable
  dash: number[];
  thin?: boolean; // one of many of the same name: drawn lighter, named once
  points: Points;
}

export interface ChartOptions {
  title: string;
  x: string; // what the axis measures, with its unit
  formatX: (value: number) => string;
  formatTick?: (value: number) => string;
  formatY: (value: number) => string;
}

const kLabelled = 12; // most curves whose names fit at their ends
const kLabelFrom = 480; // pixels of width below which the legend alone names them
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
    this.element = h("figure", {}, this.heading, this.focus, this.axis, this.spoken);
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
    this.focus.setAttribute(
      "aria-label",
      `${options.title}, against ${options.x}. The left and right arrow keys read the values.`,
    );
  }

  show(curves: Curve[]): void {
    this.curves = curves.filter((curve) => curve.points.x.length > 0);
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
    return 14 + Math.max(...named.map((curve) => pen.measureText(shortened(curve.name)).width));
  }

  // Names at the right edge, at the height where their lines end, moved apart where they would overlap.
  private nameLines(chart: uPlot): void {
    const scale = devicePixelRatio;
    const { left, top, width, height } = chart.bbox;
    const labels = this.named().map(({ name, colour, points }) => ({
      text: shortened(name),
      colour: cssColour(colour),
      y: chart.valToPos(points.y[points.y.length - 1], "y", true),
    }));
    moveApart(labels, 15 * scale, top + height);
    const pen = chart.ctx;
    pen.save();
    pen.font = kFont.replace("12px", `${12 * scale}px`);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (const label of labels) {
      pen.fillStyle = label.colour;
      pen.fillText(label.text, left + width + 8 * scale, label.y);
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
          h("span", {}, shortened(curve.name)),
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

// Downwards from the highest, then back up from the bottom where that is passed.
function moveApart(labels: { y: number }[], step: number, bottom: number): void {
  labels.sort((a, b) => a.y - b.y);
  for (let i = 1; i < labels.length; i += 1) {
    labels[i].y = Math.max(labels[i].y, labels[i - 1].y + step);
  }
  let limit = bottom - step / 2;
  for (let i = labels.length - 1; i >= 0; i -= 1) {
    labels[i].y = Math.min(labels[i].y, limit);
    limit = labels[i].y - step;
  }
}

const rowText = (row: Element): string =>
  row.children.length === 0
    ? (row.textContent ?? "")
    : [...row.children].map((cell) => cell.textContent).join(" ").trim();

const shortened = (name: string): string => (name.length > 18 ? `${name.slice(0, 17)}…` : name);

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
