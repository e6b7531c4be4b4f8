// What is said of a kernel's lines: remarks of the compiler, findings, measurements; in words, and as a list below the panes.
import type { IrView, MarginNote } from "./data";
import { element } from "./dom";

type Severity = MarginNote["severity"];

const SIGNS: Record<Severity, string> = { error: "✖", warning: "▲", remark: "●", note: "○" };
const ORDER: readonly Severity[] = ["error", "warning", "remark", "note"];

/** The mark of some notes of one line: that of the worst. */
export function markOf(notes: readonly MarginNote[]): { sign: string; severity: Severity } {
  const severity = ORDER.find((one) => notes.some((note) => note.severity === one)) ?? "note";
  return { sign: SIGNS[severity], severity };
}

/** Who says it; and how, where the note puts a compiler's words into plainer ones. */
function source(note: MarginNote): string {
  return note.said ? `${note.origin}: ${note.said}` : note.origin;
}

/** A note in words: what, what to try, and who says it. */
function noteWords(note: MarginNote): string {
  const advice = note.advice ? `\nTry: ${note.advice}` : "";
  return `${note.severity}: ${note.words}${advice}\n[${source(note)}]`;
}

/** Several notes in words, each said once. */
export function allWords(notes: readonly MarginNote[]): string {
  return [...new Set(notes.map(noteWords))].join("\n\n");
}

/** Called with the side and the line of a note that was chosen. */
export type Go = (side: number, line: number) => void;

/** A place with notes, in the order of sides and lines. */
export interface NotedLine {
  side: number;
  line: number;
  notes: readonly MarginNote[];
}

/** The lines that have notes. */
export function notedLines(view: IrView): NotedLine[] {
  return view.sides.flatMap((side, number) => {
    const lines = [
      ...new Set(side.notes.filter((note) => note.line > 0).map((note) => note.line)),
    ].sort((a, b) => a - b);
    return lines.map((line) => ({
      side: number,
      line,
      notes: side.notes.filter((note) => note.line === line),
    }));
  });
}

/** The noted line after, or before, a place; round the end. */
export function neighbor(
  lines: readonly NotedLine[],
  side: number,
  line: number,
  forward: boolean,
): NotedLine | null {
  const beyond = (one: NotedLine) =>
    Math.sign(one.side - side || one.line - line) === (forward ? 1 : -1);
  return (
    (forward ? (lines.find(beyond) ?? lines[0]) : (lines.findLast(beyond) ?? lines.at(-1))) ?? null
  );
}

/** What is said of the whole kernel, and a list of what is said of its lines; choosing an entry goes to its line. */
export function noteList(view: IrView, go: Go): HTMLElement {
  const box = element("div", {
    class: "kl-general",
    role: "region",
    "aria-label": "Remarks, findings and measurements",
  });
  const lines = notedLines(view);
  const name = (side: number) => (view.sides.length === 2 ? `${view.sides[side]!.name}: ` : "");
  if (lines.length > 0) box.append(linesList(lines, name, go));
  const general = view.sides.flatMap((side, number) =>
    side.notes
      .filter((note) => note.line === 0)
      .map((note) => {
        const advice = note.advice ? ` Try: ${note.advice}` : "";
        return {
          note,
          line: element(
            "div",
            { class: `kl-note-${note.severity}` },
            `${name(number)}${note.words}${advice} [${source(note)}]`,
          ),
        };
      }),
  );
  // The assembler's report: its numbers are at the top of the view too.
  const isReport = (note: MarginNote) => note.origin === "ptxas" && note.severity === "note";
  const report = general.filter(({ note }) => isReport(note)).map(({ line }) => line);
  box.append(...general.filter(({ note }) => !isReport(note)).map(({ line }) => line));
  if (report.length > 0)
    box.append(element("details", {}, element("summary", {}, "The assembler's report"), ...report));
  box.hidden = box.childElementCount === 0;
  return box;
}

function linesList(
  lines: readonly NotedLine[],
  name: (side: number) => string,
  go: Go,
): HTMLElement {
  const notes = lines.flatMap(({ side, line, notes: here }) =>
    here.map((note) => ({ side, line, note })),
  );
  const count = notes.length === 1 ? "1 remark or finding" : `${notes.length} remarks and findings`;
  const where = lines.length === 1 ? "on one line" : `on ${lines.length} lines`;
  const entries = notes.map(({ side, line, note }) => {
    const { sign } = markOf([note]);
    const button = element(
      "button",
      { type: "button", class: "kl-note-entry", onclick: () => go(side, line) },
      element("span", { class: `kl-note-${note.severity}`, "aria-label": note.severity }, sign),
      element("span", { class: "kl-note-line" }, `${name(side)}line ${line}`),
      element(
        "span",
        { class: "kl-note-words" },
        `${note.words}${note.advice ? `\nTry: ${note.advice}` : ""}`,
        ...(note.said ? [element("span", { class: "kl-soft" }, `\n${note.said}`)] : []),
      ),
      element("span", { class: "kl-soft" }, note.origin),
    );
    return element("li", {}, button);
  });
  return element(
    "details",
    { class: "kl-note-list" },
    element("summary", {}, `${count} ${where} (m, M)`),
    element("ul", { "aria-label": "Remarks and findings" }, ...entries),
  );
}
