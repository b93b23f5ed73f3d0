// Two axes with round numbers, and where values lie between them.
import { svg } from "./dom";
import { short } from "./format";
import { roundTicks } from "./stats";

export interface Axis {
  low: number;
  high: number;
  title: string;
  format?: (value: number) => string;
}

export interface Frame {
  x: (value: number) => number;
  y: (value: number) => number;
  left: number;
  right: number;
  bottom: number;
  height: number; // of the whole picture
  lines: SVGElement[];
}

const kLeft = 46;
const kRight = 10;
const kTop = 8;
const kBelow = 38; // ticks and title

export function makeFrame(width: number, plotHeight: number, xAxis: Axis, yAxis: Axis): Frame {
  const right = width - kRight;
  const bottom = kTop + plotHeight;
  const place = (axis: Axis, from: number, to: number) => (value: number) =>
    from + ((to - from) * (value - axis.low)) / (axis.high - axis.low || 1);
  const x = place(xAxis, kLeft, right);
  const y = place(yAxis, bottom, kTop);
  const lines = [
    ...roundTicks(yAxis.low, yAxis.high, 5).flatMap((value) => [
      svg("line", { x1: kLeft, x2: right, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: kLeft - 6, y: y(value), class: "row-name" }, (yAxis.format ?? short)(value)),
    ]),
    ...roundTicks(xAxis.low, xAxis.high, Math.max(2, Math.floor((right - kLeft) / 70))).map((value) =>
      svg("text", { x: x(value), y: bottom + 13, class: "column-name" }, (xAxis.format ?? short)(value)),
    ),
    svg("text", { x: (kLeft + right) / 2, y: bottom + 30, class: "title" }, xAxis.title),
    svg(
      "text",
      { x: 9, y: (kTop + bottom) / 2, class: "title", transform: `rotate(-90 9 ${(kTop + bottom) / 2})` },
      yAxis.title,
    ),
  ];
  return { x, y, left: kLeft, right, bottom, height: bottom + kBelow, lines };
}

export const picture = (width: number, height: number, label: string, ...children: SVGElement[]): SVGElement =>
  svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    ...children,
  );

// A point as a path, so that one element can draw them all.
export const dot = (x: number, y: number, r: number): string =>
  `M${(x - r).toFixed(2)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
