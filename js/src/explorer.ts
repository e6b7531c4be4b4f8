// The IR explorer: passes, texts side by side whose lines are linked, and what differs between two of them.
import type { IrView, PassData } from "./data";
import { compared, DiffPane } from "./diff_pane";
import type { Differences } from "./differences";
import { button, choice, element } from "./dom";
import { type Bars, barsOf, barWords, metricChoice, NO_BARS } from "./metrics";
import { followWidth } from "./narrow";
import { allWords, neighbour, notedLines, noteList } from "./notes";
import { changeWords, milliseconds, PassList, type Row, rowsOf } from "./pass_list";
import { Side, type Sources, type Text } from "./side";
import { splitter } from "./splitter";
import { anyVisible, controlWords, lightLines, type Margin, TextPane } from "./text_pane";

/** What a view needs from the place where it is shown. */
export interface Host {
  sources: Sources;
  root: Document | ShadowRoot;
}

type Mode = "pass" | "diff" | "stages";

/** What a pane shows: a stage of a side, or the text before or after the selected pass. */
interface Column {
  side: number;
  what: string;
}

interface Shown {
  side: Side;
  text: Text;
  place: string;
  label: string;
}

/** The line that was chosen last, by its number in the full text. */
interface Chosen {
  side: Side;
  place: string;
  line: number;
}

const MODES: readonly { mode: Mode; words: string; title: string }[] = [
  { mode: "pass", words: "After a pass", title: "The module after the selected pass, beside the source" },
  { mode: "diff", words: "Before | after", title: "What the selected pass changed" },
  { mode: "stages", words: "Stages", title: "Two to four texts side by side" },
];

const STAGE_WORDS: Record<string, string> = {
  source: "source", ttir: "TTIR", ttgir: "TTGIR", llir: "LLVM IR", ptx: "PTX", sass: "SASS", amdgcn: "AMDGCN",
};

const KEYS = [
  ["[  ]", "previous, next pass"],
  ["{  }", "previous, next pass that changed something"],
  ["p  n", "previous, next change (Before | after)"],
  ["m  M", "next, previous remark or finding"],
  [",  .", "previous, next lit line, in every other pane"],
  ["i  d", "in a pane: what the name at the cursor is; where it is defined"],
  ["w", "wrap long lines"],
  ["/", "find in the pane with the focus; Enter for the next place"],
  ["1 2 3", "After a pass, Before | after, Stages"],
  ["?", "these keys"],
];

const MOST_PANES = 4;

export class Explorer {
  private readonly sides: Side[];
  private readonly rows: Row[];
  private readonly list: PassList | null;
  private readonly columns: Record<Mode, Column[]>;
  private mode: Mode;
  private metric: string;
  private chosen: Chosen | null = null;
  /** The pane in which it was chosen; -1 for none of those that are shown. */
  private origin = -1;
  /** A difference at the end of a long line is to be seen; texts side by side are easier to read unwrapped. */
  private readonly wraps: Record<Mode, boolean> = { pass: false, diff: true, stages: false };
  private panes: TextPane[] = [];
  private shown: (Shown | null)[] = [];
  private diff: DiffPane | null = null;
  private readonly work = element("div", { class: "kl-panes", tabindex: "-1" });
  private readonly facts = element("div", { class: "kl-facts" });
  private readonly status = element("div", { class: "kl-status", role: "status", "aria-live": "polite" });
  private readonly modes: HTMLElement;
  private readonly help: HTMLElement;
  private readonly paneCount: HTMLElement;
  private readonly previous: HTMLElement;
  private readonly wrap: HTMLButtonElement;
  private readonly helpButton: HTMLButtonElement;
  private readonly width: ResizeObserver;
  private readonly between = splitter("Width of the list of passes");
  private drawn = "";
  private waits = 0;

  constructor(private readonly dom: HTMLElement, private readonly data: IrView, private readonly host: Host) {
    this.sides = data.sides.map((side, number) => new Side(number, side, host.sources));
    this.rows = rowsOf(data);
    this.metric = data.metric;
    this.columns = this.defaultColumns();
    this.mode = this.rows.length > 0 ? "pass" : "stages";
    const names = data.sides.length === 2 ? data.sides.map((side) => side.name) : [];
    this.list = this.rows.length > 0 ? new PassList(this.rows, names, () => this.draw()) : null;
    this.modes = this.makeModes();
    this.help = this.makeHelp();
    this.paneCount = element(
      "span", { class: "kl-group" },
      button("−", "One pane fewer", () => this.resize(-1)), button("+", "One pane more", () => this.resize(1)), element("span", { class: "kl-word" }, "panes"),
    );
    this.previous = element(
      "span", { class: "kl-group" },
      button("▲", "Previous change (p)", () => this.goToChange(false)), button("▼", "Next change (n)", () => this.goToChange(true)), element("span", { class: "kl-word" }, "change"),
    );
    this.wrap = button("Wrap", "Wrap long lines (w)", () => this.toggleWrap());
    this.helpButton = button("?", "Keys (?)", () => this.toggleHelp());
    this.helpButton.setAttribute("aria-label", "Keys");
    this.helpButton.setAttribute("aria-expanded", "false");
    this.width = followWidth(dom);
    dom.classList.add("kl-explorer");
    this.build();
    this.list?.select(this.firstRow(), false);
    this.chosen = this.errorLine();
    this.draw();
    dom.addEventListener("keydown", (event) => this.key(event));
  }

  destroy(): void {
    this.width.disconnect();
    this.clear();
  }

  // What there is to see at first

  private firstRow(): number {
    if (this.sides[0]?.data.failure) return this.rows.length - 1;
    const changed = this.rows.findIndex((row) => row.mark === "changed");
    if (this.sides.length === 2) return Math.max(0, changed);
    // The first pass over layouts that adds or removes operations: there is something to see, and the list begins at its beginning.
    const telling = this.rows.findIndex(({ stage, mark, pass }) => stage === "ttgir" && mark === "changed" && Object.keys(pass.op_changes).length > 0);
    return Math.max(0, telling >= 0 ? telling : changed);
  }

  /** The line that a compilation failed on: it is lit from the start. */
  private errorLine(): Chosen | null {
    for (const side of this.sides) {
      const error = side.data.notes.find((note) => note.severity === "error" && note.line > 0);
      if (error !== undefined) return { side, place: "source", line: error.line };
    }
    return null;
  }

  private defaultColumns(): Record<Mode, Column[]> {
    const stage = (side: number, name: string): Column => ({ side, what: `stage:${name}` });
    const stages = (this.sides[0]?.data.stages ?? []).map((one) => one.name);
    if (this.sides.length === 2) {
      const both = (what: string): Column[] => [{ side: 0, what }, { side: 1, what }];
      const shared = ["ttgir", "ttir", "source"].find((name) => this.sides.every((side) => side.stage(name))) ?? "source";
      return { pass: both("after"), diff: both("after"), stages: both(`stage:${shared}`) };
    }
    const last = stages.includes("sass") ? "sass" : stages[stages.length - 1];
    const chosen = ["source", "ttgir", last].filter((name, at, all) => name !== undefined && stages.includes(name) && all.indexOf(name) === at);
    if (chosen.length < 2 && stages.length > 1) chosen.push(stages[1]);
    return {
      pass: [stage(0, "source"), { side: 0, what: "after" }],
      diff: [{ side: 0, what: "before" }, { side: 0, what: "after" }],
      stages: chosen.map((name) => stage(0, name!)),
    };
  }

  // The frame

  private build(): void {
    const { title, sides } = this.data;
    const facts = sides.flatMap((side) => {
      const words = side.facts.map(([name, value]) => `${name} ${value}`).join(" · ");
      return words ? [element("span", { class: "kl-soft" }, sides.length === 2 ? `${side.name}: ${words}` : words)] : [];
    });
    const failures = sides.filter((side) => side.failure).map((side) => failureBox(side.failure));
    const notices = sides.filter((side) => side.notice).map((side) => element("div", { class: "kl-notice", role: "note" }, `${sides.length === 2 ? `${side.name}: ` : ""}${side.notice}`));
    this.dom.append(
      element("div", { class: "kl-head" }, element("b", {}, title), ...facts),
      ...failures,
      ...notices,
      element("div", { class: "kl-tools", role: "group", "aria-label": "View" }, ...this.tools()),
      this.help,
      element("div", { class: "kl-main" }, ...(this.list ? [this.list.dom, this.between] : []),
        element("div", { class: "kl-work" }, this.facts, this.work)),
      noteList(this.data, (side, line) => this.goToLine(side, line)),
      this.status,
    );
  }

  private tools(): HTMLElement[] {
    const bars = metricChoice(this.data, this.metric, (name) => {
      this.metric = name;
      this.draw(true);
    });
    return [
      this.modes, this.previous, this.paneCount,
      ...(bars === null ? [] : [bars]),
      element("span", { class: "kl-space" }),
      this.wrap,
      button("Find", "Find in a text (/)", () => this.find()),
      this.helpButton,
    ];
  }

  private makeModes(): HTMLElement {
    const offered = MODES.filter(({ mode }) => mode === "stages" || this.rows.length > 0 || (mode === "diff" && this.sides.length === 2));
    const group = element("span", { class: "kl-modes", role: "radiogroup", "aria-label": "What to show" });
    for (const { mode, words, title } of offered) {
      const compared = this.sides.length === 2 && mode === "diff";
      const made = button(compared ? "Differences" : words, compared ? "What differs between the two" : title, () => this.setMode(mode));
      made.setAttribute("role", "radio");
      made.addEventListener("keydown", (event) => arrowToRadio(event, group));
      made.dataset["mode"] = mode;
      group.append(made);
    }
    return group;
  }

  private makeHelp(): HTMLElement {
    const rows = KEYS.map(([keys, words]) => element("div", {}, element("kbd", {}, keys!), words!));
    return element("div", { class: "kl-help", hidden: true, role: "note" }, ...rows);
  }

  private toggleHelp(): void {
    this.help.hidden = !this.help.hidden;
    this.helpButton.setAttribute("aria-expanded", String(!this.help.hidden));
  }

  // What the panes show

  private row(): Row | null {
    return this.list === null ? null : this.rows[this.list.selected] ?? null;
  }

  private resolve(column: Column): Shown | null {
    const side = this.sides[column.side];
    if (side === undefined) return null;
    const name = this.sides.length === 2 ? ` (${side.data.name})` : "";
    if (column.what.startsWith("stage:")) {
      const stage = column.what.slice("stage:".length);
      const text = side.stage(stage);
      return text && { side, text, place: stage, label: `${STAGE_WORDS[stage] ?? stage}${name}` };
    }
    const after = this.passNumber(column.side);
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
    return { side, text: side.texts[pass.text]!, place: pass.place, label: `${when} ${pass.label}${name}` };
  }

  /** The pass of a side that the selected row stands for; where it did not run there, the one before. */
  private passNumber(side: number): number {
    if (this.list === null) return -1;
    for (let row = this.list.selected; row >= 0; row--) {
      const number = side === 0 ? this.rows[row]!.left : this.rows[row]!.right;
      if (number !== null) return number;
    }
    return -1;
  }

  private margin(shown: Shown): Margin {
    const { data } = shown.side;
    return {
      notes: data.notes,
      bars: barsOf(shown.side, this.metric, shown.place),
      controls: shown.place === "sass" ? new Map(data.controls.map((one) => [one.line, one.codes])) : new Map(),
      layoutWords: (shape, encoding) => shown.side.layoutWords(shape, encoding),
    };
  }

  // Drawing

  private draw(again = false): void {
    const ours = this.dom.contains(this.host.root.activeElement);
    this.drawPanes(again);
    // Keys go on working where what had the focus, a pane or the list of passes, is gone or hidden.
    const focused = this.host.root.activeElement;
    if (ours && (!this.dom.contains(focused) || focused?.closest("[hidden]"))) this.work.focus({ preventScroll: true });
  }

  private drawPanes(again: boolean): void {
    const columns = this.columns[this.mode];
    const shown = columns.map((column) => this.resolve(column));
    const missing = shown.filter((one): one is Shown => one !== null && !one.text.isHere);
    this.drawFrame();
    this.waits++;
    if (missing.length > 0) {
      this.wait(missing);
      return;
    }
    this.origin = -1;
    const key = `${this.mode} ${this.wraps[this.mode]} ${columns.map((one) => `${one.side}${one.what}`).join(" ")}`;
    if (key !== this.drawn || this.mode === "diff" || this.panes.length !== columns.length) {
      this.drawn = key;
      this.clear();
      if (this.mode === "diff") this.drawDiff(columns, shown);
      else this.makePanes(columns);
    }
    if (this.mode !== "diff") this.fillPanes(shown, again);
    this.shown = shown;
    this.relight(-1);
  }

  private drawFrame(): void {
    for (const one of this.modes.children) {
      const is = (one as HTMLElement).dataset["mode"] === this.mode;
      one.setAttribute("aria-checked", String(is));
      (one as HTMLElement).tabIndex = is ? 0 : -1;
    }
    this.paneCount.hidden = this.mode === "diff";
    this.previous.hidden = this.mode !== "diff";
    this.wrap.setAttribute("aria-pressed", String(this.wraps[this.mode]));
    this.facts.replaceChildren(...this.passFacts());
    // Where no pane shows what a pass made, the list of passes only takes room.
    const passes = this.columns[this.mode].some((column) => !column.what.startsWith("stage:"));
    this.facts.hidden = this.facts.childElementCount === 0 || !passes;
    if (this.list !== null) this.list.dom.hidden = !passes;
    this.between.hidden = !passes;
  }

  /** The pass of one side, or of both sides with their names. */
  private passesOf(row: Row): { name: string; pass: PassData }[] {
    if (this.sides.length < 2) return [{ name: "", pass: row.pass }];
    const found = [this.sides[0]!.pass(row.left ?? -1), this.sides[1]!.pass(row.right ?? -1)];
    return found.flatMap((pass, side) => (pass === null ? [] : [{ name: this.sides[side]!.data.name, pass }]));
  }

  private passFacts(): HTMLElement[] {
    const row = this.row();
    if (row === null) return [];
    const passes = this.passesOf(row);
    const { pass } = row;
    const ops = Object.entries(pass.op_changes).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    const words = ops.slice(0, 12).map(([name, change]) => `${name} ${change > 0 ? "+" : "−"}${Math.abs(change)}`);
    if (ops.length > 12) words.push(`and ${ops.length - 12} other operations`);
    const note = this.data.pass_notes[pass.name];
    return [
      element("div", {}, element("b", {}, row.label),
        ...passes.map(({ name, pass }) => element("span", { class: "kl-soft kl-cost" },
          `${name ? `${name}: ` : ""}${costWords(pass)}${pass.arguments ? `, called with ${pass.arguments}` : ""}`))),
      ...(words.length > 0 ? [element("div", { class: "kl-op-changes" }, words.join(" · "))] : []),
      ...(note ? [element("details", {}, element("summary", {}, "What this pass does"), ...prose(note))] : []),
    ];
  }

  /** Bring texts that are not here yet, then draw; what is seen stays until they come, unless the kernel has to be asked. */
  private wait(missing: readonly Shown[]): void {
    const asked = ++this.waits;
    const box = element("div", { class: "kl-wait", role: "status" }, "Fetching the text from the notebook's kernel …");
    if (missing.some((one) => one.text.isAway)) {
      this.clear();
      this.work.append(box);
    }
    Promise.all(missing.map((one) => one.text.load())).then(
      () => asked === this.waits && this.draw(),
      (error: unknown) => {
        const lines = missing.map((one) => `${one.label}: ${one.text.data.line_count.toLocaleString("en")} lines`).join(", ");
        const why = error instanceof Error ? error.message : String(error);
        box.replaceChildren(
          `${lines}. This text was too large to send along, and ${why}. ` +
          "Run the cell again, or write a page that has every text: compilation.explore().to_html(\"page.html\"). ",
          button("Ask again", "Ask the kernel once more", () => this.draw()),
        );
      },
    );
  }

  private clear(): void {
    this.panes.forEach((pane) => pane.destroy());
    this.panes = [];
    this.diff?.destroy();
    this.diff = null;
    this.work.replaceChildren();
    this.drawn = "";
  }

  private makePanes(columns: readonly Column[]): void {
    this.drawn = `${this.mode} ${this.wraps[this.mode]} ${columns.map((one) => `${one.side}${one.what}`).join(" ")}`;
    columns.forEach((column, number) => {
      if (number > 0) this.work.append(splitter("Width of the panes"));
      const place = element("div", { class: "kl-text" });
      this.work.append(
        element("div", { class: "kl-pane", role: "group", "aria-label": `Pane ${number + 1}` }, element("div", { class: "kl-pane-head" }, this.chooser(column, number), element("span", { class: "kl-soft" })), place),
      );
      this.panes.push(new TextPane(place, this.host.root, (line) => this.choose(number, line)));
    });
  }

  private fillPanes(shown: readonly (Shown | null)[], again: boolean): void {
    this.panes.forEach((pane, number) => {
      const one = shown[number];
      const before = this.shown[number];
      const head = this.work.querySelectorAll(".kl-pane-head > .kl-soft")[number];
      if (one == null) return;
      if (head) head.textContent = `${/^(?:after|before) /.test(one.label) ? `${one.label}, ` : ""}${lineWords(one.text)}`;
      const same = before?.text === one.text && before.place === one.place && pane.view.state.doc.length > 0;
      if (!same || again) pane.show(one.text, one.label, this.margin(one), this.wraps[this.mode]);
    });
  }

  private drawDiff(columns: readonly Column[], shown: readonly (Shown | null)[]): void {
    const [left, right] = shown;
    const head = element("div", { class: "kl-diff-head" }, ...columns.map((column, number) =>
      element("div", { class: "kl-pane-head" }, this.chooser(column, number), element("span", { class: "kl-soft" }, shown[number]?.label ?? "")),
    ));
    const place = element("div", { class: "kl-diff" });
    this.work.append(element("div", { class: "kl-diff-box" }, head, place));
    if (left == null || right == null) return;
    const words = element("span", { class: "kl-changes", role: "status" }, "comparing …");
    head.append(words);
    const comparing = compared(left.text, right.text);
    const show = (): void => this.showDifferences(comparing.result!, place, words, left, right);
    if (comparing.slice()) return show();
    const asked = this.waits;
    void comparing.finish(() => asked === this.waits).then(() => {
      if (asked !== this.waits) return;
      show();
      this.relight(-1);
    });
  }

  private showDifferences(found: Differences, place: HTMLElement, words: HTMLElement, left: Shown, right: Shown): void {
    const side = (one: Shown) => ({ text: one.text, label: one.label, margin: { ...this.margin(one), bars: NO_BARS } });
    this.diff = new DiffPane(place, this.host.root, side(left), side(right), found, this.wraps.diff, (number, line) => this.choose(number, line));
    this.diff.showFirst();
    words.title = left.text.text === right.text.text ? "" : "Values that only got another number are not marked.";
    words.textContent = this.diff.words;
  }

  private chooser(column: Column, number: number): HTMLSelectElement {
    const options = this.sides.flatMap((side, at) => {
      const group = this.sides.length === 2 ? side.data.name : undefined;
      const passes = side.data.passes.length > 0 ? ["after", "before"] : [];
      const stages = side.data.stages.map((stage) => `stage:${stage.name}`);
      return [...stages, ...passes].map((what) => ({
        value: `${at} ${what}`, words: columnWords(what), ...(group === undefined ? {} : { group }),
      }));
    });
    return choice(`Text of pane ${number + 1}`, options, `${column.side} ${column.what}`, (value) => {
      const [side, what] = [Number(value.split(" ")[0]), value.slice(value.indexOf(" ") + 1)];
      this.columns[this.mode][number] = { side, what };
      this.shown = [];
      this.draw();
    });
  }

  // Linked lines

  /** A line was chosen in a pane: light it there, and what is related to it everywhere. */
  private choose(pane: number, shownLine: number): void {
    const one = this.shown[pane];
    if (one == null) return;
    this.chosen = { side: one.side, place: one.place, line: one.text.number(shownLine) };
    this.origin = pane;
    this.say(this.chosen, this.relight(pane));
  }

  /** A line of the kernel: light it, and what is related to it. */
  private goToLine(side: number, line: number): void {
    this.chosen = { side: this.sides[side]!, place: "source", line };
    this.origin = -1;
    this.say(this.chosen, this.relight(-1));
  }

  private goToNote(forward: boolean): void {
    const { chosen } = this;
    const from = chosen?.place === "source" ? chosen : null;
    const found = neighbour(notedLines(this.data), from?.side.number ?? 0, from?.line ?? 0, forward);
    if (found !== null) this.goToLine(found.side, found.line);
  }

  /** Say of a line where it comes from, what was lit with it, how long its bar is, and what stands in its margin. */
  private say(chosen: Chosen, lit: string): void {
    const bars: Bars = barsOf(chosen.side, this.metric, chosen.place);
    const notes = chosen.place === "source" ? chosen.side.data.notes.filter((note) => note.line === chosen.line) : [];
    const codes = chosen.place === "sass" ? chosen.side.data.controls.find((one) => one.line === chosen.line)?.codes : undefined;
    const parts = [this.lineWords(chosen), lit, barWords(bars, chosen.line), codes === undefined ? "" : controlWords(codes), allWords(notes)];
    this.status.textContent = parts.filter((part) => part !== "").join(notes.length > 0 ? "\n" : " · ");
  }

  /** Light what is related to the chosen line; in words how many lines of other panes that are. */
  private relight(from: number): string {
    const { chosen } = this;
    if (chosen === null) return "";
    const lights = this.shown.map((one, pane) => {
      if (one === null) return null;
      const lines = this.related(chosen, one).map((line) => one.text.shown(line)).filter((line) => line > 0);
      const own = one.side === chosen.side && one.place === chosen.place ? one.text.shown(chosen.line) : 0;
      const view = this.diff?.view(pane as 0 | 1) ?? this.panes[pane]?.view;
      // Looking forces a layout: look at all panes before changing any.
      const overflows = view !== undefined && lines.length > 0 && view.contentHeight > view.scrollDOM.clientHeight;
      return view && { pane, one, view, lines, own, overflows, scroll: pane !== from && !anyVisible(view, lines) };
    });
    const words: string[] = [];
    for (const light of lights) {
      if (!light) continue;
      const { pane, one, view, lines, own, overflows, scroll } = light;
      lightLines(view, lines, own, scroll);
      this.panes[pane]?.mark(lines, overflows);
      if (pane !== from) words.push(`${lines.length.toLocaleString("en")} ${lines.length === 1 ? "line" : "lines"} of ${placeWords(one)}`);
    }
    return words.join(", ");
  }

  /** Scroll to the next lit lines, or those before, in every pane but the one that was clicked. */
  private goToLit(forward: boolean): void {
    this.panes.forEach((pane, number) => number !== this.origin && pane.goToLit(forward));
  }

  private related(chosen: Chosen, to: Shown): readonly number[] {
    if (chosen.side === to.side) return chosen.side.map.lines(chosen.place, to.place, chosen.line);
    // Two compilations meet in the source, if they are of one kernel.
    const lines = chosen.side.map.lines(chosen.place, "source", chosen.line);
    if (chosen.side.map.file !== to.side.map.file) return [];
    return [...new Set(lines.flatMap((line) => to.side.map.lines("source", to.place, line)))].sort((a, b) => a - b);
  }

  private lineWords(chosen: Chosen): string {
    const { map } = chosen.side;
    const chains = map.chain(chosen.place, chosen.line).filter((chain) => chain.length > 0);
    const what = `${STAGE_WORDS[chosen.place] ?? chosen.place} line ${chosen.line}`;
    if (chosen.place === "source") return what;
    if (chains.length === 0) return `${what}: the compiler names no line of the kernel for it`;
    const words = chains.slice(0, 3).map((chain) =>
      chain.map((frame) => (frame.file === map.file ? `line ${frame.line}` : `${frame.file.split("/").pop()}:${frame.line}`)).join(", called from "),
    );
    return `${what}: from ${[...new Set(words)].join("; and from ")}`;
  }

  // What the reader does

  private toggleWrap(): void {
    this.wraps[this.mode] = !this.wraps[this.mode];
    this.shown = [];
    this.draw();
  }

  private setMode(mode: Mode): void {
    this.mode = mode;
    this.shown = [];
    this.draw();
  }

  private resize(by: number): void {
    const columns = this.columns[this.mode];
    if (by < 0 && columns.length > 1) columns.pop();
    if (by > 0 && columns.length < MOST_PANES) columns.push(this.nextColumn(columns));
    this.shown = [];
    this.draw();
  }

  /** The first stage that no pane shows. */
  private nextColumn(columns: readonly Column[]): Column {
    for (const [side, one] of this.sides.entries()) {
      for (const stage of one.data.stages) {
        const what = `stage:${stage.name}`;
        if (!columns.some((column) => column.side === side && column.what === what)) return { side, what };
      }
    }
    return { side: 0, what: "stage:source" };
  }

  /** Another pass, in a mode that shows passes. */
  private step(key: string): void {
    if (this.list === null) return;
    if (this.list.dom.hidden) this.setMode("pass");
    this.list.step("[{".includes(key) ? -1 : 1, "{}".includes(key));
  }

  private goToChange(forward: boolean): void {
    this.diff?.go(forward);
  }

  private find(): void {
    const focused = this.panes.find((pane) => pane.view.hasFocus);
    if (this.diff !== null) {
      const side = this.diff.view(0).hasFocus ? 0 : 1;
      this.diff.find(side);
    } else (focused ?? this.panes[this.panes.length - 1])?.find();
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // A notebook in command mode takes plain letters: "d d" deletes the cell.
    event.stopPropagation();
    if (event.target instanceof HTMLElement && event.target.closest("input, select, textarea, .cm-panel")) return;
    const modes: Record<string, Mode> = { "1": "pass", "2": "diff", "3": "stages" };
    const mode = modes[event.key];
    if (mode !== undefined && (mode === "stages" || this.rows.length > 0)) this.setMode(mode);
    else if ("[]{}".includes(event.key)) this.step(event.key);
    else if (event.key === "n") this.goToChange(true);
    else if (event.key === "p") this.goToChange(false);
    else if (event.key === "m" || event.key === "M") this.goToNote(event.key === "m");
    else if (event.key === "," || event.key === ".") this.goToLit(event.key === ".");
    else if (event.key === "w") this.toggleWrap();
    else if (event.key === "/") this.find();
    else if (event.key === "?") this.toggleHelp();
    else return;
    event.preventDefault();
  }
}

/** Arrow keys go from one choice of a group to the next, as they do among radio buttons. */
function arrowToRadio(event: KeyboardEvent, group: HTMLElement): void {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  const radios = [...group.children] as HTMLElement[];
  const at = radios.indexOf(event.currentTarget as HTMLElement);
  const next = radios[(at + by + radios.length) % radios.length]!;
  next.click();
  next.focus();
  event.preventDefault();
}

function costWords(pass: PassData): string {
  if (pass.effect === "failed") return "failed";
  const size = pass.ops_after > 0 ? ` · ${pass.ops_after.toLocaleString("en")} operations ${changeWords(pass)}` : "";
  return `${milliseconds(pass.seconds)} ms${size}`;
}

/** "TTGIR", or "the module after ttgir.pipeline". */
function placeWords(shown: Shown): string {
  return /^(?:after|before) /.test(shown.label) ? `the module ${shown.label}` : shown.label;
}

function columnWords(what: string): string {
  if (what === "after") return "after the pass";
  if (what === "before") return "before the pass";
  const stage = what.slice("stage:".length);
  return STAGE_WORDS[stage] ?? stage;
}

function lineWords(text: Text): string {
  if (text.text === "") return "empty";
  const lines = text.lines.length;
  return lines === 1 ? "1 line" : `${lines.toLocaleString("en")} lines`;
}

/** A note's text, in which `words` between backquotes are code. */
function prose(note: string): Node[] {
  return note.split("`").map((part, at) => (at % 2 === 1 ? element("code", {}, part) : document.createTextNode(part)));
}

/** What failed, and below it the line of the kernel with a caret under the place. */
function failureBox(failure: string): HTMLElement {
  const [words, ...place] = failure.split("\n");
  const excerpt = place.length > 0 ? [element("pre", { class: "kl-excerpt" }, place.join("\n"))] : [];
  return element("div", { class: "kl-failure", role: "alert" }, words!, ...excerpt);
}
