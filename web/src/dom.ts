// Small helpers over the document. Text from the data only ever becomes text, never markup.

type Child = Node | string | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => unknown)>;

const kSvg = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(kSvg, tag);
  fill(element, attributes, children);
  return element;
}

export const cssColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const message = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

const kNarrowest = 80; // pixels; with less there is no room for axes

// Draws again whenever the width of the host changes; at once when it is on the page.
export function responsive(host: HTMLElement, draw: (width: number) => Element): void {
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(host.clientWidth);
    if (width >= kNarrowest && width !== drawn) {
      drawn = width;
      host.replaceChildren(drawnOrWhy(() => draw(width)));
    }
  }).observe(host);
}

function drawnOrWhy(draw: () => Element): Element {
  try {
    return draw();
  } catch (error) {
    return h("p", { class: "failure" }, `This picture cannot be drawn: ${message(error)}`);
  }
}

// A row of buttons of which one is chosen.
export function segmented<T extends string>(
  label: string,
  options: { value: T; text: string }[],
  chosen: T,
  choose: (value: T) => void,
): HTMLElement {
  const buttons = options.map(({ value, text }) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(value === chosen),
        click: () => {
          buttons.forEach((button, i) =>
            button.setAttribute("aria-pressed", String(options[i].value === value)),
          );
          choose(value);
        },
      },
      text,
    ),
  );
  return h("div", { class: "segmented", role: "group", "aria-label": label }, ...buttons);
}

export interface Column {
  title: string;
  hint?: string; // under the pointer
  number?: boolean; // aligned right
}

const kMostRows = 5000; // a browser is slow with more, and refuses a hundred thousand arguments

// A table that scrolls inside its own frame where it is wider than the page. Of more rows than a
// browser copes with it has the first, and a sentence that says so.
export function table(caption: string, columns: Column[], rows: Child[][]): HTMLElement {
  const kind = (i: number) => (columns[i].number ? "number" : undefined);
  const head = columns.map((column, i) => h("th", { scope: "col", class: kind(i), title: column.hint }, column.title));
  const body = rows.slice(0, kMostRows).map((cells) =>
    h(
      "tr",
      {},
      ...cells.map((cell, i) =>
        i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: kind(i) }, cell),
      ),
    ),
  );
  const scroll = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, ...head)),
      h("tbody", {}, ...body),
    ),
  );
  return body.length === rows.length ? sideways(scroll) : h("div", {}, sideways(scroll), shortened(rows.length));
}

const shortened = (rows: number): HTMLElement =>
  h("p", { class: "note" }, `The first ${kMostRows} of ${rows} rows; the files of the run have all.`);

// A shadow on each side where something is hidden, and a sentence that says so.
function sideways(scroll: HTMLElement): HTMLElement {
  const frame = h(
    "div",
    { class: "wide" },
    scroll,
    h("p", { class: "hint", "aria-hidden": "true" }, "Scroll sideways for more columns"),
  );
  const look = () => {
    const left = scroll.scrollLeft;
    const room = scroll.scrollWidth - scroll.clientWidth;
    frame.classList.toggle("scrolls", room > 1);
    frame.classList.toggle("more-left", left > 1);
    frame.classList.toggle("more-right", left < room - 1);
  };
  scroll.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(scroll);
  return frame;
}

// Made when it is first opened: a long table costs nothing until somebody wants it. On paper an
// "on-paper" fold is always open, and a "screen-only" one is left out.
export function unfold(
  summary: string,
  content: () => Element,
  place?: "on-paper" | "screen-only",
): HTMLElement {
  const details = h("details", { class: place }, h("summary", {}, summary));
  details.addEventListener("toggle", () => details.append(content()), { once: true });
  return details;
}

// With its content there at once; a browser tells of an opened fold only later.
export function openFold(fold: HTMLDetailsElement): void {
  fold.open = true;
  fold.dispatchEvent(new Event("toggle"));
}
