// How good or bad something is: its mark, for readers who do not see its color, and its class.
import type { Tile } from "../data";

export type Tone = Tile["tone"];

const MARKS: Readonly<Record<Tone, string>> = { "": "", pass: "✓", warn: "!", fail: "✗" };

/** Words with the mark of a tone before them. */
export const marked = (words: string, tone: Tone): string => `${MARKS[tone]} ${words}`.trimStart();

/** The class that gives an element the color of a tone, as `--kl-tone`. */
export const toneClass = (tone: Tone): string => (tone === "" ? "" : ` kl-tone-${tone}`);
