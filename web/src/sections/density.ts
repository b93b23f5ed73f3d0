// Gradient norms, batch by batch, of truly clean and truly noisy clients.
import { trulyNoisy } from "../data";
import { h, responsive, svg } from "../dom";
import { plural, short, whole } from "../format";
import { makeFrame, picture } from "../frame";
import { renew } from "../renew";
import { figure } from "../save";
import { densities, spread } from "../stats";
import type { Section } from "../view";

export function densitySection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "density" },
    h("h3", { id: "density" }, "Gradient norms of clean and noisy clients"),
    body,
  );
  return {
    element,
    update(view) {
      const norms = view.subject?.norms;
      element.hidden = norms === undefined;
      const noisy = trulyNoisy(view.report, view.subject);
      renew(body, [norms, view.subject?.partition, noisy(0)], () => {
        const of = (truth: boolean | undefined) =>
          Object.entries(norms?.by_client ?? {})
            .filter(([id]) => noisy(id) === truth)
            .map(([, values]) => values);
        const groups = [
          { look: "clean", text: "truly clean", lists: of(false) },
          { look: "noisy", text: "truly noisy", lists: of(true) },
          { look: "unknown", text: "clients", lists: of(undefined) },
        ].filter(({ lists }) => lists.some((values) => values.length > 0));
        return groups.length === 0 ? [] : [densityFigure(groups, norms!.thinned)];
      });
    },
  };
}

interface Group {
  look: string;
  text: string;
  lists: number[][];
}

function densityFigure(groups: Group[], thinned: boolean): HTMLElement {
  const values = groups.map(({ lists }) => lists.flat());
  const curves = densities(values, 240);
  const most = Math.max(...curves.y.map((curve) => curve.reduce((a, b) => Math.max(a, b), 0)));
  const host = h("div", { class: "picture" });
  responsive(host, (width) => {
    const frame = makeFrame(
      width,
      220,
      { low: curves.x[0], high: curves.x[curves.x.length - 1], title: "gradient norm of a batch" },
      { low: 0, high: most * 1.05, title: "density" },
    );
    const line = (curve: number[]) =>
      curve.map((y, i) => `${frame.x(curves.x[i]).toFixed(1)} ${frame.y(y).toFixed(1)}`).join("L");
    return picture(
      width,
      frame.height,
      `Density of gradient norms: ${groups.map(({ text }, i) => `${text} around ${short(spread(values[i])!.mean)}`).join(", ")}.`,
      ...frame.lines,
      ...groups.flatMap(({ look }, i) => [
        svg("path", {
          class: `${look} shade`,
          d: `M${frame.x(curves.x[0])} ${frame.bottom}L${line(curves.y[i])}V${frame.bottom}z`,
        }),
        svg("path", { class: `${look} line`, d: `M${line(curves.y[i])}` }),
      ]),
    );
  });
  const facts = groups.map(
    ({ text, lists }, i) =>
      `${plural(lists.length, "client")} ${text === "clients" ? "" : `${text}, `}${whole(values[i].length)} norms, ` +
      `mean ${short(spread(values[i])!.mean)}`,
  );
  return figure(
    { file: "density" },
    {},
    h("figcaption", {}, "Density of the gradient norms, batch by batch"),
    h(
      "p",
      { class: "keys" },
      ...groups.map(({ look, text }) => h("span", {}, h("i", { class: `key ${look}` }), text)),
    ),
    host,
    h(
      "p",
      { class: "note" },
      `${facts.join("; ")}. Each curve encloses the same area; it is smoothed by a normal distribution.` +
        (thinned ? " There are too many norms for this page: some of every client are drawn, evenly chosen." : ""),
    ),
  );
}
