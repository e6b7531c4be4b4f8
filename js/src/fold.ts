// The names of layouts above a module, folded into one line until somebody wants them.
import { type Extension, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, WidgetType } from "@codemirror/view";
import { button, element } from "./dom";
import type { Text } from "./side";

/** So many names are shown. */
const FEW = 2;

const unfold = StateEffect.define<null>();

class Folded extends WidgetType {
  constructor(private readonly count: number) {
    super();
  }
  override eq(other: Folded): boolean {
    return this.count === other.count;
  }
  override toDOM(view: EditorView): HTMLElement {
    const made = button(`⋯ ${this.count} names of layouts`, "Show what they stand for", () =>
      view.dispatch({ effects: unfold.of(null) }),
    );
    made.tabIndex = -1; // keys unfold them by going there
    return element("div", { class: "kl-folded" }, made);
  }
}

/** Fold the names of layouts; the cursor, as of a search or of a definition that is followed, unfolds them. */
export function foldedNames(text: Text): Extension {
  const { lines } = text;
  let end = 0;
  while (end < lines.length && /^#\w+ = /.test(lines[end]!)) end++;
  if (end <= FEW || text.data.language === "python") return [];
  const to = lines.slice(0, end).reduce((sum, line) => sum + line.length + 1, -1);
  const folded = Decoration.set(
    Decoration.replace({ widget: new Folded(end), block: true }).range(0, to),
  );
  return StateField.define<DecorationSet>({
    create: () => folded,
    update(known, transaction) {
      const { selection, effects } = transaction;
      const isWanted =
        effects.some((one) => one.is(unfold)) ||
        (selection !== undefined && selection.main.head > 0 && selection.main.head <= to);
      return isWanted ? Decoration.none : known;
    },
    provide: (field) => EditorView.decorations.from(field),
  });
}
