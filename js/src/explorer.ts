// The IR explorer: passes, texts side by side whose lines are linked, and what differs between two of them.
import type { IrView } from "./data";
import { element, onKeys, statusLine } from "./dom";
import {
  type Column,
  firstColumns,
  firstRow,
  type Mode,
  nextColumn,
  passNumber,
  type Shown,
  shownIn,
} from "./explorer_columns";
import { changedOperation, hottestLine } from "./explorer_focus";
import { headOf, passFacts } from "./explorer_head";
import { Panes } from "./explorer_panes";
import { Toolbar } from "./explorer_toolbar";
import { own } from "./records";
import { type Chosen, chosenWords, errorLine } from "./linked_lines";
import { recalled, remember } from "./memory";
import { barsOf } from "./metrics";
import { followWidth } from "./narrow";
import { neighbor, notedLines, noteList } from "./notes";
import { PassList, type Row, rowsOf } from "./pass_list";
import type { At, Seen } from "./tabs";
import { Side, type Sources } from "./side";
import { splitter } from "./splitter";
import type { Margin } from "./text_pane";

/** What a view needs from the place where it is shown. */
export interface Host {
  sources: Sources;
  root: Document | ShadowRoot;
}

const MOST_PANES = 4;

export class Explorer implements Seen {
  private readonly sides: Side[];
  private readonly rows: Row[];
  private readonly list: PassList | null;
  private readonly columns: Record<Mode, Column[]>;
  private mode: Mode;
  private metric: string;
  private chosen: Chosen | null;
  /** The pane in which it was chosen; -1 for none of those that are shown. */
  private origin = -1;
  /** Whether the view chose the line, as what is to be seen of the pass. */
  private isOurs = true;
  /** Whether control codes are shown beside SASS. */
  private codes = false;
  private wrap = true;
  private readonly toolbar: Toolbar;
  private readonly panes: Panes;
  private readonly facts = element("div", { class: "kl-facts" });
  private readonly status = statusLine();
  private readonly width: ResizeObserver;
  private readonly between = splitter("Width of the list of passes");

  constructor(
    private readonly dom: HTMLElement,
    private readonly data: IrView,
    private readonly host: Host,
  ) {
    this.sides = data.sides.map((side, number) => new Side(number, side, host.sources));
    this.rows = rowsOf(data);
    this.metric = data.metric;
    this.columns = firstColumns(this.sides);
    this.mode = this.rows.length === 0 ? "stages" : data.sides.length === 2 ? "diff" : "pass";
    this.recall();
    const names = data.sides.length === 2 ? data.sides.map((side) => side.name) : [];
    this.list = this.rows.length > 0 ? new PassList(this.rows, names, () => this.draw()) : null;
    this.toolbar = this.makeToolbar();
    this.panes = this.makePanes();
    this.width = followWidth(dom, () => this.panes.reveal());
    dom.classList.add("kl-explorer");
    this.build();
    this.list?.select(firstRow(this.sides, this.rows), false);
    this.chosen = errorLine(this.sides) ?? hottestLine(this.sides[0]!, this.metric);
    this.isOurs = this.chosen === null;
    this.draw();
    this.list?.reveal();
    onKeys(dom, (event) => this.key(event));
  }

  destroy(): void {
    this.width.disconnect();
    this.panes.clear();
  }

  turnTo({ stage, pass, line }: At): boolean {
    if (typeof stage === "string" && this.sides[0]?.stage(stage)) {
      const shown = ["source", ...(stage === "source" ? [] : [stage])];
      this.columns.stages = shown.map((name) => ({ side: 0, what: `stage:${name}` }));
      this.setMode("stages");
    }
    const row = typeof pass === "string" ? this.rows.findIndex(({ label }) => label === pass) : -1;
    if (row >= 0) {
      this.mode = "diff";
      this.list?.select(row);
    }
    if (typeof line === "number" && line !== this.here()["line"]) this.goToLine(0, line);
    return true;
  }

  here(): At {
    const { chosen } = this;
    const line =
      chosen === null
        ? undefined
        : chosen.place === "source"
          ? chosen.line
          : chosen.side.map.lines(chosen.place, "source", chosen.line)[0];
    return line === undefined ? {} : { line };
  }

  /** Begin as the reader of this notebook left the explorer before. */
  private recall(): void {
    const [side] = this.sides;
    const { mode, stages, codes } = recalled();
    this.codes = codes === true;
    if (this.sides.length !== 1 || side!.data.failure) return;
    if (mode === "stages" || (this.rows.length > 0 && (mode === "pass" || mode === "diff")))
      this.mode = mode;
    const there = Array.isArray(stages)
      ? stages.filter(
          (name): name is string => typeof name === "string" && side!.stage(name) !== null,
        )
      : [];
    if (there.length > 0)
      this.columns.stages = there.map((name) => ({ side: 0, what: `stage:${name}` }));
  }

  /** The reader chose what is to be seen. */
  private keep(): void {
    remember({ codes: this.codes });
    if (this.sides.length !== 1) return;
    const stages = this.columns.stages.flatMap(({ what }) =>
      what.startsWith("stage:") ? [what.slice("stage:".length)] : [],
    );
    remember({ mode: this.mode, stages });
  }

  // The frame

  private makeToolbar(): Toolbar {
    const withPasses: readonly Mode[] = ["pass", "diff", "stages"];
    const withoutPasses: readonly Mode[] =
      this.sides.length === 2 ? ["diff", "stages"] : ["stages"];
    return new Toolbar(this.data, this.rows.length > 0 ? withPasses : withoutPasses, this.metric, {
      setMode: (mode) => this.chooseMode(mode),
      resize: (by) => this.resize(by),
      toggleCodes: () => this.toggleCodes(),
      goToChange: (forward) => this.panes.goToChange(forward),
      chooseMetric: (name) => {
        this.metric = name;
        this.draw(true);
      },
      toggleWrap: () => this.toggleWrap(),
      find: () => this.panes.find(),
    });
  }

  private makePanes(): Panes {
    return new Panes(this.sides, this.host.root, (shown) => this.margin(shown), {
      chooseLine: (pane, line) => this.choose(pane, line),
      chooseColumn: (pane, column) => {
        this.columns[this.mode][pane] = column;
        this.keep();
        this.drawWhole();
      },
      redraw: () => this.draw(),
      drawn: () => this.relight(-1),
    });
  }

  private build(): void {
    this.dom.append(
      ...headOf(this.data),
      this.toolbar.dom,
      this.toolbar.help.dom,
      element(
        "div",
        { class: "kl-main" },
        ...(this.list ? [this.list.dom, this.between] : []),
        element("div", { class: "kl-work" }, this.facts, this.panes.dom),
      ),
      noteList(this.data, (side, line) => this.goToLine(side, line)),
      this.status,
    );
  }

  private margin(shown: Shown): Margin {
    const { data } = shown.side;
    return {
      notes: data.notes,
      bars: barsOf(shown.side, this.metric, shown.place),
      controls:
        shown.place === "sass" && this.codes
          ? new Map(data.controls.map((one) => [one.line, one.codes]))
          : new Map(),
      layoutWords: (shape, encoding) => shown.side.layoutWords(shape, encoding),
    };
  }

  // Drawing

  private draw(again = false): void {
    const ours = this.dom.contains(this.host.root.activeElement);
    this.drawFrame();
    this.drawPanes(again);
    // Keys go on working where what had the focus, a pane or the list of passes, is gone or hidden.
    const focused = this.host.root.activeElement;
    if (ours && (!this.dom.contains(focused) || focused?.closest("[hidden]")))
      this.panes.dom.focus({ preventScroll: true });
  }

  /** Draw also what seems to be the same as before. */
  private drawWhole(): void {
    this.panes.forget();
    this.draw();
  }

  private drawPanes(again: boolean): void {
    const columns = this.columns[this.mode];
    const selected = this.list?.selected ?? -1;
    const shown = columns.map((column) =>
      shownIn(this.sides, column, passNumber(this.rows, selected, column.side)),
    );
    if (!this.panes.draw({ mode: this.mode, wrap: this.wrap, columns }, shown, again)) return;
    this.origin = -1;
    if (this.isOurs && this.mode === "pass") this.chooseChanged();
    this.relight(-1);
  }

  /** While the reader has chosen no line, that is the first operation that the pass changed. */
  private chooseChanged(): void {
    const at = this.columns.pass.findIndex(({ what }) => what === "after");
    const after = this.panes.shown[at];
    if (after == null || this.list === null) return;
    const number = passNumber(this.rows, this.list.selected, after.side.number);
    const before = shownIn(this.sides, { side: after.side.number, what: "before" }, number);
    if (before === null || before.text === after.text || before.place === "source") return;
    if (!before.text.isHere) {
      if (!before.text.isAway) void before.text.load().then(() => this.draw());
      return;
    }
    const isWanted = (): boolean => this.isOurs && this.panes.shown[at]?.text === after.text;
    this.chosen =
      changedOperation(before.text, after, isWanted, () => this.chooseChanged()) ?? this.chosen;
    if (this.chosen !== null)
      this.status.textContent = chosenWords(this.chosen, this.relight(-1), this.metric);
  }

  private drawFrame(): void {
    const hasCodes = this.columns[this.mode].some(
      ({ side, what }) => what === "stage:sass" && this.sides[side]!.data.controls.length > 0,
    );
    this.toolbar.show(this.mode, this.wrap, hasCodes ? this.codes : null);
    const row = this.list === null ? undefined : this.rows[this.list.selected];
    this.facts.replaceChildren(
      ...(row === undefined
        ? []
        : passFacts(row, this.sides, own(this.data.pass_notes, row.pass.name))),
    );
    // Where no pane shows what a pass made, the list of passes only takes space.
    const passes = this.columns[this.mode].some((column) => !column.what.startsWith("stage:"));
    this.facts.hidden = this.facts.childElementCount === 0 || !passes;
    if (this.list !== null) this.list.dom.hidden = !passes;
    this.between.hidden = !passes;
  }

  // Linked lines

  /** A line was chosen in a pane: light it there, and what is related to it everywhere. */
  private choose(pane: number, shownLine: number): void {
    const one = this.panes.shown[pane];
    if (one == null) return;
    this.light({ side: one.side, place: one.place, line: one.text.number(shownLine) }, pane);
  }

  /** A line of the kernel: light it, and what is related to it. */
  private goToLine(side: number, line: number): void {
    this.light({ side: this.sides[side]!, place: "source", line }, -1);
  }

  private goToNote(forward: boolean): void {
    const { chosen } = this;
    const from = chosen?.place === "source" ? chosen : null;
    const found = neighbor(notedLines(this.data), from?.side.number ?? 0, from?.line ?? 0, forward);
    if (found !== null) this.goToLine(found.side, found.line);
  }

  private light(chosen: Chosen, pane: number): void {
    this.chosen = chosen;
    this.isOurs = false;
    this.origin = pane;
    this.status.textContent = chosenWords(chosen, this.relight(pane), this.metric);
  }

  private relight(from: number): string {
    return this.chosen === null ? "" : this.panes.light(this.chosen, from);
  }

  // What the reader does

  private toggleWrap(): void {
    this.wrap = !this.wrap;
    this.drawWhole();
  }

  private toggleCodes(): void {
    this.codes = !this.codes;
    this.keep();
    this.drawWhole();
  }

  private chooseMode(mode: Mode): void {
    this.setMode(mode);
    this.keep();
  }

  private setMode(mode: Mode): void {
    this.mode = mode;
    this.drawWhole();
  }

  private resize(by: number): void {
    const columns = this.columns[this.mode];
    if (by < 0 && columns.length > 1) columns.pop();
    if (by > 0 && columns.length < MOST_PANES) columns.push(nextColumn(this.sides, columns));
    this.keep();
    this.drawWhole();
  }

  /** Another pass, in a mode that shows passes. */
  private step(key: string): void {
    if (this.list === null) return;
    if (this.list.dom.hidden) this.setMode("pass");
    this.list.step("[{".includes(key) ? -1 : 1, "{}".includes(key));
  }

  private key(event: KeyboardEvent): boolean {
    const modes: Record<string, Mode> = { "1": "pass", "2": "diff", "3": "stages" };
    const mode = modes[event.key];
    if (mode !== undefined && (mode === "stages" || this.rows.length > 0)) this.chooseMode(mode);
    else if ("[]{}".includes(event.key)) this.step(event.key);
    else if (event.key === "n" || event.key === "p") this.panes.goToChange(event.key === "n");
    else if (event.key === "m" || event.key === "M") this.goToNote(event.key === "m");
    else if (event.key === "," || event.key === ".")
      this.panes.goToLit(event.key === ".", this.origin);
    else if (event.key === "w") this.toggleWrap();
    else if (event.key === "/") this.panes.find();
    else if (event.key === "?") this.toolbar.help.toggle();
    else return false;
    return true;
  }
}
