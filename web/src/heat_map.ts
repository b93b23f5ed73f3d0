// A matrix of shares as squares of deeper and lighter colour.
import { svg } from "./dom";

export interface HeatMap {
  label: string; // for those who cannot see it
  rows: string[];
  columns: string[];
  // 0..1; the hue says what a cell is about
  value: (row: number, column: number) => { share: number; hue: string };
  cellText?: (row: number, column: number) => string;
  rowTitle: string;
  columnTitle: string;
  mark?: (column: number) => boolean; // columns whose names stand out
  tall?: number; // pixels of a row, where every cell is to be read; else as there is room
  longest?: number; // characters of a name that are shown
}

const kLevels = 10;
const kLargestCell = 44;

export function heatMap(map: HeatMap, width: number, tallest = 28): SVGElement {
  const names = Math.max(...map.rows.map((name) => name.length));
  const longest = map.longest ?? kLongest;
  const left = Math.min(20 + 7 * longest, 14 + 7 * Math.min(names, longest)) + 16;
  const size = Math.min(kLargestCell, (width - left - 2) / map.columns.length);
  const tall = map.tall ?? Math.min(size, map.rows.length > 40 ? 400 / map.rows.length : tallest);
  const across = map.columns.length * size;
  const down = map.rows.length * tall;
  const below = columnNames(map, left, down, size);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${down + below.height}`,
    width,
    height: down + below.height,
    role: "img",
    "aria-label": map.label,
  });
  picture.append(...cells(map, left, size, tall));
  picture.append(
    svg("rect", { x: left, y: 0, width: across, height: down, class: "frame" }),
    svg(
      "text",
      { x: 10, y: down / 2, class: "title", transform: `rotate(-90 10 ${down / 2})` },
      map.rowTitle,
    ),
    ...rowNames(map, left, tall),
    ...below.texts,
  );
  if (map.cellText && size >= 26 && tall >= 16) {
    picture.append(...cellTexts(map, left, size, tall));
  }
  return picture;
}

// One path per hue and level instead of an element per cell: 200 classes make 40,000 cells.
function cells(map: HeatMap, left: number, size: number, tall: number): SVGElement[] {
  const paths = new Map<string, string>();
  for (let row = 0; row < map.rows.length; row += 1) {
    for (let column = 0; column < map.columns.length; column += 1) {
      const { share, hue } = map.value(row, column);
      const level = share <= 0 ? 0 : Math.max(1, Math.round(share * kLevels));
      if (level > 0) {
        const key = `${hue} ${level}`;
        const x = (left + column * size).toFixed(1);
        const y = (row * tall).toFixed(1);
        const square = `M${x} ${y}h${size.toFixed(1)}v${tall.toFixed(1)}h-${size.toFixed(1)}z`;
        paths.set(key, (paths.get(key) ?? "") + square);
      }
    }
  }
  return [...paths].map(([key, d]) => {
    const [hue, level] = key.split(" ");
    return svg("path", { d, style: `fill: var(${hue}); fill-opacity: ${Number(level) / kLevels}` });
  });
}

function rowNames(map: HeatMap, left: number, tall: number): SVGElement[] {
  const every = Math.ceil(12 / tall);
  return map.rows.flatMap((name, i) =>
    i % every === 0
      ? [svg("text", { x: left - 6, y: Math.max(6, (i + 0.5) * tall), class: "row-name" }, ...named(name, map.longest))]
      : [],
  );
}

function columnNames(
  map: HeatMap,
  left: number,
  down: number,
  size: number,
): { texts: SVGElement[]; height: number } {
  const longest = Math.max(...map.columns.map((name) => Math.min(name.length, map.longest ?? kLongest)));
  const flat = longest * 7 + 4 <= size || longest <= 3;
  const every = Math.ceil((flat ? longest * 7 + 6 : 13) / size);
  const height = flat ? 18 : longest * 6 + 12;
  const texts = map.columns.flatMap((name, i) => {
    if (i % every !== 0) {
      return [];
    }
    const x = left + (i + 0.5) * size;
    const y = down + (flat ? 13 : 6);
    const turn = flat ? {} : { transform: `rotate(-90 ${x} ${y})` };
    const look = `${flat ? "column-name" : "column-name turned"}${map.mark?.(i) ? " marked" : ""}`;
    return [svg("text", { x, y, class: look, ...turn }, ...named(name, map.longest))];
  });
  const middle = left + (map.columns.length * size) / 2;
  texts.push(svg("text", { x: middle, y: down + height + 14, class: "title" }, map.columnTitle));
  return { texts, height: height + 22 };
}

function cellTexts(map: HeatMap, left: number, size: number, tall: number): SVGElement[] {
  return map.rows.flatMap((_, row) =>
    map.columns.flatMap((__, column) => {
      const text = map.cellText!(row, column);
      const dark = map.value(row, column).share > 0.7;
      const x = left + (column + 0.5) * size;
      const place = { x, y: (row + 0.5) * tall, class: dark ? "cell on-dark" : "cell" };
      return text === "" ? [] : [svg("text", place, text)];
    }),
  );
}

const kLongest = 12; // characters of a name

// The whole name under the pointer where there is no room for it.
const named = (name: string, longest = kLongest): (string | SVGElement)[] =>
  name.length > longest ? [`${name.slice(0, longest - 1)}…`, svg("title", {}, name)] : [name];
