// The cells around a view, where the front end is JupyterLab or Notebook 7, through their pages: widgets get no other access to them.
import type { Edit } from "./data";

/** CodeMirror's editor of a cell, as far as it is used here. */
interface Editor {
  state: { doc: { toString(): string; length: number } };
  dispatch(change: { changes: { from: number; to: number; insert: string } }): void;
}

/** What CodeMirror keeps at its content's element; the name depends on its version. */
interface Content extends HTMLElement {
  cmView?: { view?: Editor; rootView?: { view?: Editor } };
  cmTile?: { view?: Editor; root?: { view?: Editor } };
}

const contentOf = (cell: Element): Content | null => cell.querySelector<Content>(".cm-content");

function editorOf(cell: Element): Editor | null {
  const content = contentOf(cell);
  const { cmView, cmTile } = content ?? {};
  return cmView?.rootView?.view ?? cmView?.view ?? cmTile?.view ?? cmTile?.root?.view ?? null;
}

/** Whether the cells around an element can be written. */
export function isInNotebook(within: Element): boolean {
  const cell = within.closest(".jp-Notebook .jp-CodeCell");
  return cell !== null && editorOf(cell) !== null;
}

/** A text after edits of its lines; null where a line is not as it was. */
export function edited(text: string, edits: readonly Edit[]): string | null {
  const lines = text.split("\n");
  // From the last to the first: an edit may add lines.
  for (const { line, old, new: come } of [...edits].sort((a, b) => b.line - a.line)) {
    const gone = old === "" ? [] : old.split("\n");
    const place = lines.slice(line - 1, line - 1 + gone.length);
    if (place.length < gone.length || line - 1 > lines.length) return null;
    if (gone.some((was, at) => was.trim() !== place[at]!.trim())) return null;
    const isOne = gone.length === 1 && !come.includes("\n");
    const indentation = isOne ? /^\s*/.exec(place[0]!)![0] : "";
    const written = come === "" ? [] : come.split("\n").map((words) => indentation + words);
    lines.splice(line - 1, gone.length, ...written);
  }
  return lines.join("\n");
}

/** Write edits into the cell that they are of, the nearest one above the element, and run it, then the element's own cell if that is another one. False where no cell has these lines. */
export function applyEdits(within: Element, edits: readonly Edit[], source: string): boolean {
  const own = within.closest(".jp-CodeCell");
  const cells = [...(own?.closest(".jp-Notebook")?.querySelectorAll(".jp-CodeCell") ?? [])];
  const above = cells.slice(0, cells.indexOf(own!) + 1).reverse();
  for (const cell of above) {
    const text = editorOf(cell)?.state.doc.toString() ?? "";
    const after = text.includes(source) ? edited(text, edits) : null;
    if (after === null) continue;
    write(cell, after);
    void run(cell === own ? [cell] : [cell, own!]);
    return true;
  }
  return false;
}

/** Insert a cell with a text below the element's own, and run it. */
export async function insertBelow(within: Element, text: string): Promise<void> {
  const own = within.closest(".jp-CodeCell")!;
  const panel = own.closest(".jp-NotebookPanel")!;
  await enter(own);
  // JupyterLab's buttons act when the mouse goes down.
  panel
    .querySelector('[data-command="notebook:insert-cell-below"]')
    ?.dispatchEvent(new MouseEvent("mousedown", { button: 0, bubbles: true, cancelable: true }));
  await settled(() => own.nextElementSibling?.matches(".jp-mod-active") === true);
  const made = panel.querySelector(".jp-Cell.jp-mod-active");
  if (made === null || made === own) return;
  write(made, text);
  await run([made]);
}

function write(cell: Element, text: string): void {
  const editor = editorOf(cell)!;
  editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
}

/** Run cells by the shortcut of their editors. */
async function run(cells: readonly Element[]): Promise<void> {
  for (const cell of cells) {
    await enter(cell);
    const keys = { key: "Enter", keyCode: 13, ctrlKey: true, bubbles: true, cancelable: true };
    contentOf(cell)!.dispatchEvent(new KeyboardEvent("keydown", keys));
  }
}

/** Give the editor of a cell the focus, which a click elsewhere may still be taking away, until the notebook notices. */
async function enter(cell: Element): Promise<void> {
  const content = contentOf(cell);
  const notebook = cell.closest(".jp-Notebook")!;
  await settled(() => {
    if (document.activeElement !== content) content?.focus();
    else return notebook.matches(".jp-mod-editMode") && cell.matches(".jp-mod-active");
    return false;
  });
}

/** Wait until something holds, for two seconds at most. */
async function settled(holds: () => boolean): Promise<void> {
  for (let turn = 0; turn < 40; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (holds()) return;
  }
}
