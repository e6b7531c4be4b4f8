// The panes of the explorer: texts side by side, or what differs between two.
import { compared, DiffPane } from "./diff_pane";
import type { Differences } from "./differences";
import { button, choice, element } from "./dom";
import { type Column, columnWords, isOfPass, type Mode, type Shown } from "./explorer_columns";
import { type Chosen, litWords, relatedLines } from "./linked_lines";
import { NO_BARS } from "./metrics";
import type { Side, Text } from "./side";
import { splitter } from "./splitter";
import { anyVisible, lightLines, type Margin, TextPane } from "./text_pane";

/** How many panes there are, what each shows, and how. */
export interface Layout {
  mode: Mode;
  wrap: boolean;
  columns: readonly Column[];
}

export interface PanesListener {
  /** A line was chosen, by its number as shown. */
  chooseLine(pane: number, shown: number): void;
  /** A pane is to show something else. */
  chooseColumn(pane: number, column: Column): void;
  /** A text came that was waited for. */
  redraw(): void;
  /** The panes are there later than they are needed. */
  drawn(): void;
}

export class Panes {
  readonly dom = element("div", { class: "kl-panes", tabindex: "-1" });
  /** The texts that are shown; null for one that its side does not have. */
  shown: readonly (Shown | null)[] = [];
  private panes: TextPane[] = [];
  private diff: DiffPane | null = null;
  private layout = "";
  /** Which drawing this is: what comes late for an earlier one is dropped. */
  private drawing = 0;

  constructor(
    private readonly sides: readonly Side[],
    private readonly root: Document | ShadowRoot,
    private readonly marginOf: (shown: Shown) => Margin,
    private readonly listener: PanesListener,
  ) {}

  /** Show texts, also those that are shown already if `again`; false where one has to be brought first. */
  draw(layout: Layout, shown: readonly (Shown | null)[], again: boolean): boolean {
    this.drawing++;
    const missing = shown.filter((one): one is Shown => one !== null && !one.text.isHere);
    if (missing.length > 0) {
      this.wait(missing);
      return false;
    }
    const key = JSON.stringify(layout);
    if (key !== this.layout || layout.mode === "diff") {
      this.clear();
      this.layout = key;
      if (layout.mode === "diff") this.makeDiff(layout, shown);
      else this.makePanes(layout.columns);
    }
    if (layout.mode !== "diff") this.fillPanes(shown, layout.wrap, again);
    this.shown = shown;
    return true;
  }

  /** What is shown next is drawn whole. */
  forget(): void {
    this.shown = [];
  }

  clear(): void {
    this.panes.forEach((pane) => pane.destroy());
    this.panes = [];
    this.diff?.destroy();
    this.diff = null;
    this.dom.replaceChildren();
    this.layout = "";
  }

  /** Bring what is lit, or the difference that was looked at, into sight where a notebook took the view out of its page or changed its width. */
  reveal(): void {
    requestAnimationFrame(() => {
      this.panes.forEach((pane) => pane.revealLit());
      this.diff?.reveal();
    });
  }

  // What the reader does

  goToChange(forward: boolean): void {
    this.diff?.go(forward);
  }

  /** Scroll to the next lit lines, or those before, in every pane but one. */
  goToLit(forward: boolean, except: number): void {
    this.panes.forEach((pane, number) => number !== except && pane.goToLit(forward));
  }

  /** Find in the text with the focus, else in the last one. */
  find(): void {
    if (this.diff !== null) {
      this.diff.find(this.diff.view(0).hasFocus ? 0 : 1);
      return;
    }
    const focused = this.panes.find((pane) => pane.view.hasFocus);
    (focused ?? this.panes[this.panes.length - 1])?.find();
  }

  /** Light what is related to a line, and scroll to it but in pane `from`; in words how many lines of other panes that are. */
  light(chosen: Chosen, from: number): string {
    const lights = this.shown.map((one, pane) => {
      if (one === null) return null;
      const lines = relatedLines(chosen, one)
        .map((line) => one.text.shown(line))
        .filter((line) => line > 0);
      const own =
        one.side === chosen.side && one.place === chosen.place ? one.text.shown(chosen.line) : 0;
      const view = this.diff?.view(pane as 0 | 1) ?? this.panes[pane]?.view;
      // Looking forces a layout: look at all panes before changing any.
      const overflows =
        view !== undefined && lines.length > 0 && view.contentHeight > view.scrollDOM.clientHeight;
      return (
        view && {
          pane,
          one,
          view,
          lines,
          own,
          overflows,
          scroll: pane !== from && !anyVisible(view, lines),
        }
      );
    });
    const words: string[] = [];
    for (const light of lights) {
      if (!light) continue;
      const { pane, one, view, lines, own, overflows, scroll } = light;
      lightLines(view, lines, own, scroll);
      this.panes[pane]?.mark(lines, overflows);
      if (pane !== from) words.push(litWords(lines.length, one));
    }
    return words.join(", ");
  }

  // Drawing

  /** Bring texts that are not here yet, then draw; what is seen stays until they come, unless a request has to go to the kernel. */
  private wait(missing: readonly Shown[]): void {
    const { drawing } = this;
    const box = element(
      "div",
      { class: "kl-wait", role: "status" },
      "Fetching the text from the notebook's kernel …",
    );
    if (missing.some((one) => one.text.isAway)) {
      this.clear();
      this.dom.append(box);
    }
    Promise.all(missing.map((one) => one.text.load())).then(
      () => drawing === this.drawing && this.listener.redraw(),
      (error: unknown) => {
        const lines = missing
          .map((one) => `${one.label}: ${one.text.data.line_count.toLocaleString("en")} lines`)
          .join(", ");
        const why = error instanceof Error ? error.message : String(error);
        box.replaceChildren(
          `${lines}. This text was too large to send along, and ${why}. ` +
            'Run the cell again, or write a page that has every text: compilation.explore().to_html("page.html"). ',
          button("Try again", "Request the text from the kernel once more", () =>
            this.listener.redraw(),
          ),
        );
      },
    );
  }

  private makePanes(columns: readonly Column[]): void {
    columns.forEach((column, number) => {
      if (number > 0) this.dom.append(splitter("Width of the panes"));
      const place = element("div", { class: "kl-text" });
      this.dom.append(
        element(
          "div",
          { class: "kl-pane", role: "group", "aria-label": `Pane ${number + 1}` },
          this.head(column, number, ""),
          place,
        ),
      );
      this.panes.push(
        new TextPane(place, this.root, (line) => this.listener.chooseLine(number, line)),
      );
    });
  }

  private fillPanes(shown: readonly (Shown | null)[], wrap: boolean, again: boolean): void {
    const heads = this.dom.querySelectorAll(".kl-pane-head > .kl-soft");
    this.panes.forEach((pane, number) => {
      const one = shown[number];
      const before = this.shown[number];
      if (one == null) return;
      this.nameFailed(heads[number]!.parentElement!, one);
      heads[number]!.textContent = `${isOfPass(one) ? `${one.label}, ` : ""}${lineWords(one.text)}`;
      const same =
        before?.text === one.text && before.place === one.place && pane.view.state.doc.length > 0;
      if (!same || again) pane.show(one.text, one.label, this.marginOf(one), wrap);
    });
  }

  /** A pass that failed left no text after it: the list says which one is there. */
  private nameFailed(head: HTMLElement, one: Shown): void {
    const after = [...head.querySelectorAll("option")].find(
      ({ selected, value }) => selected && value.endsWith(" after"),
    );
    if (after !== undefined)
      after.textContent = one.label.startsWith("before ")
        ? "before the failed pass"
        : columnWords("after");
  }

  private makeDiff({ columns, wrap }: Layout, shown: readonly (Shown | null)[]): void {
    const [left, right] = shown;
    const head = element(
      "div",
      { class: "kl-diff-head" },
      ...columns.map((column, number) => this.head(column, number, shown[number]?.label ?? "")),
    );
    const place = element("div", { class: "kl-diff" });
    this.dom.append(element("div", { class: "kl-diff-box" }, head, place));
    if (left == null || right == null) return;
    const words = element("span", { class: "kl-changes", role: "status" }, "comparing …");
    head.append(words);
    const comparing = compared(left.text, right.text);
    const show = (): void => {
      this.diff = this.diffPane(place, left, right, comparing.result!, wrap);
      words.title =
        left.text.text === right.text.text
          ? ""
          : "Values that only got another number are not marked.";
      words.textContent = this.diff.words;
    };
    if (comparing.slice()) return show();
    const { drawing } = this;
    void comparing
      .finish(() => drawing === this.drawing)
      .then(() => {
        if (drawing !== this.drawing) return;
        show();
        this.listener.drawn();
      });
  }

  private diffPane(
    place: HTMLElement,
    left: Shown,
    right: Shown,
    found: Differences,
    wrap: boolean,
  ): DiffPane {
    const side = (one: Shown) => ({
      text: one.text,
      label: one.label,
      margin: { ...this.marginOf(one), bars: NO_BARS },
    });
    const made = new DiffPane(
      place,
      this.root,
      side(left),
      side(right),
      found,
      wrap,
      (number, line) => this.listener.chooseLine(number, line),
    );
    made.showFirst();
    return made;
  }

  /** A list of what the pane can show, and words for what it does. */
  private head(column: Column, number: number, words: string): HTMLElement {
    return element(
      "div",
      { class: "kl-pane-head" },
      this.chooser(column, number),
      element("span", { class: "kl-soft" }, words),
    );
  }

  private chooser(column: Column, number: number): HTMLSelectElement {
    const options = this.sides.flatMap((side, at) => {
      const group = this.sides.length === 2 ? side.data.name : undefined;
      const passes = side.data.passes.length > 0 ? ["after", "before"] : [];
      const stages = side.data.stages.map((stage) => `stage:${stage.name}`);
      return [...stages, ...passes].map((what) => ({
        value: `${at} ${what}`,
        words: columnWords(what),
        ...(group === undefined ? {} : { group }),
      }));
    });
    return choice(
      `Text of pane ${number + 1}`,
      options,
      `${column.side} ${column.what}`,
      (value) => {
        const [side, what] = [Number(value.split(" ")[0]), value.slice(value.indexOf(" ") + 1)];
        this.listener.chooseColumn(number, { side, what });
      },
    );
  }
}

function lineWords(text: Text): string {
  if (text.text === "") return "empty";
  const lines = text.lines.length;
  return lines === 1 ? "1 line" : `${lines.toLocaleString("en")} lines`;
}
