// The members of a federation that is or was served, as its server last saw them.
import type { Member, MemberStatus } from "../data";
import { h, table } from "../dom";
import { plural, whole } from "../format";
import { renew } from "../renew";
import type { Section } from "../view";

const kDay = 86_400_000; // milliseconds
const kSoon = 30; // days before a certificate expires that are worth a word

// In the order in which they are counted, with what is said of them.
const kStatuses: [MemberStatus, string][] = [
  ["working", "working"],
  ["present", "present"],
  ["away", "away"],
  ["left", "left"],
  ["revoked", "revoked"],
  ["enrolled", "not there yet"],
  ["done", "told the result"],
];

const statusText = (status: MemberStatus): string =>
  kStatuses.find(([name]) => name === status)?.[1] ?? status;

export function membersSection(): Section {
  const body = h("div");
  const element = h(
    "section",
    { "aria-labelledby": "members" },
    h("h3", { id: "members" }, "Members of the federation"),
    body,
  );
  return {
    element,
    update(view) {
      const members = view.subject?.members?.members ?? [];
      element.hidden = members.length === 0;
      const today = Math.floor(Date.now() / kDay); // days that are left are counted anew
      renew(body, [members, today], () => (members.length === 0 ? [] : [summary(members), memberTable(members)]));
    },
  };
}

function summary(members: Member[]): HTMLElement {
  const counts = kStatuses.map(([status, text]) => {
    const count = members.filter((member) => member.status === status).length;
    return count > 0 && `${whole(count)} ${text}`;
  });
  const expiring = members.filter((member) => daysLeft(member) < kSoon).length;
  return h(
    "p",
    {},
    `${plural(members.length, "member")}: ${counts.filter(Boolean).join(", ")}.`,
    expiring > 0 && ` ${plural(expiring, "certificate")} expired or expiring within ${kSoon} days.`,
  );
}

// Infinity where nothing is known of its certificate.
const daysLeft = (member: Member): number =>
  member.expires === null ? Infinity : (Date.parse(member.expires) - Date.now()) / kDay;

const minute = (time: string | null): string => (time === null ? "–" : time.slice(0, 16).replace("T", " "));

function expiry(member: Member): string {
  const days = daysLeft(member);
  const date = minute(member.expires).slice(0, 10);
  return days < 0
    ? `${date} (expired)`
    : days < kSoon
      ? `${date} (${days < 1 ? "today or tomorrow" : `in ${plural(Math.floor(days), "day")}`})`
      : date;
}

const memberTable = (members: Member[]): HTMLElement =>
  table(
    "Members",
    [
      { title: "Member" },
      { title: "Client", number: true },
      { title: "Status" },
      { title: "Last seen (UTC)" },
      { title: "Rounds", hint: "in which a reply of it counted", number: true },
      { title: "Absences", hint: "tasks without a reply that counts", number: true },
      { title: "Refusals", hint: "calls and replies that the server refused", number: true },
      { title: "Certificate expires" },
      { title: "Samples", number: true },
      { title: "Version" },
    ],
    members.map((member) => [
      member.name,
      String(member.client),
      statusText(member.status),
      minute(member.last_seen),
      whole(member.rounds),
      whole(member.absences),
      whole(member.refusals),
      expiry(member),
      whole(member.samples),
      member.version ?? "–",
    ]),
  );
