// The list of contents: a button that opens links to what the page shows at the moment.
import { h } from "./dom";
import { renew } from "./renew";

export class Contents {
  private readonly list = h("ol", { click: (event) => this.follow(event) });
  private readonly fold = h(
    "details",
    {
      keydown: (event) => (event as KeyboardEvent).key === "Escape" && this.close(true),
      focusout: (event) => this.left(event as FocusEvent),
    },
    h("summary", {}, "Contents"),
    this.list,
  );
  readonly element = h("nav", { class: "contents", "aria-label": "Contents" }, this.fold);

  constructor() {
    addEventListener("pointerdown", (event) => {
      if (!this.element.contains(event.target as Node)) {
        this.close(false);
      }
    });
  }

  // From the headings inside `main` that have an id and are shown.
  update(main: HTMLElement): void {
    const headings = [...main.querySelectorAll<HTMLElement>("h2[id], h3[id]")].filter(
      (heading) => heading.closest("[hidden]") === null,
    );
    const entries = headings.map(({ id, tagName, textContent }) => ({ id, level: tagName, text: textContent ?? "" }));
    renew(this.list, entries, () =>
      entries.map(({ id, level, text }) =>
        h("li", { class: level === "H3" && "inner" }, h("a", { href: `#${id}` }, text)),
      ),
    );
  }

  // The address of a page served or saved stays as it is; the heading is reached all the same.
  private follow(event: Event): void {
    const link = (event.target as Element).closest("a");
    const heading = link && document.getElementById(link.hash.slice(1));
    if (heading) {
      event.preventDefault();
      this.close(false);
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
      heading.scrollIntoView();
    }
  }

  private left(event: FocusEvent): void {
    const next = event.relatedTarget as Node | null;
    if (next !== null && !this.element.contains(next)) {
      this.close(false);
    }
  }

  private close(refocus: boolean): void {
    this.fold.open = false;
    if (refocus) {
      this.fold.querySelector("summary")!.focus();
    }
  }
}
