// Puts the page together and, when it is served by `winnow watch`, keeps it up to date.
import { Contents } from "./contents";
import {
  clientCounts,
  dataNames,
  isFinished,
  methodNames,
  methods,
  readReport,
  type Report,
  type Run,
  runsOf,
  seeds,
  settings,
  usesTruth,
} from "./data";
import { h, message, segmented, svg } from "./dom";
import { plural, whole } from "./format";
import { unfoldOnPaper } from "./print";
import { renew } from "./renew";
import { filePart } from "./save";
import { accuracySection } from "./sections/accuracy";
import { arenaSection } from "./sections/arena";
import { clientsSection } from "./sections/clients";
import { confusionSection } from "./sections/confusion";
import { costSection } from "./sections/cost";
import { densitySection } from "./sections/density";
import { experimentSection } from "./sections/experiment";
import { imagesSection } from "./sections/images";
import { likenessSection } from "./sections/likeness";
import { lossSection } from "./sections/loss";
import { membersSection } from "./sections/members";
import { partitionSection } from "./sections/partition";
import { resultsSection } from "./sections/results";
import { scoresSection, seriesSection } from "./sections/scores";
import { selectionSection } from "./sections/selection";
import { stagesSection } from "./sections/stages";
import { drawSection, kUsesTruth, lookOf, type Section } from "./view";

const kAskEvery = 2000; // milliseconds

class Page {
  private setting: string;
  private readonly hidden = new Set<string>();
  private subjectMethod = "";
  private subjectSeed = "";
  private readonly facts = h("p", { class: "facts" });
  private readonly heading = h("h1");
  private readonly status = h("p", { class: "status", role: "status", hidden: true });
  private readonly choices = h("div", { class: "choices" });
  private readonly legend = h("div", { class: "legend", role: "group", "aria-label": "Methods" });
  private readonly contents = new Contents();
  private readonly main = h("main", { id: "content" });
  private readonly inDetail = h("section", { class: "detail", "aria-labelledby": "detail" });
  private readonly subject = h("div", { class: "controls subject" });
  private readonly comparison: Section[] = [
    arenaSection(),
    resultsSection(),
    accuracySection(),
    lossSection(),
    selectionSection(),
    costSection(),
  ];
  private readonly detail: Section[] = [
    clientsSection(),
    scoresSection(),
    seriesSection(),
    densitySection(),
    likenessSection(),
    imagesSection(),
    confusionSection(),
    stagesSection(),
    partitionSection(),
  ];
  private readonly members = membersSection();
  private readonly experiment = experimentSection();
  private detailed = ""; // what the detail was drawn for

  constructor(private report: Report) {
    this.setting = settings(report)[0] ?? "";
  }

  mount(host: HTMLElement): void {
    const elements = (sections: Section[]) => sections.map((section) => section.element);
    this.inDetail.append(
      h("h2", { id: "detail" }, "One run in detail"),
      this.subject,
      ...elements([this.members, ...this.detail]),
    );
    this.main.append(...elements(this.comparison), this.inDetail, this.experiment.element);
    host.replaceChildren(
      h("a", { class: "skip", href: "#content" }, "Skip to the results"),
      h("header", {}, this.heading, this.facts, this.status),
      h(
        "div",
        { class: "bar" },
        h("div", { class: "shown", role: "group", "aria-label": "What is shown" }, this.choices, this.legend),
        this.contents.element,
      ),
      this.main,
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
    const count = (status: Run["status"]) => runs.filter((run) => run.status === status).length;
    const parts = [
      `${count("finished")} of ${plural(runs.length, "run")} finished`,
      `${count("started")} under way`,
      count("stopped") > 0 && `${count("stopped")} stopped`,
      count("failed") > 0 && `${count("failed")} failed`,
    ];
    return `Live: ${parts.filter(Boolean).join(", ")}`;
  }

  private update(): void {
    this.describe();
    const all = settings(this.report);
    if (!all.includes(this.setting)) {
      this.setting = all[0] ?? "";
    }
    this.showChoices(all);
    this.showLegend();
    this.main.dataset.files = all.length > 1 ? `setting-${filePart(this.setting)}-` : "";
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
    sections.forEach((section) => drawSection(section, view));
  }

  private describe(): void {
    const { runs } = this.report;
    const names = [...new Set(runs.map((run) => run.experiment?.name).filter(Boolean))].join(", ");
    const name = names || "Runs";
    document.title = `${name}: Winnow report`;
    this.heading.textContent = name;
    const clients = clientCounts(this.report);
    const unfinished = runs.filter((run) => !isFinished(run)).length;
    const parts = [
      dataNames(this.report).join(", "),
      clients.length === 1 && plural(clients[0], "client"),
      clients.length > 1 && `${clients.map(whole).join(" or ")} clients`,
      plural(methodNames(this.report).length, "method"),
      methods(this.report).length > methodNames(this.report).length &&
        plural(methods(this.report).length, "variant"),
      settings(this.report).length > 1 && plural(settings(this.report).length, "setting"),
      plural(seeds(this.report).length, "seed"),
      plural(runs.length, "run") + (unfinished > 0 ? `, ${unfinished} not finished` : ""),
    ];
    this.facts.textContent = parts.filter(Boolean).join(" · ");
  }

  private showChoices(all: string[]): void {
    const options = all.map((name) => ({ value: name, text: name || "default" }));
    renew(this.choices, all, () =>
      all.length < 2
        ? []
        : [
            segmented("Setting", options, this.setting, (value) => {
              this.setting = value;
              this.update();
            }),
          ],
    );
  }

  private showLegend(): void {
    const entries = methods(this.report).map((name) => ({
      name,
      isTold: usesTruth(this.report.runs.filter((run) => run.row === name)),
      ...lookOf(this.report, name),
    }));
    renew(this.legend, entries, () =>
      entries.map(({ name, isTold, colour, dash }) => {
        const button = h(
          "button",
          {
            type: "button",
            "aria-pressed": String(!this.hidden.has(name)),
            title: `Show or hide its curves${isTold ? ` ${kUsesTruth}` : ""}`,
            click: () => {
              if (!this.hidden.delete(name)) {
                this.hidden.add(name);
              }
              button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
              this.refresh(this.comparison);
            },
          },
          svg(
            "svg",
            { class: "line", viewBox: "0 0 28 4", "aria-hidden": "true" },
            svg("path", {
              d: "M0 2h28",
              style: `stroke: var(${colour})`,
              "stroke-dasharray": dash.join(" ") || undefined,
            }),
          ),
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
    const choice = (
      label: string,
      options: string[],
      chosen: string | undefined,
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
            h("option", { value: option, selected: option === chosen }, option),
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
          this.subjectSeed = value;
        }),
      );
      this.subject.querySelectorAll("select")[focused]?.focus();
    }
    // While a run goes on its findings change at checkpoints only; in between nothing moves here.
    const found = JSON.stringify([run?.id, run?.status, run?.findings?.round, run?.partition, run?.labels?.length]);
    if (found !== this.detailed) {
      this.detailed = found;
      this.inDetail.dataset.files = run ? runPrefix(run) : "";
      this.refresh(this.detail);
    }
    this.refresh([this.members]); // they come and go all the time
    this.contents.update(this.main);
  }
}

// As the program names the folder of a run's pictures.
const runPrefix = ({ row, column, seed }: Run): string =>
  `${["run", filePart(row), filePart(column)].filter(Boolean).join("-")}-s${filePart(seed)}-`;

async function ask(stamp: string): Promise<Response> {
  try {
    return await fetch("data.json", {
      cache: "no-store",
      headers: { "If-None-Match": `"${stamp}"` },
    });
  } catch {
    throw new Error("winnow watch does not answer");
  }
}

async function follow(page: Page, stamp: string): Promise<void> {
  page.say(page.progress());
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, kAskEvery));
    try {
      const answer = await ask(stamp);
      if (answer.status === 200) {
        page.show(readReport((await answer.json()) as Report));
        // Only now: what could not be shown is asked for again.
        stamp = (answer.headers.get("ETag") ?? "").replaceAll('"', "");
      } else if (answer.status !== 304) {
        throw new Error((await answer.text()).trim());
      }
      page.say(page.progress());
    } catch (error) {
      page.say(`Not up to date: ${message(error)}`, true);
    }
  }
}

const report = readReport(JSON.parse(document.getElementById("data")!.textContent!) as Report);
const page = new Page(report);
page.mount(document.getElementById("page")!);
unfoldOnPaper();
if (report.live !== undefined) {
  void follow(page, report.live);
}
