// One look per method, the same everywhere on the page. Eight hues that stay apart in the common kinds of
// colour blindness; further methods take them again with another dash. Plain dashes are kept for methods
// that are told the truth.

const kHues = 8;
const kTruth = [8, 4];
const kRounds = [[], [2, 3], [10, 3, 2, 3], [10, 3, 2, 3, 2, 3]];

export interface Look {
  colour: string; // a CSS variable, so that light, dark and print have their own shades
  dash: number[];
}

export function look(index: number, usesTruth: boolean): Look {
  const round = Math.floor(index / kHues) % kRounds.length;
  return { colour: `--hue-${index % kHues}`, dash: usesTruth ? kTruth : kRounds[round] };
}

export const needsDashes = (methods: number): boolean => methods > kHues;
