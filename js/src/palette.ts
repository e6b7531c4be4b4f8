// Colors that readers with any color vision can distinguish, those of kernellab/viz/kit/palette.py: tests/viz/test_colors.py measures them and compares the two.

/** Okabe and Ito (2008), for up to eight kinds; in place of their black, which a dark page has too, a dark gray. */
export const BLIND_SAFE: readonly string[] = [
  "#56b4e9",
  "#e69f00",
  "#009e73",
  "#f0e442",
  "#0072b2",
  "#d55e00",
  "#cc79a7",
  "#555555",
];

export type Color = readonly [number, number, number];

/** Viridis at tenths: even in lightness. */
export const ANCHORS: readonly Color[] = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [109, 205, 89],
  [180, 222, 44],
  [253, 231, 37],
];

/** From low to high for thin lines: even in lightness, so that all of it is seen on white and on a dark page. */
const ORDERED: readonly Color[] = [
  [176, 125, 18],
  [0, 158, 115],
  [74, 127, 224],
];

/** A color for a number from 0 to 1. */
export function sequential(share: number): string {
  return blend(ANCHORS, share);
}

/** A line's color: 0 is the fastest, 1 the slowest. */
export function fastToSlow(share: number): string {
  return blend(ORDERED, share);
}

function blend(anchors: readonly Color[], share: number): string {
  const at = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * (anchors.length - 1);
  const low = Math.min(anchors.length - 2, Math.floor(at));
  const mixed = anchors[low]!.map((channel, number) =>
    Math.round(channel + (anchors[low + 1]![number]! - channel) * (at - low)),
  );
  return `rgb(${mixed.join(", ")})`;
}

/** For lines and points, the clearest first: seen on white and on a dark page. */
export const LINES: readonly string[] = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#8a3ffc",
  "#a0522d",
];

/** Zero, what is not a finite number, and elements that a step touches; as kernellab/viz/kit/palette.py has them. */
export const ZERO: Color = [178, 178, 194];
export const NAN: Color = [150, 0, 20];
export const INFINITE: Color = [255, 160, 255];
export const READ: Color = [220, 91, 0];
export const WRITTEN: Color = [27, 60, 255];

/** Black or white, whichever is read better on a color: of the larger contrast, as WCAG 2.2 defines it. */
export function inkOn(color: string): string {
  const channels = color.startsWith("#")
    ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16))
    : (color.match(/\d+/g) ?? []).map(Number);
  const [red, green, blue] = channels.map((channel) =>
    channel <= 10 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4,
  );
  const luminance = 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
  return (luminance + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff";
}
