// Numbers for people, as the program prints them.
import type { Spread } from "./stats";

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const whole = (value: number): string => grouped.format(value);
// Two decimals, as the tables of the program.
export const percent = (share: number, digits = 2): string => (100 * share).toFixed(digits);

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

export function seconds(value: number): string {
  if (value < 9.95) {
    return `${value.toFixed(1)} s`;
  }
  const total = Math.round(value);
  if (total < 60) {
    return `${total} s`;
  }
  const two = (part: number) => String(part).padStart(2, "0");
  return total < 3600
    ? `${Math.floor(total / 60)} min ${two(total % 60)} s`
    : `${Math.floor(total / 3600)} h ${two(Math.floor(total / 60) % 60)} min`;
}

export const percentSpread = (found: Spread | undefined): string =>
  found === undefined
    ? "–"
    : percent(found.mean) + (found.count > 1 ? ` ± ${percent(found.deviation)}` : "");

export const plural = (count: number, word: string): string =>
  `${whole(count)} ${word}${count === 1 ? "" : "s"}`;

export const short = (value: number): string =>
  Number.isInteger(value) ? whole(value) : Number(value.toPrecision(3)).toString();
