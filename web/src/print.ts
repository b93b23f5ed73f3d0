// What is folded on the screen to save room belongs on paper all the same.
import { openFold } from "./dom";

export function unfoldOnPaper(): void {
  let opened: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>("details.on-paper:not([open])")];
    opened.forEach(openFold);
  });
  addEventListener("afterprint", () => opened.forEach((fold) => (fold.open = false)));
}
