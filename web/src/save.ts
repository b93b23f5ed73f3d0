// Pictures as SVG files that need nothing of this page, and curves as CSV files.
import { h, svg } from "./dom";

const kFont = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const kMargin = 16;

// What decides how an element of a picture looks; written out, so that no style sheet is needed.
const kShape = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity"];
const kText = ["fill", "font-size", "font-weight", "text-anchor"];
const kUsual: Record<string, string> = {
  "fill-opacity": "1",
  stroke: "none",
  "stroke-dasharray": "none",
  opacity: "1",
  "font-weight": "400",
  "text-anchor": "start",
};

export interface Table {
  columns: string[];
  rows: (string | number | undefined)[][];
}

export interface Saved {
  file: string | (() => string); // its name without the ending
  picture?: () => SVGElement; // where the figure's own drawing is no SVG
  csv?: () => Table;
}

// A figure with buttons that save it. The names of files follow the nearest `data-files` around it.
export function figure(saved: Saved, attributes: { class?: string }, ...children: (Node | false)[]): HTMLElement {
  const element = h("figure", attributes, ...children);
  const file = () => (typeof saved.file === "string" ? saved.file : saved.file());
  const caption = () => element.querySelector("figcaption")?.textContent ?? "";
  const button = (kind: string, content: () => string, type: string) =>
    h(
      "button",
      {
        type: "button",
        "data-kind": kind,
        click: () => download(nameOf(element, `${file()}.${kind.toLowerCase()}`), content(), type),
      },
      kind,
    );
  const { csv } = saved;
  element.append(
    h(
      "p",
      { class: "save" },
      button("SVG", () => svgFile(element, caption(), saved.picture), "image/svg+xml"),
      csv && button("CSV", () => csvText(csv()), "text/csv"),
    ),
  );
  nameSaves(element);
  return element;
}

// Says what the buttons save, when the title of a figure has changed.
export function nameSaves(element: HTMLElement): void {
  const title = element.querySelector("figcaption")?.textContent ?? "";
  for (const button of element.querySelectorAll<HTMLElement>(":scope > .save > button")) {
    button.title = `Save as ${button.dataset.kind}`;
    button.setAttribute("aria-label", `${button.title}: ${title}`);
  }
}

const nameOf = (element: Element, file: string): string =>
  (element.closest<HTMLElement>("[data-files]")?.dataset.files ?? "") + file;

// Letters, digits, '.', '_' and '-' of a text that may be anything, as the program's file names.
export const filePart = (text: string): string =>
  text
    .slice(0, 60)
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[.-]+|[.-]+$/g, "");

function download(name: string, content: string, type: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// As base/csv.h quotes fields.
const field = (value: string | number | undefined): string => {
  const text = value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const csvText = ({ columns, rows }: Table): string =>
  [columns, ...rows].map((row) => `${row.map(field).join(",")}\n`).join("");

// The figure's pictures where they lie on the page, with its title, keys and headings as text, in the
// colours of paper whatever the page is read in.
function svgFile(element: HTMLElement, title: string, draw?: () => SVGElement): string {
  const around = element.getBoundingClientRect();
  const parts = draw === undefined ? placed(element, around) : [{ node: draw(), x: 0, y: 40 }];
  const host = h("div", { class: "paper", "aria-hidden": "true" });
  const whole = svg("svg", { xmlns: "http://www.w3.org/2000/svg", "font-family": kFont });
  host.append(whole);
  document.body.append(host);
  try {
    const [width, height] = compose(whole, parts, title, around);
    whole.setAttribute("viewBox", `0 0 ${width} ${height}`);
    whole.setAttribute("width", String(width));
    whole.setAttribute("height", String(height));
    [...whole.querySelectorAll("*")].forEach(writeOut);
    whole.prepend(svg("title", {}, title), svg("rect", { width, height, fill: "#ffffff" }));
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(whole)}\n`;
  } finally {
    host.remove();
  }
}

interface Part {
  node: Element; // of the page, or a drawing of its own
  x: number;
  y: number;
}

function placed(element: HTMLElement, around: DOMRect): Part[] {
  return [...element.querySelectorAll(".picture svg, .tile, .keys > span, h4, h5")]
    .filter((node) => node.closest("details") === null)
    .map((node) => {
      const box = node.getBoundingClientRect();
      return { node, x: box.left - around.left, y: box.top - around.top };
    });
}

// Returns the size of the whole.
function compose(whole: SVGElement, parts: Part[], title: string, around: DOMRect): [number, number] {
  const heading = svg("text", { class: "heading", x: kMargin, y: 22 }, title);
  whole.append(heading);
  let right = kMargin + heading.getComputedTextLength();
  let bottom = 34;
  for (const { node, x, y } of parts) {
    if (node instanceof SVGElement) {
      const [, , width, height] = node.getAttribute("viewBox")!.split(" ").map(Number);
      const copy = node.cloneNode(true) as SVGElement;
      const shown = node.isConnected ? node.getBoundingClientRect().width / width : 1;
      whole.append(svg("g", { transform: `translate(${x} ${y}) scale(${shown})` }, ...copy.childNodes));
      right = Math.max(right, x + width * shown);
      bottom = Math.max(bottom, y + height * shown);
    } else {
      const box = node.getBoundingClientRect();
      whole.append(...(node.matches(".tile") ? tile(node, x, y, box) : words(node, x, y, box)));
      right = Math.max(right, x + box.width);
      bottom = Math.max(bottom, y + box.height);
    }
  }
  const width = Math.max(around.width > 0 && parts[0]?.node.isConnected ? around.width : 0, right + kMargin);
  return [Math.ceil(width), Math.ceil(bottom + kMargin)];
}

// A heading, or a key with its mark.
function words(node: Element, x: number, y: number, box: DOMRect): SVGElement[] {
  const mark = node.querySelector("i.key");
  const text = (node.textContent ?? "").trim();
  const middle = y + box.height / 2;
  if (mark === null) {
    return [svg("text", { class: "words", x, y: middle }, text)];
  }
  return [keyMark(mark, x, middle), svg("text", { class: "words", x: x + 18, y: middle }, text)];
}

// The classes of keys in the style sheet, as shapes.
function keyMark(mark: Element, x: number, y: number): SVGElement {
  const look = mark.className.replace("key", "").trim();
  if (look === "estimated" || look === "flagged") {
    return svg("circle", { class: look, cx: x + 5.5, cy: y, r: look === "flagged" ? 3.5 : 4.5 });
  }
  if (look === "after" || look === "later" || look === "mixture") {
    return svg("path", { class: look, d: `M${x} ${y}h13` });
  }
  return svg("rect", {
    class: look,
    style: mark.getAttribute("style")?.replace("background", "fill"),
    x,
    y: y - 5.5,
    width: 11,
    height: 11,
    rx: 2,
  });
}

function tile(node: Element, x: number, y: number, box: DOMRect): SVGElement[] {
  const noisy = node.matches(".noisy");
  const edge = noisy ? "noisy" : node.matches(".clean") ? "clean" : "other";
  return [
    svg("image", {
      href: node.querySelector("img")!.src,
      x: x + 6,
      y: y + 6,
      width: box.width - 12,
      height: box.height - 12,
      "image-rendering": "pixelated",
    }),
    svg("rect", { class: `edge ${edge}`, x: x + 1.5, y: y + 1.5, width: box.width - 3, height: box.height - 3, rx: 5 }),
  ];
}

// Styles become attributes. Text is put at its place by `dy`, which every program understands.
function writeOut(element: Element): void {
  if (element instanceof SVGTitleElement || element instanceof SVGImageElement) {
    return;
  }
  const isText = element instanceof SVGTextElement;
  if (isText || element instanceof SVGGeometryElement) {
    const style = getComputedStyle(element);
    const outlined = style.stroke !== "none";
    for (const name of isText ? kText : kShape) {
      const value = style.getPropertyValue(name);
      if (value !== "" && value !== kUsual[name] && (outlined || !name.startsWith("stroke"))) {
        element.setAttribute(name, value);
      }
    }
    if (isText) {
      element.setAttribute("dy", "0.35em");
    }
  }
  element.removeAttribute("class");
  element.removeAttribute("style");
}
