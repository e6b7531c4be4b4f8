// Bars: how much of something, in parts that stand for what warps do, or for what is used and lost.
import "./bar.css";
import type { BarPart } from "../data";
import { element } from "../dom";

/** What a part of a bar stands for: it has a color, `--kl-wait` and so on. */
export type BarKind = BarPart["stands_for"];

/** What warps do, in the order in which bars are stacked. */
export const WORK: readonly BarKind[] = ["wait", "copy", "dot", "other"];

const colorOf = (kind: BarKind): string => `background:var(--kl-${kind})`;

/** A bar whose parts have their shares of its whole length. Its numbers are beside it in words, so that nothing is read aloud. */
export function bar(parts: readonly BarPart[]): HTMLElement {
  return element(
    "span",
    { class: "kl-stack", "aria-hidden": "true" },
    ...parts.map(({ stands_for, share }) =>
      element("i", {
        style: `width:${(100 * Math.max(0, Math.min(1, share))).toFixed(2)}%;${colorOf(stands_for)}`,
      }),
    ),
  );
}

/** The sums of shares by what they stand for, in the order of stacking; those that are nothing left out. */
export function stacked(parts: readonly BarPart[], whole = 1): BarPart[] {
  const sum = (kind: BarKind): number =>
    parts.reduce((total, part) => total + (part.stands_for === kind ? part.share / whole : 0), 0);
  return WORK.map((stands_for) => ({ stands_for, share: sum(stands_for) })).filter(
    ({ share }) => share > 0,
  );
}

/** A color with the words of what it stands for. */
export function swatch(kind: BarKind, words: string): HTMLElement {
  return element("span", { class: "kl-swatch" }, element("i", { style: colorOf(kind) }), words);
}

/** A share in percent, of three digits, as the still has it. */
export const percentWords = (share: number): string => `${Number((100 * share).toPrecision(3))} %`;
