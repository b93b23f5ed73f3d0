// What the reader has chosen, and what a section is.
import type { Report, Run } from "./data";
import { methods, runsOf, usesTruth } from "./data";
import { h, message } from "./dom";
import { look, type Look } from "./palette";

export interface View {
  report: Report;
  setting: string;
  hidden: ReadonlySet<string>; // methods switched off in the legend
  subject: Run | undefined; // the run that is looked at in detail
}

// Built once, then told whenever the data or the choices change. A section with nothing to say hides
// itself.
export interface Section {
  element: HTMLElement;
  update(view: View): void;
}

// A section that fails says so in its own place and leaves the others alone.
export function drawSection(section: Section, view: View): void {
  const { element } = section;
  element.querySelector(":scope > .failure")?.remove();
  element.classList.remove("failed");
  try {
    section.update(view);
  } catch (error) {
    console.error(error);
    element.hidden = false;
    element.classList.add("failed");
    element.append(h("p", { class: "failure" }, `This section cannot be drawn: ${message(error)}`));
  }
}

export function lookOf(report: Report, method: string): Look {
  const runs = report.runs.filter((run) => run.row === method);
  return look(methods(report).indexOf(method), usesTruth(runs));
}

// As the tables of the program call a method that is told which labels or clients are noisy.
export const kUsesTruth = "(uses ground truth)";

// The methods of the chosen setting with their runs, in the order of the sweep.
export interface Group {
  method: string;
  runs: Run[];
  look: Look;
  isRival: boolean; // not told the truth
}

export function groups(view: View): Group[] {
  return methods(view.report)
    .map((method) => {
      const runs = runsOf(view.report, view.setting, method);
      return { method, runs, look: lookOf(view.report, method), isRival: !usesTruth(runs) };
    })
    .filter((group) => group.runs.length > 0);
}

export const visibleGroups = (view: View): Group[] =>
  groups(view).filter((group) => !view.hidden.has(group.method));
