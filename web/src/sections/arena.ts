// Which method wins where: ranks over all settings, and what each method gains or loses in every one.
import type { Arena, ArenaMethod } from "../data";
import { h, responsive, table } from "../dom";
import { bytes, plural, whole } from "../format";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import { figure } from "../save";
import { kUsesTruth, type Section } from "../view";

const kTall = 20; // pixels of a method
const kLetters = 28; // of a name
const kNarrowestCell = 44; // the picture scrolls where it has no room for these

export function arenaSection(): Section {
  const body = h("div");
  const element = h("section", { "aria-labelledby": "arena" }, h("h2", { id: "arena" }, "Arena"), body);
  return {
    element,
    update({ report: { arena } }) {
      element.hidden = arena === undefined;
      renew(body, arena, () => (arena ? [ranks(arena), picture(arena), notes(arena)] : []));
    },
  };
}

const points = (value: number, digits = 2): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

const nameOf = ({ name, uses_ground_truth }: ArenaMethod): string =>
  uses_ground_truth && !name.includes("ground truth") ? `${name} ${kUsesTruth}` : name;

function ranks(arena: Arena): HTMLElement {
  return table(
    "Ranks by method",
    [
      { title: "Method" },
      { title: "Mean rank", number: true, hint: "over the settings in which it has run; 1 is the best" },
      { title: "Wins", number: true, hint: "settings in which no other is better" },
      { title: `Worst against ${arena.reference}`, number: true, hint: "in points of accuracy" },
      { title: "Where" },
      { title: "Settings", number: true },
      { title: "Runs", number: true },
      { title: "Traffic", number: true, hint: "mean of its runs" },
      { title: "Wall time", number: true, hint: "mean of its runs" },
      { title: "Reveals", hint: "what leaves a client beside its model and its number of samples" },
    ],
    arena.methods.map((method) => [
      nameOf(method),
      method.rank === null ? "–" : method.rank.toFixed(2),
      method.uses_ground_truth ? "–" : whole(method.wins),
      method.worst === null ? "–" : points(method.worst.points),
      method.worst?.setting ?? "–",
      whole(method.settings),
      whole(method.runs),
      method.bytes === null ? "–" : bytes(method.bytes),
      method.seconds === null ? "–" : `${method.seconds.toFixed(1)} s`,
      reveals(method),
    ]),
  );
}

const reveals = ({ reveals: fields }: ArenaMethod): string =>
  fields === null ? "–" : fields.map(({ field }) => field).join(", ") || "nothing more";

function picture(arena: Arena): HTMLElement {
  const value = (row: number, column: number) => arena.methods[row].cells[column]?.difference ?? null;
  const largest = Math.max(
    1e-9,
    ...arena.methods.flatMap(({ cells }) => cells.map((cell) => Math.abs(cell?.difference ?? 0))),
  );
  const names = arena.methods.map(nameOf);
  const least = kNarrowestCell * arena.settings.length + 7 * kLetters + 40;
  const host = h("div", { class: "picture", style: `min-width: ${Math.min(least, 1200)}px` });
  responsive(host, (width) =>
    heatMap(
      {
        label: `Points above or below ${arena.reference} of ${plural(names.length, "method")} in ${plural(arena.settings.length, "setting")}.`,
        rows: names,
        columns: arena.settings,
        // Small differences are the usual ones: the root makes them visible.
        value: (row, column) => {
          const difference = value(row, column) ?? 0;
          return {
            share: 0.9 * Math.sqrt(Math.abs(difference) / largest),
            hue: difference < 0 ? "--noisy" : "--clean",
          };
        },
        cellText: (row, column) => {
          const difference = value(row, column);
          return difference === null ? "–" : points(difference, 1);
        },
        rowTitle: "method",
        columnTitle: "setting",
        tall: kTall,
        longest: kLetters,
      },
      width,
    ),
  );
  return figure(
    {
      file: "arena",
      csv: () => ({
        columns: ["method", "setting", "runs", "mean", "difference", "rank"],
        rows: arena.methods.flatMap(({ name, cells }) =>
          cells.map((cell, i) => [
            name,
            arena.settings[i],
            cell?.runs ?? 0,
            cell?.mean,
            cell?.difference ?? undefined,
            cell?.rank ?? undefined,
          ]),
        ),
      }),
    },
    {},
    h("figcaption", {}, `Points of accuracy above or below ${arena.reference}`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Arena" }, host),
  );
}

function notes(arena: Arena): HTMLElement {
  const missing =
    arena.missing === 0
      ? `All ${plural(arena.cells, "cell")} are there.`
      : `${whole(arena.missing)} of ${plural(arena.cells, "cell")} are missing; they are dashes and count nowhere.`;
  const waiting = arena.not_begun.length > 0 ? ` Without any result yet: ${arena.not_begun.join(", ")}.` : "";
  return h(
    "p",
    { class: "note" },
    "In every setting the methods that have run there are ranked; tied ones share the mean of their places. " +
      `Methods that are told the truth are references and have no rank. ${missing}${waiting}`,
  );
}
