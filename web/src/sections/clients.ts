// Every client's noise, true against estimated, and who was flagged.
import {
  type Findings,
  isNumber,
  type Partition,
  partitionOf,
  truthUnknown,
  verdict,
  type Verdict,
} from "../data";
import { h, responsive, svg, table, unfold } from "../dom";
import { percent, plural, short } from "../format";
import { dot } from "../frame";
import { renew } from "../renew";
import { figure } from "../save";
import type { Section } from "../view";

interface Client {
  id: number;
  samples: number;
  wrong?: number; // shares of its samples; not there where the truth is not known
  distorted?: number;
  noisy?: boolean;
  estimated?: number;
  after?: number; // share of wrong labels after repair
  verdict?: Verdict;
}

const kListed = 60; // client numbers shown per verdict; the table has all

const known = (value: number | null | undefined): number | undefined =>
  isNumber(value) ? value : undefined;

function clientsOf(partition: Partition, findings: Findings, judged: boolean): Client[] {
  const flagged = findings.flagged && new Set(findings.flagged);
  const repaired = findings.confusion?.after !== undefined;
  return partition.clients.map((client, id) => ({
    id,
    samples: client.samples,
    ...(judged && {
      wrong: client.wrong_share,
      distorted: client.distorted_share,
      noisy: client.noisy,
    }),
    estimated: known(findings.noise_levels?.[id]?.estimated),
    after: repaired ? known(findings.noise_levels?.[id]?.real) : undefined,
    verdict: flagged && verdict(flagged.has(id), judged ? client.noisy : undefined),
  }));
}

export function clientsSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "clients" },
    h("h3", { id: "clients" }, "Noise of every client"),
    body,
  );
  return {
    element,
    update(view) {
      const partition = view.subject && partitionOf(view.report, view.subject);
      if (partition === undefined) {
        renew(body, "nothing", () => [
          h("p", { class: "empty" }, "This run directory does not record its clients."),
        ]);
        return;
      }
      const findings = view.subject?.findings ?? {};
      const judged = !truthUnknown(view.report, view.subject);
      const clients = clientsOf(partition, findings, judged);
      renew(body, [clients, findings.scores], () => [
        judged || clients.some((client) => client.estimated !== undefined)
          ? noiseFigure(clients)
          : h("p", { class: "empty" }, "Which samples of these data are noisy is not known."),
        findings.flagged
          ? verdicts(clients, judged ? kJudged : ["flagged"])
          : h("p", { class: "note" }, "This method flags nobody."),
        unfold("All clients as a table", () => clientTable(clients, findings), "screen-only"),
      ]);
    },
  };
}

function noiseFigure(clients: Client[]): HTMLElement {
  const noise = ({ wrong, distorted, estimated }: Client) =>
    wrong === undefined ? (estimated ?? 0) : wrong + (distorted ?? 0);
  const sorted = [...clients].sort((a, b) => noise(b) - noise(a) || a.id - b.id);
  const has = (key: "wrong" | "estimated" | "after") =>
    clients.some((client) => client[key] !== undefined);
  const host = h("div", { class: "picture" });
  const readout = h(
    "p",
    { class: "note" },
    has("wrong")
      ? "Clients by noise, the noisiest first."
      : "Clients by estimated noise, the noisiest first. The true noise of these data is not known.",
  );
  responsive(host, (width) => noiseChart(sorted, width, (text) => (readout.textContent = text)));
  const key = (look: string, text: string) => h("span", {}, h("i", { class: `key ${look}` }), text);
  return figure(
    { file: "noise" },
    {},
    h("figcaption", {}, "Share of a client's samples that are noisy (%)"),
    h(
      "p",
      { class: "keys" },
      has("wrong") && key("wrong", "wrong given labels"),
      clients.some(isDistorted) && key("distorted", "distorted images"),
      has("estimated") && key("estimated", "estimated by the method"),
      has("after") && key("after", "still wrong after repair"),
      clients.some(isFlagged) && key("flagged", "flagged"),
    ),
    host,
    readout,
  );
}

const isDistorted = (client: Client): boolean => (client.distorted ?? 0) > 0;
const isFlagged = ({ verdict }: Client): boolean =>
  verdict === "hit" || verdict === "false alarm" || verdict === "flagged";

// Paths instead of an element per client: there may be ten thousand.
function noiseChart(clients: Client[], width: number, tell: (text: string) => void): SVGElement {
  const left = 34;
  const height = 200;
  const foot = 16;
  const step = (width - left - 4) / clients.length;
  const bar = step > 4 ? step * 0.72 : step;
  const x = (i: number) => left + i * step + (step - bar) / 2;
  const y = (share: number) => 6 + (1 - share) * height;
  const column = (from: number, share = 0, wide: number) =>
    share > 0 ? `M${from.toFixed(2)} ${y(0)}h${wide.toFixed(2)}V${y(share).toFixed(1)}h-${wide.toFixed(2)}z` : "";
  const both = clients.some(isDistorted) && clients.some((client) => (client.wrong ?? 0) > 0);
  const wide = both ? bar / 2 : bar;
  const radius = Math.max(1.6, Math.min(4, step / 3));
  const dots = clients.flatMap((client, i) =>
    client.estimated === undefined ? [] : [dot(x(i) + bar / 2, y(client.estimated), radius)],
  );
  const ticks = clients.flatMap((client, i) =>
    client.after === undefined ? [] : [`M${x(i).toFixed(2)} ${y(client.after).toFixed(1)}h${bar.toFixed(2)}`],
  );
  const flags = clients.flatMap((client, i) =>
    isFlagged(client)
      ? [dot(x(i) + bar / 2, y(0) + foot / 2 + 1, Math.max(1.2, Math.min(3.5, step / 3)))]
      : [],
  );
  const noisy = clients.filter((client) => client.noisy).length;
  const judged = clients.some((client) => client.noisy !== undefined);
  const label = `Noise of ${plural(clients.length, "client")}${judged ? `, ${noisy} of them noisy` : ""}.`;
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height + 10 + foot}`,
      width,
      height: height + 10 + foot,
      role: "img",
      "aria-label": `${label} The table below has the values.`,
    },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
      svg("line", { x1: left, x2: width - 4, y1: y(share), y2: y(share), class: "grid" }),
      svg("text", { x: left - 6, y: y(share), class: "row-name" }, percent(share, 0)),
    ]),
    svg("path", { class: "wrong", d: clients.map((c, i) => column(x(i), c.wrong, wide)).join("") }),
    svg("path", {
      class: "distorted",
      d: clients.map((c, i) => column(both ? x(i) + wide : x(i), c.distorted, wide)).join(""),
    }),
    svg("path", { class: "after", d: ticks.join("") }),
    svg("path", { class: "estimated", d: dots.join("") }),
    svg("path", { class: "flagged", d: flags.join("") }),
  );
  picture.addEventListener("pointermove", (event) => {
    const client = clients[Math.floor((event.offsetX * (width / picture.clientWidth) - left) / step)];
    if (client) {
      tell(describe(client));
    }
  });
  return picture;
}

function describe(client: Client): string {
  const parts = [
    `Client ${client.id}: ${plural(client.samples, "sample")}`,
    client.wrong !== undefined && `${percent(client.wrong)}% wrong labels`,
    isDistorted(client) && `${percent(client.distorted!)}% distorted`,
    client.estimated !== undefined && `estimated ${percent(client.estimated)}%`,
    client.after !== undefined && `${percent(client.after)}% after repair`,
    client.verdict && kVerdicts[client.verdict].toLowerCase(),
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}

const kVerdicts: Record<Verdict, string> = {
  hit: "Rightly flagged",
  "false alarm": "Wrongly flagged",
  missed: "Missed",
  "left alone": "Rightly left alone",
  flagged: "Flagged",
  "not flagged": "Not flagged",
};
const kJudged: Verdict[] = ["hit", "false alarm", "missed", "left alone"];
const kLooks: Partial<Record<Verdict, string>> = {
  hit: "verdict right",
  "left alone": "verdict right",
  flagged: "verdict neutral",
};

function verdicts(clients: Client[], kinds: Verdict[]): HTMLElement {
  return h(
    "div",
    { class: "verdicts" },
    ...kinds.map((kind) => {
      const ids = clients.filter((client) => client.verdict === kind).map((client) => client.id);
      const more = ids.length > kListed ? ` and ${ids.length - kListed} more, in the table` : "";
      return h(
        "article",
        { class: kLooks[kind] ?? "verdict" },
        h("h4", {}, kVerdicts[kind]),
        h("p", { class: "count" }, String(ids.length)),
        h(
          "p",
          { class: "ids" },
          ids.length === 0 ? "none" : ids.slice(0, kListed).join(" ") + more,
        ),
      );
    }),
  );
}

function clientTable(clients: Client[], findings: Findings): HTMLElement {
  const scores = Object.entries(findings.scores ?? {});
  const share = (value: number | undefined) => (value === undefined ? "–" : percent(value));
  return table(
    "Clients",
    [
      { title: "Client" },
      { title: "Samples", number: true },
      { title: "Wrong labels %", number: true },
      { title: "Distorted %", number: true },
      { title: "Estimated %", number: true },
      { title: "After repair %", number: true },
      { title: "Truly noisy" },
      { title: "Verdict" },
      ...scores.map(([name]) => ({ title: name.replaceAll("_", " "), number: true })),
    ],
    clients.map((client) => [
      String(client.id),
      String(client.samples),
      share(client.wrong),
      share(client.distorted),
      share(client.estimated),
      share(client.after),
      client.noisy === undefined ? "–" : client.noisy ? "yes" : "no",
      client.verdict ? kVerdicts[client.verdict].toLowerCase() : "–",
      ...scores.map(([, score]) => {
        const value = known(score.by_client[client.id]);
        return value === undefined ? "–" : short(value);
      }),
    ]),
  );
}
