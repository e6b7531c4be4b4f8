// The line that was chosen last: which lines of other texts are related to it, and what there is to say of it.
import { shownWords, stageWords, type Shown } from "./explorer_columns";
import { barsOf, barWords } from "./metrics";
import { allWords } from "./notes";
import type { Side } from "./side";
import { controlWords } from "./text_pane";

/** The line that was chosen last, by its number in the full text. */
export interface Chosen {
  side: Side;
  place: string;
  line: number;
}

/** The line that a compilation failed on: it is lit from the start. */
export function errorLine(sides: readonly Side[]): Chosen | null {
  for (const side of sides) {
    const failed = side.data.passes[side.data.passes.length - 1];
    if (side.data.failure_line > 0 && failed !== undefined)
      return { side, place: failed.place, line: side.data.failure_line };
    const error = side.data.notes.find((note) => note.severity === "error" && note.line > 0);
    if (error !== undefined) return { side, place: "source", line: error.line };
  }
  return null;
}

/** The lines of a text, by their numbers in the full one, that are related to the chosen line. */
export function relatedLines(chosen: Chosen, to: Shown): readonly number[] {
  if (chosen.side === to.side) return chosen.side.map.lines(chosen.place, to.place, chosen.line);
  // Two compilations meet in the source, if they are of one kernel.
  const lines = chosen.side.map.lines(chosen.place, "source", chosen.line);
  if (chosen.side.map.file !== to.side.map.file) return [];
  return [...new Set(lines.flatMap((line) => to.side.map.lines("source", to.place, line)))].sort(
    (a, b) => a - b,
  );
}

/** How many lines of a text were lit: "3 lines of TTGIR". */
export function litWords(count: number, of: Shown): string {
  return `${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"} of ${shownWords(of)}`;
}

/** Of a line where it comes from, what was lit with it, how long its bar is, and what is in its margin. */
export function chosenWords(chosen: Chosen, lit: string, metric: string): string {
  const { side, place, line } = chosen;
  const notes = place === "source" ? side.data.notes.filter((note) => note.line === line) : [];
  const codes =
    place === "sass" ? side.data.controls.find((one) => one.line === line)?.codes : undefined;
  const bar = barWords(barsOf(side, metric, place), line);
  const parts = [
    originWords(chosen),
    lit,
    bar,
    codes === undefined ? "" : controlWords(codes),
    allWords(notes),
  ];
  return parts.filter((part) => part !== "").join(notes.length > 0 ? "\n" : " · ");
}

function originWords({ side: { map }, place, line }: Chosen): string {
  const chains = map.chain(place, line).filter((chain) => chain.length > 0);
  const what = `${stageWords(place)} line ${line}`;
  if (place === "source") return what;
  if (chains.length === 0) return `${what}: the compiler names no line of the kernel for it`;
  const words = chains
    .slice(0, 3)
    .map((chain) =>
      chain
        .map((frame) =>
          frame.file === map.file
            ? `line ${frame.line}`
            : `${frame.file.split("/").pop()}:${frame.line}`,
        )
        .join(", called from "),
    );
  return `${what}: from ${[...new Set(words)].join("; and from ")}`;
}
