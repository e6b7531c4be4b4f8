// What each pane of the explorer shows: a stage, or the text before or after the selected pass.
import { difference, type Row } from "./pass_list";
import { own } from "./records";
import type { Side, Text } from "./side";

export type Mode = "pass" | "diff" | "stages";

/** What a pane shows: a stage of a side, or the text before or after the selected pass. */
export interface Column {
  side: number;
  what: string;
}

/** The text that a pane shows. */
export interface Shown {
  side: Side;
  text: Text;
  place: string;
  label: string;
}

const STAGE_WORDS: Record<string, string> = {
  source: "source",
  ttir: "TTIR",
  ttgir: "TTGIR",
  llir: "LLVM IR",
  ptx: "PTX",
  sass: "SASS",
  amdgcn: "AMDGCN",
};

/** A stage, or the place of another text, in words. */
export function stageWords(place: string): string {
  return own(STAGE_WORDS, place) ?? place;
}

export function columnWords(what: string): string {
  if (what === "after") return "after the pass";
  if (what === "before") return "before the pass";
  return stageWords(what.slice("stage:".length));
}

/** "TTGIR", or "the module after ttgir.pipeline". */
export function shownWords(shown: Shown): string {
  return isOfPass(shown) ? `the module ${shown.label}` : shown.label;
}

/** Whether a text is that before or after a pass. */
export function isOfPass({ label }: Shown): boolean {
  return /^(?:after|before) /.test(label);
}

// What there is to see at first

/** The passes that make a kernel what it is on a GPU, the most informative first: those of Triton for NVIDIA's and for AMD's. */
const MADE_BY = ["accelerate_matmul", "pipeline", "coalesce"];

/** The row of the list of passes that is selected at first. */
export function firstRow(sides: readonly Side[], rows: readonly Row[]): number {
  if (sides[0]?.data.failure) return rows.length - 1;
  const changed = rows.findIndex((row) => row.mark === "changed");
  if (sides.length === 2) {
    const largest = largestDifference(sides, rows);
    return largest >= 0 ? largest : Math.max(0, changed);
  }
  for (const name of MADE_BY) {
    const made = rows.findIndex((row) => row.name === name && row.mark === "changed");
    if (made >= 0) return made;
  }
  // The first pass over layouts that adds or removes operations: there is something to see.
  const informative = rows.findIndex(
    ({ stage, mark, pass }) =>
      stage === "ttgir" && mark === "changed" && Object.keys(pass.op_changes).length > 0,
  );
  return Math.max(0, informative >= 0 ? informative : changed);
}

/** The pass that does most of what is different, before code is lowered to LLVM's; -1 where the operations are the same. */
function largestDifference(sides: readonly Side[], rows: readonly Row[]): number {
  const sizes = rows.map((row) =>
    row.mark === "changed" && row.stage !== "llir" ? difference(row, sides) : 0,
  );
  const most = sizes.reduce((most, size) => Math.max(most, size), 0);
  return most > 0 ? sizes.indexOf(most) : -1;
}

/** The columns of each mode at first. */
export function firstColumns(sides: readonly Side[]): Record<Mode, Column[]> {
  const stage = (side: number, name: string): Column => ({ side, what: `stage:${name}` });
  const stages = (sides[0]?.data.stages ?? []).map((one) => one.name);
  if (sides.length === 2) {
    const both = (what: string): Column[] => [
      { side: 0, what },
      { side: 1, what },
    ];
    const shared =
      ["ttgir", "ttir", "source"].find((name) => sides.every((side) => side.stage(name))) ??
      "source";
    return { pass: both("after"), diff: both("after"), stages: both(`stage:${shared}`) };
  }
  const last = stages.includes("sass") ? "sass" : stages[stages.length - 1];
  const chosen = ["source", "ttgir", last].filter(
    (name, at, all) => name !== undefined && stages.includes(name) && all.indexOf(name) === at,
  );
  if (chosen.length < 2 && stages.length > 1) chosen.push(stages[1]);
  return {
    pass: [stage(0, "source"), { side: 0, what: "after" }],
    diff: [
      { side: 0, what: "before" },
      { side: 0, what: "after" },
    ],
    stages: chosen.map((name) => stage(0, name!)),
  };
}

/** The first stage that no pane shows. */
export function nextColumn(sides: readonly Side[], columns: readonly Column[]): Column {
  for (const [side, one] of sides.entries()) {
    for (const stage of one.data.stages) {
      const what = `stage:${stage.name}`;
      if (!columns.some((column) => column.side === side && column.what === what))
        return { side, what };
    }
  }
  return { side: 0, what: "stage:source" };
}

// Texts

/** The pass of a side that a row of the list represents; where it did not run there, the one before; -1 for none. */
export function passNumber(rows: readonly Row[], selected: number, side: number): number {
  for (let row = selected; row >= 0; row--) {
    const number = side === 0 ? rows[row]!.left : rows[row]!.right;
    if (number !== null) return number;
  }
  return -1;
}

/** The text of a column; `after` is the number of the selected pass on its side. Null where the side has no such text. */
export function shownIn(sides: readonly Side[], column: Column, after: number): Shown | null {
  const side = sides[column.side];
  if (side === undefined) return null;
  const name = sides.length === 2 ? ` (${side.data.name})` : "";
  if (column.what.startsWith("stage:")) {
    const stage = column.what.slice("stage:".length);
    const text = side.stage(stage);
    return text && { side, text, place: stage, label: `${stageWords(stage)}${name}` };
  }
  // Between stages values may be printed under other names: before a pass that changed nothing is what is after it.
  const still = side.pass(after)?.effect === "unchanged";
  const number = column.what === "before" && !still ? after - 1 : after;
  if (number < 0) {
    const source = side.stage("source");
    return source && { side, text: source, place: "source", label: `source${name}` };
  }
  const pass = side.pass(number);
  if (pass === null) return null;
  const when = pass.effect === "failed" ? "before" : "after";
  return {
    side,
    text: side.texts[pass.text]!,
    place: pass.place,
    label: `${when} ${pass.label}${name}`,
  };
}
