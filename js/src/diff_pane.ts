// Two texts side by side with what differs: CodeMirror's merge view over our diff by lines.
import { Change, goToNextChunk, goToPreviousChunk, MergeView, presentableDiff } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import type { EditorView } from "@codemirror/view";
import { type Hunk, lineDiff } from "./line_diff";
import type { Text } from "./side";
import { type Margin, textExtensions } from "./text_pane";

export interface DiffSide {
  text: Text;
  label: string;
  margin: Margin;
}

/** Two lines longer than this together, in characters, are marked as a whole. */
const MOST_REFINED = 2000;

export class DiffPane {
  readonly merge: MergeView;

  constructor(
    parent: HTMLElement, root: Document | ShadowRoot, left: DiffSide, right: DiffSide,
    onLine: (side: 0 | 1, shown: number) => void,
  ) {
    this.merge = new MergeView({
      parent,
      root,
      a: { doc: left.text.text, extensions: textExtensions(left.text, left.label, left.margin, (line) => onLine(0, line)) },
      b: { doc: right.text.text, extensions: textExtensions(right.text, right.label, right.margin, (line) => onLine(1, line)) },
      gutter: true,
      collapseUnchanged: { margin: 3, minSize: 8 },
      diffConfig: { override: (a, b) => changes(a, b) },
    });
  }

  /** The changes, as many as there are. */
  get count(): number {
    return this.merge.chunks.length;
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

  destroy(): void {
    this.merge.destroy();
  }
}

/** The differences as CodeMirror wants them: by characters. */
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
  /** Words of two lines that stand for each other. */
  const words = (lineA: number, lineB: number): void => {
    const [one, other] = [left[lineA]!, right[lineB]!];
    if (one.trim() === other.trim()) return;
    if (one.length + other.length > MOST_REFINED) return whole({ fromA: lineA, toA: lineA + 1, fromB: lineB, toB: lineB + 1 });
    for (const part of presentableDiff(one, other, { scanLimit: 200 })) {
      found.push(new Change(startsA[lineA]! + part.fromA, startsA[lineA]! + part.toA, startsB[lineB]! + part.fromB, startsB[lineB]! + part.toB));
    }
  };
  for (const hunk of lineDiff(left, right)) refine(left, right, hunk, whole, words);
  return found;
}

/** Inside a hunk, pair lines that differ in the names of values alone: a value that is new renames all after it. */
function refine(
  left: readonly string[], right: readonly string[], hunk: Hunk, whole: (hunk: Hunk) => void, words: (lineA: number, lineB: number) => void,
): void {
  const nameless = (lines: readonly string[]): string[] => lines.map((line) => line.replace(/%[\w$.-]+/g, "%"));
  const inner = lineDiff(nameless(left.slice(hunk.fromA, hunk.toA)), nameless(right.slice(hunk.fromB, hunk.toB)));
  let [atA, atB] = [hunk.fromA, hunk.fromB];
  const pairs = (untilA: number): void => {
    while (atA < untilA) words(atA++, atB++);
  };
  for (const { fromA, toA, fromB, toB } of inner) {
    pairs(hunk.fromA + fromA);
    if (toA - fromA === toB - fromB) {
      for (let line = fromA; line < toA; line++) words(atA++, atB++);
    } else {
      whole({ fromA: hunk.fromA + fromA, toA: hunk.fromA + toA, fromB: hunk.fromB + fromB, toB: hunk.fromB + toB });
      [atA, atB] = [hunk.fromA + toA, hunk.fromB + toB];
    }
  }
  pairs(hunk.toA);
}

/** Where each line starts, and the end. */
function starts(lines: readonly string[]): Int32Array {
  const found = new Int32Array(lines.length + 1);
  lines.forEach((line, index) => (found[index + 1] = found[index]! + line.length + 1));
  return found;
}
