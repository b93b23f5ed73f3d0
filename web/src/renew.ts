// New content in place of old, without taking from readers what they did there.
import { openFold } from "./dom";

const shown = new WeakMap<Element, string>();

const kFocusable = "button, select, summary, [tabindex]";

const nameOf = (element: Element): string =>
  `${element.tagName} ${element.getAttribute("aria-label") ?? element.textContent}`;

const named = <T extends Element>(host: Element, selector: string): Map<string, T> =>
  new Map([...host.querySelectorAll<T>(selector)].map((element) => [nameOf(element), element]));

const foldName = (fold: Element): string => nameOf(fold.querySelector("summary")!);

// Fills the host anew when `data`, all that the content is made of, is not what it was made of before.
// What is unfolded, scrolled or in focus stays so where the new content has something of that name.
export function renew(host: HTMLElement, data: unknown, content: () => Element[]): void {
  const key = JSON.stringify(data);
  if (shown.get(host) === key) {
    return;
  }
  const fresh = content();
  const open = new Set([...host.querySelectorAll("details[open]")].map(foldName));
  const scrolled = [...named(host, ".scroll")].map(([name, frame]) => ({ name, left: frame.scrollLeft }));
  const focused = host.contains(document.activeElement) && nameOf(document.activeElement!);
  host.replaceChildren(...fresh);
  shown.set(host, key);
  host.querySelectorAll("details").forEach((fold) => {
    if (open.has(foldName(fold))) {
      openFold(fold);
    }
  });
  const frames = named(host, ".scroll");
  scrolled.forEach(({ name, left }) => frames.get(name)?.scrollTo({ left }));
  if (focused) {
    named<HTMLElement>(host, kFocusable).get(focused)?.focus({ preventScroll: true });
  }
}
