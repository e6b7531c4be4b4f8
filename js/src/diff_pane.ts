// Two texts side by side with what differs: CodeMirror's merge view over our diff by lines.
import { goToNextChunk, goToPreviousChunk, MergeView } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import { EditorView } from "@codemirror/view";
import { type Differences, differences, firstOperation, MOST_CHANGES } from "./differences";
import type { Text } from "./side";
import { Sliced } from "./slices";
import { documentOf, type Margin, textExtensions, tooltipsAround } from "./text_pane";

export interface DiffSide {
  text: Text;
  label: string;
  margin: Margin;
}

export class DiffPane {
  readonly merge: MergeView;

  constructor(
    parent: HTMLElement,
    root: Document | ShadowRoot,
    private readonly left: DiffSide,
    private readonly right: DiffSide,
    private readonly differences: Differences,
    wrap: boolean,
    onLine: (side: 0 | 1, shown: number) => void,
  ) {
    this.merge = new MergeView({
      parent,
      root,
      a: {
        doc: documentOf(left.text),
        extensions: [
          tooltipsAround(parent),
          textExtensions(left.text, left.label, left.margin, wrap, (line) => onLine(0, line)),
        ],
      },
      b: {
        doc: documentOf(right.text),
        extensions: [
          tooltipsAround(parent),
          textExtensions(right.text, right.label, right.margin, wrap, (line) => onLine(1, line)),
        ],
      },
      gutter: true,
      collapseUnchanged: { margin: 3, minSize: 8 },
      diffConfig: { override: () => differences.changes },
    });
  }

  /** The changes in words. */
  get words(): string {
    const count = this.merge.chunks.length;
    if (this.differences.coarse)
      return `more than ${MOST_CHANGES.toLocaleString("en")} changes: those near each other are marked as one`;
    if (count === 0)
      return this.left.text.text === this.right.text.text ? "no change" : "values renumbered only";
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

  /** Bring the first operation that differs into view. */
  showFirst(): void {
    this.merge.b.dispatch({ effects: EditorView.scrollIntoView(this.first, { y: "center" }) });
  }

  /** Bring the change that the reader went to into view again, else the first one. */
  reveal(): void {
    const { b } = this.merge;
    const at = b.state.selection.main.head || this.first;
    b.dispatch({ effects: EditorView.scrollIntoView(at, { y: "center" }) });
  }

  private get first(): number {
    const line = firstOperation(this.differences, this.right.text.lines);
    const { b, chunks } = this.merge;
    return line > 0 ? b.state.doc.line(line).from : (chunks[0]?.fromB ?? 0);
  }

  destroy(): void {
    this.merge.destroy();
  }
}

const known = new WeakMap<Text, WeakMap<Text, Sliced<Differences>>>();

/** The comparison of two texts: one that was finished is there at once, one that was left is taken up again. */
export function compared(left: Text, right: Text): Sliced<Differences> {
  let found = known.get(left);
  if (found === undefined) known.set(left, (found = new WeakMap()));
  let sliced = found.get(right);
  if (sliced === undefined)
    found.set(right, (sliced = new Sliced(differences(left.lines, right.lines))));
  return sliced;
}
