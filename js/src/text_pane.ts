// A pane that shows one text: numbers, colors, lit lines, bars, notes in the margin, and what a name is when it is hovered.
import {
  highlightSelectionMatches,
  openSearchPanel,
  search,
  searchKeymap,
} from "@codemirror/search";
import {
  EditorState,
  type Extension,
  RangeSet,
  StateEffect,
  StateField,
  Text as Doc,
} from "@codemirror/state";
import {
  type BlockInfo,
  closeHoverTooltips,
  Decoration,
  type DecorationSet,
  EditorView,
  gutter,
  GutterMarker,
  hoverTooltip,
  keymap,
  lineNumbers,
  showTooltip,
  type Tooltip,
  tooltips,
} from "@codemirror/view";
import type { MarginNote } from "./data";
import { element } from "./dom";
import { foldedNames } from "./fold";
import { foundWords } from "./found_words";
import { colors } from "./highlight";
import { type Bars, shortNumber } from "./metrics";
import { allWords, markOf } from "./notes";
import { factsOf, firstName, layoutOf, nameAt } from "./names";
import { Ruler } from "./ruler";
import type { Text } from "./side";

/** What a pane shows beside the text; lines are those of the full text. */
export interface Margin {
  notes: readonly MarginNote[];
  bars: Bars;
  controls: ReadonlyMap<number, string>;
  layoutWords: (shape: string, encoding: string) => string;
}

const light = StateEffect.define<{ lit: readonly number[]; chosen: number }>();
const LIT = Decoration.line({ class: "kl-lit" });
const CHOSEN = Decoration.line({ class: "kl-lit kl-chosen" });

const lights = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(light)) continue;
      const { lit, chosen } = effect.value;
      const document = transaction.state.doc;
      const ranges = lit
        .filter((line) => line > 0 && line <= document.lines)
        .map((line) => (line === chosen ? CHOSEN : LIT).range(document.line(line).from));
      return RangeSet.of(ranges, true);
    }
    return decorations;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const THEME = EditorView.theme({
  "&": {
    height: "100%",
    fontSize: "12px",
    backgroundColor: "var(--kl-paper)",
    color: "var(--kl-ink)",
  },
  "&.cm-focused": { outline: "2px solid var(--kl-focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--kl-mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-gutters": {
    backgroundColor: "var(--kl-shade)",
    color: "var(--kl-soft)",
    borderRight: "1px solid var(--kl-line)",
  },
  ".cm-content": { caretColor: "var(--kl-ink)" },
  ".cm-cursor": { borderLeftColor: "var(--kl-ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection":
    {
      backgroundColor: "var(--kl-selection) !important",
    },
  ".cm-panels": {
    backgroundColor: "var(--kl-shade)",
    color: "var(--kl-ink)",
    borderColor: "var(--kl-line)",
  },
  ".cm-textfield": {
    backgroundColor: "var(--kl-paper)",
    color: "var(--kl-ink)",
    border: "1px solid var(--kl-line)",
  },
  ".cm-button": {
    backgroundImage: "none",
    backgroundColor: "var(--kl-paper)",
    color: "var(--kl-ink)",
    border: "1px solid var(--kl-line)",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--kl-paper)",
    color: "var(--kl-ink)",
    border: "1px solid var(--kl-line)",
  },
  ".cm-searchMatch": { backgroundColor: "var(--kl-match)" },
  ".cm-selectionMatch": { backgroundColor: "transparent" },
  "&.cm-focused .cm-selectionMatch": { backgroundColor: "var(--kl-match)" },
});

const documents = new WeakMap<Text, Doc>();

/** A text as CodeMirror wants it, made once. */
export function documentOf(text: Text): Doc {
  let found = documents.get(text);
  if (found === undefined) documents.set(text, (found = Doc.of(text.lines)));
  return found;
}

/** What every text of the explorer has, in a pane or on a side of a diff. */
export function textExtensions(
  text: Text,
  label: string,
  margin: Margin,
  wrap: boolean,
  onLine: (shown: number) => void,
): Extension[] {
  return [
    ...(wrap ? [EditorView.lineWrapping] : []),
    centered,
    gaps(text),
    nameAtCursor,
    keymap.of([
      { key: "i", run: (view) => showName(view, text, margin) },
      { key: "d", run: (view) => goToDefinition(view, text) },
    ]),
    EditorState.readOnly.of(true),
    EditorView.contentAttributes.of({
      "aria-label": label,
      "aria-readonly": "true",
      spellcheck: "false",
      tabindex: "0",
    }),
    notesGutter(text, margin, onLine),
    lineNumbers({ formatNumber: (line) => String(text.number(line)) }),
    barGutter(text, margin),
    controlGutter(text, margin),
    highlightSelectionMatches({ minSelectionLength: 2, highlightWordAroundCursor: true }),
    search({ top: true }),
    foundWords,
    keymap.of(searchKeymap),
    colors(text.data.language),
    lights,
    THEME,
    // What a key opened stays alone.
    hoverTooltip(
      (view, position) =>
        view.state.field(nameAtCursor) === null ? nameTooltip(view, position, text, margin) : null,
      { hoverTime: 200 },
    ),
    EditorView.updateListener.of((update) => {
      if (update.selectionSet && update.transactions.some((one) => one.isUserEvent("select"))) {
        onLine(update.state.doc.lineAt(update.state.selection.main.head).number);
      }
    }),
  ];
}

/** Light lines (as shown, from 1); `scroll` brings the first of them into view. */
export function lightLines(
  view: EditorView,
  lines: readonly number[],
  chosen: number,
  scroll: boolean,
): void {
  const effects: StateEffect<unknown>[] = [light.of({ lit: lines, chosen })];
  const first = lines[0];
  if (scroll && first !== undefined && first <= view.state.doc.lines) {
    effects.push(EditorView.scrollIntoView(view.state.doc.line(first).from, { y: "center" }));
  }
  view.dispatch({ effects });
}

/** Whether one of these lines is on the screen. */
export function anyVisible(view: EditorView, lines: readonly number[]): boolean {
  if (lines.length === 0) return true;
  const box = view.scrollDOM;
  const top = view.lineBlockAtHeight(box.scrollTop).from;
  const bottom = view.lineBlockAtHeight(box.scrollTop + box.clientHeight - 20).to;
  const first = view.state.doc.lineAt(top).number;
  const last = view.state.doc.lineAt(bottom).number;
  return lines.some((line) => line > first && line < last);
}

/** Bring a line (as shown, from 1) to the middle of its pane. */
export function scrollTo(view: EditorView, line: number): void {
  const at = view.state.doc.line(Math.max(1, Math.min(view.state.doc.lines, line))).from;
  view.dispatch({ effects: EditorView.scrollIntoView(at, { y: "center" }) });
}

/** What is to be centered is, in what scrolls it alone: CodeMirror would scroll the page or the notebook as well. */
const centered = EditorView.scrollHandler.of((view, { head }, { y }) => {
  if (y !== "center") return false;
  const scroller = view.dom.closest(".cm-mergeView") ?? view.scrollDOM;
  const { top } = scroller.getBoundingClientRect();
  scroller.scrollTop +=
    view.documentTop + view.lineBlockAt(head).top - top - scroller.clientHeight / 2;
  return true;
});

export class TextPane {
  readonly view: EditorView;
  private text: Text | null = null;
  private readonly ruler = new Ruler((line) => scrollTo(this.view, line));
  /** The first line of each run of lit lines, and at which of them the pane is. */
  private runs: readonly number[] = [];
  private run = 0;

  constructor(
    private readonly parent: HTMLElement,
    root: Document | ShadowRoot,
    private readonly onLine: (shown: number) => void,
  ) {
    this.view = new EditorView({ parent, root });
    parent.append(this.ruler.dom);
  }

  /** Show where the lit lines are; `overflows` says whether there is more of the text than its pane shows. */
  mark(lit: readonly number[], overflows: boolean): void {
    this.runs = lit.filter((line, at) => at === 0 || lit[at - 1] !== line - 1);
    this.run = 0;
    this.ruler.show(lit, this.view.state.doc.lines, overflows);
  }

  /** Scroll to a lit line where none is in sight. */
  revealLit(): void {
    const { view, runs } = this;
    if (!anyVisible(view, runs)) scrollTo(view, runs[this.run]!);
  }

  /** Scroll to the next run of lit lines, or the one before; after the last comes the first. */
  goToLit(forward: boolean): void {
    if (this.runs.length === 0) return;
    this.run = (this.run + (forward ? 1 : -1) + this.runs.length) % this.runs.length;
    scrollTo(this.view, this.runs[this.run]!);
  }

  /** Show a text; the same text stays where it is scrolled to. */
  show(text: Text, label: string, margin: Margin, wrap: boolean): void {
    // Before the text changes, since scrolling a changed one would force a layout.
    if (this.text !== null && this.text !== text) this.view.scrollDOM.scrollTop = 0;
    this.text = text;
    this.view.setState(
      EditorState.create({
        doc: documentOf(text),
        extensions: [
          foldedNames(text),
          tooltipsAround(this.parent),
          textExtensions(text, label, margin, wrap, this.onLine),
        ],
      }),
    );
  }

  find(): void {
    openSearchPanel(this.view);
  }

  destroy(): void {
    this.view.destroy();
  }
}

// Margins

class BarMarker extends GutterMarker {
  constructor(
    readonly value: number,
    readonly share: number,
    readonly unit: string,
  ) {
    super();
  }
  override eq(other: BarMarker): boolean {
    return this.value === other.value && this.share === other.share && this.unit === other.unit;
  }
  override toDOM(): HTMLElement {
    const width = Math.max(4, Math.round(100 * this.share));
    const title = `${shortNumber(this.value)} ${this.unit}`;
    return element(
      "span",
      { class: "kl-bar", title, style: `--kl-width: ${width}%` },
      element("span", { class: "kl-bar-number" }, shortNumber(this.value)),
    );
  }
}

function barGutter(text: Text, margin: Margin): Extension {
  const { values, unit } = margin.bars;
  if (values.size === 0) return [];
  const most = Math.max(...values.values());
  return gutter({
    class: "kl-bars",
    lineMarker(view, block) {
      const value = values.get(text.number(view.state.doc.lineAt(block.from).number));
      return value === undefined ? null : new BarMarker(value, value / most, unit);
    },
  });
}

class WordMarker extends GutterMarker {
  constructor(
    readonly word: string,
    readonly title: string,
    readonly kind: string,
  ) {
    super();
  }
  override eq(other: WordMarker): boolean {
    return this.word === other.word && this.title === other.title;
  }
  override toDOM(): HTMLElement {
    return element(
      "span",
      { class: this.kind, title: this.title, "aria-label": this.title },
      this.word,
    );
  }
}

function controlGutter(text: Text, margin: Margin): Extension {
  if (margin.controls.size === 0 || !["sass"].includes(text.data.language)) return [];
  return gutter({
    class: "kl-controls",
    lineMarker(view, block) {
      const codes = margin.controls.get(text.number(view.state.doc.lineAt(block.from).number));
      return codes === undefined ? null : new WordMarker(codes, controlWords(codes), "kl-control");
    },
  });
}

function notesGutter(text: Text, margin: Margin, onLine: (shown: number) => void): Extension {
  const notes = text.data.language === "python" ? margin.notes.filter((note) => note.line > 0) : [];
  if (notes.length === 0) return [];
  const at = (view: EditorView, block: BlockInfo) => {
    const shown = view.state.doc.lineAt(block.from).number;
    return { shown, here: notes.filter((note) => note.line === text.number(shown)) };
  };
  return gutter({
    class: "kl-notes",
    lineMarker(view, block) {
      const { here } = at(view, block);
      if (here.length === 0) return null;
      const { sign, severity } = markOf(here);
      return new WordMarker(sign, allWords(here), `kl-note kl-note-${severity}`);
    },
    domEventHandlers: {
      mousedown(view, block) {
        const { shown, here } = at(view, block);
        if (here.length > 0) onLine(shown);
        return here.length > 0;
      },
    },
  });
}

/** "B0-----:R-:W1:Y:S04" in words. */
export function controlWords(codes: string): string {
  const [waits, read, write, yields, stall] = codes.split(":") as [
    string,
    string,
    string,
    string,
    string,
  ];
  const boards = [...waits.slice(1)].filter((one) => one !== "-");
  const cycles = Number(stall.slice(1));
  const words = [];
  if (boards.length > 0) words.push(`waits until scoreboard ${boards.join(" and ")} is clear`);
  if (read !== "R-") words.push(`sets scoreboard ${read.slice(1)} until its operands are read`);
  if (write !== "W-") words.push(`sets scoreboard ${write.slice(1)} until its result is there`);
  if (yields === "Y") words.push("lets another warp go first");
  words.push(
    `the warp's next instruction follows after ${cycles} ${cycles === 1 ? "cycle" : "cycles"}`,
  );
  return words.join("; ");
}

// Gaps

const GAP = Decoration.line({ class: "kl-gap" });

/** A rule between functions of the source that do not follow each other in its file. */
function gaps(text: Text): Extension {
  if (text.data.language !== "python") return [];
  const ranges = [];
  for (
    let line = 1, from = 0;
    line <= text.lines.length;
    from += text.lines[line - 1]!.length + 1, line++
  ) {
    if (line > 1 && text.number(line) !== text.number(line - 1) + 1) ranges.push(GAP.range(from));
  }
  return EditorView.decorations.of(RangeSet.of(ranges));
}

// Names

const showsName = StateEffect.define<Tooltip | null>();

/** What the reader opened by a key about the name at the cursor; it goes when the cursor does. */
const nameAtCursor = StateField.define<Tooltip | null>({
  create: () => null,
  update(shown, transaction) {
    for (const effect of transaction.effects) if (effect.is(showsName)) return effect.value;
    return transaction.selection ? null : shown;
  },
  provide: (field) => [
    showTooltip.from(field),
    keymap.of([
      {
        key: "Escape",
        run: (view) =>
          view.state.field(field) !== null &&
          (view.dispatch({ effects: showsName.of(null) }), true),
      },
    ]),
  ],
});

function showName(view: EditorView, text: Text, margin: Margin): boolean {
  const tooltip = nameTooltip(view, view.state.selection.main.head, text, margin, true);
  view.dispatch({ effects: [showsName.of(tooltip), closeHoverTooltips] });
  return true;
}

/** Put the cursor where the name under it is defined. */
function goToDefinition(view: EditorView, text: Text): boolean {
  const { head } = view.state.selection.main;
  const line = view.state.doc.lineAt(head);
  const found =
    nameAt(text.data.language, line.text, head - line.from) ??
    firstName(text.data.language, line.text);
  if (found === null) return true;
  const { definition } = factsOf(text.data.language, text.lines, found.name, line.number);
  if (definition === 0) return true;
  const there = view.state.doc.line(definition);
  view.dispatch({
    selection: { anchor: there.from + Math.max(0, there.text.indexOf(found.name)) },
    userEvent: "select",
    effects: EditorView.scrollIntoView(there.from, { y: "center" }),
  });
  return true;
}

/** Tooltips have the whole view around a place, and not only the pane that their name is in. */
export function tooltipsAround(place: HTMLElement): Extension {
  const view = place.closest<HTMLElement>(".kl-root") ?? place;
  let parent = view.querySelector<HTMLElement>(":scope > .kl-tooltips");
  if (parent === null) view.append((parent = element("div", { class: "kl-tooltips" })));
  return tooltips({
    parent,
    position: "absolute",
    tooltipSpace: () => {
      const { left, right, top, bottom } = view.getBoundingClientRect();
      return {
        left: Math.max(left, 0) + EDGE,
        right: Math.min(right, innerWidth) - EDGE,
        top: Math.max(top, 0) + EDGE,
        bottom: Math.min(bottom, innerHeight) - EDGE,
      };
    },
  });
}

/** Pixels between a tooltip and the edge of its view. */
const EDGE = 4;

/** The most lines of uses that a tooltip lists. */
const MOST_USES = 12;

/** The layouts of some types, each once. */
function layoutsOf(
  types: readonly string[],
  lines: readonly string[],
): { shape: string; encoding: string }[] {
  const found = types.map((type) => layoutOf(type, lines)).filter((one) => one !== null);
  return found.filter(
    (one, at) =>
      found.findIndex(({ shape, encoding }) => shape === one.shape && encoding === one.encoding) ===
      at,
  );
}

/** What is known of the name at a position; `anywhere` takes the first of its line where none is there. */
function nameTooltip(
  view: EditorView,
  position: number,
  text: Text,
  margin: Margin,
  anywhere = false,
): Tooltip | null {
  const line = view.state.doc.lineAt(position);
  const { language } = text.data;
  const found =
    nameAt(language, line.text, position - line.from) ??
    (anywhere ? firstName(language, line.text) : null);
  if (found === null) return null;
  const facts = factsOf(text.data.language, text.lines, found.name, line.number);
  return {
    pos: line.from + found.from,
    above: true,
    create: () => {
      const box = element(
        "div",
        { class: "kl-name", role: anywhere ? "status" : "tooltip" },
        element("b", {}, facts.name),
      );
      const several = facts.types.length > 1;
      box.append(
        ...facts.types.map((type, at) =>
          element("code", { class: "kl-name-type" }, several ? `#${at}: ${type}` : type),
        ),
      );
      const layouts = layoutsOf(facts.types, text.lines);
      for (const { shape, encoding } of layouts) {
        const words = margin.layoutWords(shape, encoding);
        if (words) box.append(element("span", { class: "kl-name-words" }, words));
      }
      const defined = facts.definition;
      if (defined > 0 && defined !== line.number) {
        box.append(
          element(
            "code",
            { class: "kl-name-line" },
            `${text.number(defined)}: ${text.lines[defined - 1]!.trim()}`,
          ),
        );
      } else if (defined === 0) box.append(element("span", {}, "not defined in this text"));
      box.append(element("span", {}, usesInWords(facts.uses.map((use) => text.number(use)))));
      for (const { encoding } of layouts)
        box.append(element("code", { class: "kl-name-line" }, encoding));
      return { dom: box };
    },
  };
}

function usesInWords(lines: readonly number[]): string {
  if (lines.length === 0) return "no other line has it";
  const shown = lines.slice(0, MOST_USES).join(", ");
  const more = lines.length > MOST_USES ? ` and ${lines.length - MOST_USES} more` : "";
  return `used on ${lines.length === 1 ? "line" : "lines"} ${shown}${more}`;
}
