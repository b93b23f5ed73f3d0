// Labels against the truth, before and after the method repaired them.
import { partitionOf, type Run, tooManyToCompare, truthUnknown } from "../data";
import { h, responsive, table, unfold } from "../dom";
import { percent, plural, whole } from "../format";
import { heatMap } from "../heat_map";
import { renew } from "../renew";
import { figure } from "../save";
import type { Section } from "../view";

export function confusionSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "confusion" },
    h("h3", { id: "confusion" }, "Labels against the truth"),
    body,
  );
  return {
    element,
    update(view) {
      const run = view.subject;
      const confusion = run?.findings?.confusion;
      const names = (run && partitionOf(view.report, run)?.class_names) ?? [];
      if (run === undefined || confusion === undefined) {
        const why = truthUnknown(view.report, run)
          ? "The true labels of these data are not known."
          : tooManyToCompare(view.report, run)
            ? "Not recorded: there are more than 1,000 classes."
            : "This run directory does not record how labels were confused.";
        renew(body, why, () => [h("p", { class: "empty" }, why)]);
        return;
      }
      renew(body, [confusion, names, run.summary?.relabel], () => [
        h(
          "div",
          { class: "pair" },
          matrix("confusion-given", "Given labels", confusion.before, names),
          confusion.after
            ? matrix("confusion-repaired", "After repair", confusion.after, names)
            : h("p", { class: "empty" }, "This method repairs no labels."),
        ),
        ...repairFacts(run),
        h(
          "p",
          { class: "note" },
          "Percent of the samples of each true class, over all clients; the tables have the numbers too.",
        ),
      ]);
    },
  };
}

function repairFacts(run: Run): Element[] {
  const counts = run.summary?.relabel;
  if (counts === undefined) {
    return [];
  }
  const text =
    `${plural(counts.wrong_before, "wrong label")} before, ${whole(counts.wrong_now)} after: ` +
    `${whole(counts.wrong_to_right)} put right, ${whole(counts.wrong_to_wrong)} changed but still ` +
    `wrong, ${whole(counts.right_to_wrong)} correct ones made wrong.`;
  return [h("p", { class: "fact" }, text)];
}

function matrix(file: string, title: string, counts: number[][], classNames: string[]): HTMLElement {
  const names = counts.map((_, i) => classNames[i] ?? String(i));
  const totals = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
  const share = (row: number, column: number) => counts[row][column] / Math.max(1, totals[row]);
  const right = counts.reduce((sum, row, i) => sum + row[i], 0);
  const all = Math.max(1, totals.reduce((sum, value) => sum + value, 0));
  const host = h("div", { class: "picture" });
  responsive(host, (width) =>
    heatMap(
      {
        label: `${title}: ${percent(right / all)}% of the labels are right.`,
        rows: names,
        columns: names,
        // Wrong labels are few beside the right ones: the root makes them visible.
        value: (row, column) =>
          row === column
            ? { share: share(row, column), hue: "--clean" }
            : { share: Math.sqrt(share(row, column)) * 0.9, hue: "--noisy" },
        cellText: (row, column) => {
          const text = percent(share(row, column), 0);
          return text === "0" ? "" : text;
        },
        rowTitle: "true class",
        columnTitle: "label",
      },
      width,
    ),
  );
  return figure(
    { file },
    {},
    h("figcaption", {}, `${title}: ${percent(right / all)}% right`),
    host,
    unfold(`${title} as a table`, () =>
      table(
        `${title}: samples of each true class by label, in brackets the percent of the class`,
        [{ title: "True class" }, ...names.map((name) => ({ title: name, number: true }))],
        counts.map((row, i) => [
          names[i],
          ...row.map((count, j) => `${whole(count)} (${percent(share(i, j))})`),
        ]),
      ),
    ),
  );
}
