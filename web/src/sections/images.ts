// Images of the clients that were flagged and of the others.
import type { GroupImage } from "../data";
import { h } from "../dom";
import { renew } from "../renew";
import { figure } from "../save";
import type { Section } from "../view";

export function imagesSection(): Section {
  const body = h("div", { class: "pair" });
  const element = h(
    "section",
    { "aria-labelledby": "images" },
    h("h3", { id: "images" }, "Images of the two groups"),
    body,
    h(
      "p",
      { class: "note" },
      "Drawn at random from all samples of the group, as its clients see them. A dashed frame with a cross " +
        "is an image that is distorted or wrongly labelled.",
    ),
  );
  return {
    element,
    update(view) {
      const images = view.subject?.images;
      element.hidden = images === undefined;
      renew(body, images ?? null, () =>
        images
          ? [
              group("images-flagged", "Clients that the method took for noisy", images.flagged),
              group("images-others", "The other clients", images.others),
            ]
          : [],
      );
    },
  };
}

// What is not base64 is not put into an address.
const isBase64 = (text: string): boolean => /^[A-Za-z0-9+/]+={0,2}$/.test(text);

const kTruth = (noisy: boolean | null): string =>
  noisy === null ? "" : noisy ? ", truly noisy" : ", truly clean";

const group = (file: string, title: string, images: GroupImage[]): HTMLElement =>
  figure(
    { file },
    {},
    h("figcaption", {}, title),
    h(
      "div",
      { class: "nine" },
      ...images
        .filter((image) => isBase64(image.png))
        .map((image) =>
          h(
            "span",
            { class: image.noisy === null ? "tile" : image.noisy ? "tile noisy" : "tile clean" },
            h("img", {
              src: `data:image/png;base64,${image.png}`,
              alt: `an image of client ${image.client}${kTruth(image.noisy)}`,
            }),
          ),
        ),
    ),
    h("p", { class: "note" }, `Clients ${images.map((image) => image.client).join(" ")}`),
  );
