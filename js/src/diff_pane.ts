// Two texts side by side with what differs: CodeMirror's merge view over our diff by lines.
import { Change, goToNextChunk, goToPreviousChunk, MergeView, presentableDiff } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import { EditorView } from "@codemirror/view";
import { type Hunk, lineDiff } from "./line_diff";
import { nameless, Renaming } from "./renaming";
import type { Text } from "./side";
import { type Margin, textExtensions } from "./text_pane";

export interface DiffSide {
  text: Text;
  label: string;
  margin: Margin;
}

/** Two lines longer than this together, in characters, are marked as a whole. */
const MOST_REFINED = 2000;

/** After this many changes lines are marked as a whole, and changes with few lines between them are one: drawing more takes seconds. */
const MOST_CHANGES = 4000;
const FEW_LINES = 12;

/** Lines of two texts together that are compared after the frame that was asked for, so that it does not wait. */
const MOST_AT_ONCE = 30_000;

export class DiffPane {
  readonly merge: MergeView;

  constructor(
    parent: HTMLElement, root: Document | ShadowRoot, private readonly left: DiffSide, private readonly right: DiffSide, wrap: boolean,
    onLine: (side: 0 | 1, shown: number) => void,
  ) {
    this.merge = new MergeView({
      parent,
      root,
      a: { doc: left.text.text, extensions: textExtensions(left.text, left.label, left.margin, wrap, (line) => onLine(0, line)) },
      b: { doc: right.text.text, extensions: textExtensions(right.text, right.label, right.margin, wrap, (line) => onLine(1, line)) },
      gutter: true,
      collapseUnchanged: { margin: 3, minSize: 8 },
      diffConfig: { override: () => differences(left.text, right.text) },
    });
  }

  /** The changes in words. */
  get words(): string {
    const count = this.merge.chunks.length;
    if (coarse.has(differences(this.left.text, this.right.text))) return `more than ${MOST_CHANGES.toLocaleString("en")} changes: those near each other are marked as one`;
    if (count === 0) return this.left.text.text === this.right.text.text ? "no change" : "values renumbered only";
    return count === 1 ? "1 change" : `${count.toLocaleString("en")} changes`;
  }

  view(side: 0 | 1): EditorView {
    return side === 0 ? this.merge.a : this.merge.b;
  }

  find(side: 0 | 1): void {
    openSearchPanel(this.view(side));
  }

  /** Put the cursor on the next or the previous change; whether there is one. */
  go(forward: boolean): boolean {
    return (forward ? goToNextChunk : goToPreviousChunk)(this.merge.b);
  }

  /** Bring the first change into view. */
  showFirst(): void {
    const [first] = this.merge.chunks;
    if (first !== undefined) this.merge.b.dispatch({ effects: EditorView.scrollIntoView(first.fromB, { y: "nearest", yMargin: 60 }) });
  }

  destroy(): void {
    this.merge.destroy();
  }
}

const coarse = new WeakSet<readonly Change[]>();
const known = new WeakMap<Text, WeakMap<Text, readonly Change[]>>();

/** Whether two texts are compared within a frame: they are not too long, or were compared before. */
export function isQuick(left: Text, right: Text): boolean {
  return left.lines.length + right.lines.length <= MOST_AT_ONCE || known.get(left)?.has(right) === true;
}

/** What differs between two texts, found out once. */
function differences(left: Text, right: Text): readonly Change[] {
  let found = known.get(left);
  if (found === undefined) known.set(left, (found = new WeakMap()));
  let these = found.get(right);
  if (these === undefined) found.set(right, (these = changes(left.text, right.text)));
  return these;
}

/** The differences as CodeMirror wants them: by characters. Values that were only given other names are none. */
export function changes(a: string, b: string): readonly Change[] {
  const left = a.split("\n");
  const right = b.split("\n");
  const startsA = starts(left);
  const startsB = starts(right);
  const found: Change[] = [];
  /** Whole lines. The last line ends without a line break: what changes there takes the break before it. */
  const whole = ({ fromA, toA, fromB, toB }: Hunk): void => {
    const atEnd = toA === left.length || toB === right.length;
    const back = atEnd && fromA > 0 && fromB > 0 ? 1 : 0;
    const ends = [Math.min(startsA[toA]! - back, a.length), Math.min(startsB[toB]! - back, b.length)] as const;
    found.push(new Change(startsA[fromA]! - back, ends[0], startsB[fromB]! - back, ends[1]));
  };
  const renaming = new Renaming();
  /** Words of two lines that stand for each other. */
  const words = (lineA: number, lineB: number): void => {
    const [one, other] = [left[lineA]!, right[lineB]!];
    if (one.trim() === other.trim() || renaming.explains(one, other)) return;
    if (one.length + other.length > MOST_REFINED || found.length > MOST_CHANGES) return whole({ fromA: lineA, toA: lineA + 1, fromB: lineB, toB: lineB + 1 });
    for (const part of presentableDiff(one, other, { scanLimit: 200 })) {
      found.push(new Change(startsA[lineA]! + part.fromA, startsA[lineA]! + part.toA, startsB[lineB]! + part.fromB, startsB[lineB]! + part.toB));
    }
  };
  const hunks = lineDiff(left, right).flatMap((hunk) => refined(left, right, hunk));
  const eachPair = (read: (lineA: number, lineB: number) => void, { from }: Refined): void => {
    for (let at = 0; at < from.toA - from.fromA; at++) read(from.fromA + at, from.fromB + at);
  };
  for (const hunk of hunks) if (hunk.paired) eachPair((lineA, lineB) => renaming.define(left[lineA]!, right[lineB]!), hunk);
  renaming.restart();
  for (const hunk of hunks) {
    if (hunk.paired) eachPair(words, hunk);
    else whole(hunk.from);
  }
  if (found.length <= MOST_CHANGES) return found;
  const few = joined(found, startsA);
  coarse.add(few);
  return few;
}

/** Changes with few lines between them as one. */
function joined(changes: readonly Change[], starts: Int32Array): readonly Change[] {
  const lineOf = (position: number): number => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const out: Change[] = [];
  for (const change of changes) {
    const last = out[out.length - 1];
    if (last !== undefined && lineOf(change.fromA) - lineOf(last.toA) <= FEW_LINES) out[out.length - 1] = new Change(last.fromA, change.toA, last.fromB, change.toB);
    else out.push(change);
  }
  return out;
}

/** A part of a hunk: lines that stand for each other one by one, or lines that came, went, or took others' place. */
interface Refined {
  from: Hunk;
  paired: boolean;
}

/** Inside a hunk, pair lines that differ in the names of values alone: a value that is new renames all after it. */
function refined(left: readonly string[], right: readonly string[], hunk: Hunk): Refined[] {
  const inner = lineDiff(left.slice(hunk.fromA, hunk.toA).map(nameless), right.slice(hunk.fromB, hunk.toB).map(nameless));
  const found: Refined[] = [];
  let [atA, atB] = [hunk.fromA, hunk.fromB];
  const add = (toA: number, toB: number, paired: boolean): void => {
    if (toA > atA || toB > atB) found.push({ from: { fromA: atA, toA, fromB: atB, toB }, paired });
    [atA, atB] = [toA, toB];
  };
  for (const { fromA, toA, fromB, toB } of inner) {
    add(hunk.fromA + fromA, hunk.fromB + fromB, true);
    add(hunk.fromA + toA, hunk.fromB + toB, toA - fromA === toB - fromB);
  }
  add(hunk.toA, hunk.toB, true);
  return found;
}

/** Where each line starts, and the end. */
function starts(lines: readonly string[]): Int32Array {
  const found = new Int32Array(lines.length + 1);
  lines.forEach((line, index) => (found[index + 1] = found[index]! + line.length + 1));
  return found;
}
