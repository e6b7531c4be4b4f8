// Two texts side by side with what differs: CodeMirror's merge view over our diff by lines.
import { Change, goToNextChunk, goToPreviousChunk, MergeView, presentableDiff } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import type { EditorView } from "@codemirror/view";
import { lineDiff } from "./line_diff";
import type { Text } from "./side";
import { type Margin, textExtensions } from "./text_pane";

export interface DiffSide {
  text: Text;
  label: string;
  margin: Margin;
}

/** Changed blocks larger than this, in characters, are marked by whole lines. */
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
  for (const hunk of lineDiff(left, right)) {
    // The last line ends without a line break: what changes there takes the break before it.
    const atEnd = hunk.toA === left.length || hunk.toB === right.length;
    const back = atEnd && hunk.fromA > 0 && hunk.fromB > 0 ? 1 : 0;
    const fromA = startsA[hunk.fromA]! - back;
    const fromB = startsB[hunk.fromB]! - back;
    const toA = Math.min(startsA[hunk.toA]! - back, a.length);
    const toB = Math.min(startsB[hunk.toB]! - back, b.length);
    const small = toA - fromA < MOST_REFINED && toB - fromB < MOST_REFINED;
    if (small && fromA < toA && fromB < toB) {
      for (const part of presentableDiff(a.slice(fromA, toA), b.slice(fromB, toB), { scanLimit: 200 })) {
        found.push(new Change(fromA + part.fromA, fromA + part.toA, fromB + part.fromB, fromB + part.toB));
      }
    } else found.push(new Change(fromA, toA, fromB, toB));
  }
  return found;
}

/** Where each line starts, and the end. */
function starts(lines: readonly string[]): Int32Array {
  const found = new Int32Array(lines.length + 1);
  lines.forEach((line, index) => (found[index + 1] = found[index]! + line.length + 1));
  return found;
}
