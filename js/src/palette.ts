// Colours that readers with any colour vision can tell apart.

/** Okabe and Ito (2008), for up to eight kinds. */
export const BLIND_SAFE: readonly string[] = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999"];

/** Viridis at tenths: even in lightness. */
const ANCHORS: readonly (readonly [number, number, number])[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37],
];

/** A colour for a number from 0 to 1. */
export function sequential(share: number): string {
  const at = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * (ANCHORS.length - 1);
  const low = Math.min(ANCHORS.length - 2, Math.floor(at));
  const mixed = ANCHORS[low]!.map((channel, number) => Math.round(channel + (ANCHORS[low + 1]![number]! - channel) * (at - low)));
  return `rgb(${mixed.join(", ")})`;
}

/** Black or white, whichever is read better on a colour. */
export function inkOn(colour: string): string {
  const [red, green, blue] = colour.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16))
    : (colour.match(/\d+/g) ?? []).map(Number);
  const light = 0.299 * (red ?? 0) + 0.587 * (green ?? 0) + 0.114 * (blue ?? 0);
  return light > 140 ? "#000000" : "#ffffff";
}
