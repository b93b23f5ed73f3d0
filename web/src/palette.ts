// One colour per method, the same everywhere on the page. Eight hues that stay apart in the common
// kinds of colour blindness; further methods take them again with another dash.

const kHues = 8;
const kDashes = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

export interface Look {
  colour: string; // a CSS variable, so that light, dark and print have their own shades
  dash: number[];
}

export function look(index: number, usesTruth: boolean): Look {
  const round = Math.floor(index / kHues) + (usesTruth ? 1 : 0);
  return { colour: `--hue-${index % kHues}`, dash: kDashes[round % kDashes.length] };
}
