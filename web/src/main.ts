// Puts the page together and, when it is served by `winnow watch`, keeps it up to date.
import { methods, type Report, type Run, runsOf, seeds, settings } from "./data";
import { h, segmented } from "./dom";
import { plural } from "./format";
import { accuracySection } from "./sections/accuracy";
import { clientsSection } from "./sections/clients";
import { confusionSection } from "./sections/confusion";
import { costSection } from "./sections/cost";
import { experimentSection } from "./sections/experiment";
import { partitionSection } from "./sections/partition";
import { resultsSection } from "./sections/results";
import { scoresSection } from "./sections/scores";
import { selectionSection } from "./sections/selection";
import { lookOf, type Section } from "./view";

const kAskEvery = 2000; // milliseconds

class Page {
  private setting: string;
  private readonly hidden = new Set<string>();
  private subjectMethod = "";
  private subjectSeed = -1;
  private readonly facts = h("p", { class: "facts" });
  private readonly heading = h("h1");
  private readonly status = h("p", { class: "status", role: "status", hidden: true });
  private readonly choices = h("div", { class: "choices" });
  private readonly legend = h("div", { class: "legend", role: "group", "aria-label": "Methods" });
  private readonly subject = h("div", { class: "controls subject" });
  private readonly comparison: Section[] = [
    resultsSection(),
    accuracySection(),
    selectionSection(),
    costSection(),
  ];
  private readonly detail: Section[] = [
    clientsSection(),
    scoresSection(),
    confusionSection(),
    partitionSection(),
  ];
  private readonly experiment = experimentSection();
  private built = ""; // what the choices were built for
  private detailed = ""; // what the detail was drawn for

  constructor(private report: Report) {
    this.setting = settings(report)[0] ?? "";
  }

  mount(host: HTMLElement): void {
    const elements = (sections: Section[]) => sections.map((section) => section.element);
    host.replaceChildren(
      h("a", { class: "skip", href: "#content" }, "Skip to the results"),
      h("header", {}, this.heading, this.facts, this.status),
      h("nav", { class: "bar", "aria-label": "What is shown" }, this.choices, this.legend),
      h(
        "main",
        { id: "content" },
        ...elements(this.comparison),
        h(
          "section",
          { class: "detail", "aria-labelledby": "detail" },
          h("h2", { id: "detail" }, "One run in detail"),
          this.subject,
          ...elements(this.detail),
        ),
        this.experiment.element,
      ),
      h("footer", {}, `Made by winnow ${this.report.version}. This page needs no network.`),
    );
    this.update();
  }

  show(report: Report): void {
    this.report = report;
    this.update();
  }

  say(text: string, broken = false): void {
    this.status.hidden = false;
    this.status.classList.toggle("broken", broken);
    if (this.status.textContent !== text) {
      this.status.textContent = text;
    }
  }

  progress(): string {
    const { runs } = this.report;
    const finished = runs.filter((run) => run.status === "finished").length;
    const started = runs.filter((run) => run.status === "started").length;
    return `Live: ${finished} of ${plural(runs.length, "run")} finished, ${started} under way`;
  }

  private update(): void {
    this.describe();
    const all = settings(this.report);
    if (!all.includes(this.setting)) {
      this.setting = all[0] ?? "";
    }
    const key = JSON.stringify([all, methods(this.report).map((name) => lookOf(this.report, name))]);
    if (key !== this.built) {
      this.built = key;
      this.buildChoices(all);
      this.buildLegend();
    }
    this.refresh([...this.comparison, this.experiment]);
    this.updateDetail();
  }

  private refresh(sections: Section[]): void {
    const view = {
      report: this.report,
      setting: this.setting,
      hidden: this.hidden,
      subject: this.subjectRun(),
    };
    sections.forEach((section) => section.update(view));
  }

  private describe(): void {
    const { runs, partitions } = this.report;
    const names = [...new Set(runs.map((run) => run.experiment?.name).filter(Boolean))].join(", ");
    const name = names || "Runs";
    document.title = `${name}: Winnow report`;
    this.heading.textContent = name;
    const clients = [...new Set(partitions.map((partition) => partition.clients.length))];
    const data = [...new Set(partitions.map((partition) => partition.data))];
    const parts = [
      data.join(", "),
      clients.length > 0 && plural(clients[0], "client"),
      plural(methods(this.report).length, "method"),
      settings(this.report).length > 1 && plural(settings(this.report).length, "setting"),
      plural(seeds(this.report).length, "seed"),
      plural(runs.length, "run"),
    ];
    this.facts.textContent = parts.filter(Boolean).join(" · ");
  }

  private buildChoices(all: string[]): void {
    this.choices.replaceChildren();
    if (all.length > 1) {
      const options = all.map((name) => ({ value: name, text: name || "default" }));
      this.choices.append(
        segmented("Setting", options, this.setting, (value) => {
          this.setting = value;
          this.update();
        }),
      );
    }
  }

  private buildLegend(): void {
    const names = methods(this.report);
    this.legend.replaceChildren(
      ...names.map((name) => {
        const { colour, dash } = lookOf(this.report, name);
        const line = `border-top: 3px ${dash.length > 0 ? "dashed" : "solid"} var(${colour})`;
        const button = h(
          "button",
          {
            type: "button",
            "aria-pressed": String(!this.hidden.has(name)),
            title: "Show or hide its curves",
            click: () => {
              if (!this.hidden.delete(name)) {
                this.hidden.add(name);
              }
              button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
              this.refresh(this.comparison);
            },
          },
          h("i", { class: "line", style: line }),
          name,
        );
        return button;
      }),
    );
  }

  // The run of the chosen method and seed, or else the first of the setting that has most to show.
  private subjectRun(): Run | undefined {
    const runs = runsOf(this.report, this.setting).filter((run) => run.experiment !== undefined);
    const wealth = (run: Run) =>
      (run.findings?.noise_levels ? 4 : 0) + (run.findings?.flagged ? 2 : 0) + (run.findings ? 1 : 0);
    const richest = runs.reduce<Run | undefined>(
      (best, run) => (best === undefined || wealth(run) > wealth(best) ? run : best),
      undefined,
    );
    const ofMethod = runs.filter((run) => run.row === this.subjectMethod);
    return (
      ofMethod.find((run) => run.seed === this.subjectSeed) ??
      ofMethod[0] ??
      richest
    );
  }

  private updateDetail(): void {
    const run = this.subjectRun();
    const runs = runsOf(this.report, this.setting).filter((one) => one.experiment !== undefined);
    const rows = [...new Set(runs.map((one) => one.row))];
    const choice = <T extends string | number>(
      label: string,
      options: T[],
      chosen: T | undefined,
      choose: (value: string) => void,
    ) =>
      h(
        "label",
        {},
        label,
        h(
          "select",
          {
            change: (event) => {
              choose((event.target as HTMLSelectElement).value);
              this.updateDetail();
            },
          },
          ...options.map((option) =>
            h("option", { value: option, selected: option === chosen }, String(option)),
          ),
        ),
      );
    const seedsOfRow = runs.filter((one) => one.row === run?.row).map((one) => one.seed);
    const key = JSON.stringify([rows, seedsOfRow, run?.row, run?.seed]);
    if (this.subject.dataset.key !== key) {
      const focused = [...this.subject.querySelectorAll("select")].indexOf(
        document.activeElement as HTMLSelectElement,
      );
      this.subject.dataset.key = key;
      this.subject.replaceChildren(
        choice("Method", rows, run?.row, (value) => (this.subjectMethod = value)),
        choice("Seed", seedsOfRow, run?.seed, (value) => {
          this.subjectMethod = run?.row ?? "";
          this.subjectSeed = Number(value);
        }),
      );
      this.subject.querySelectorAll("select")[focused]?.focus();
    }
    // While a run goes on its findings change at checkpoints only; in between nothing moves here.
    const found = JSON.stringify([run?.id, run?.status, run?.findings?.round, run?.partition]);
    if (found !== this.detailed) {
      this.detailed = found;
      this.refresh(this.detail);
    }
  }
}

async function follow(page: Page, stamp: string): Promise<void> {
  page.say(page.progress());
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, kAskEvery));
    try {
      const answer = await fetch("data.json", {
        cache: "no-store",
        headers: { "If-None-Match": `"${stamp}"` },
      });
      if (answer.status === 200) {
        stamp = (answer.headers.get("ETag") ?? "").replaceAll('"', "");
        page.show((await answer.json()) as Report);
      } else if (answer.status !== 304) {
        throw new Error((await answer.text()).trim());
      }
      page.say(page.progress());
    } catch (error) {
      const why = error instanceof TypeError ? "winnow watch does not answer" : String(error);
      page.say(`Not up to date: ${why}`, true);
    }
  }
}

const report = JSON.parse(document.getElementById("data")!.textContent!) as Report;
const page = new Page(report);
page.mount(document.getElementById("page")!);
if (report.live !== undefined) {
  void follow(page, report.live);
}
