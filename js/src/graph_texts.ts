// The texts beside the graph: panes that each show one, in which what is chosen anywhere is lit.
import type { GraphChain, GraphView } from "./data";
import { button, choice, element } from "./dom";
import { Lines, type Lit } from "./graph_links";
import type { Text } from "./side";
import type { Margin, TextPane } from "./text_pane";

/** What the bundle of all views lends to the one that draws graphs. */
export interface Kit {
  Text: typeof Text;
  TextPane: typeof TextPane;
  anyVisible: typeof import("./text_pane").anyVisible;
  lightLines: typeof import("./text_pane").lightLines;
  noBars: Margin["bars"];
}

export interface TextsListener {
  /** A line was chosen: elements of a level, none where nothing is known of it. */
  choose(pane: number, level: number, elements: readonly number[], line: number): void;
  /** A pane shows another text. */
  drawn(): void;
}

/** What a pane shows: the text of a level by its name, and its number among those; "drawn/0" follows the graph. */
type Shown = `${string}/${number}`;

interface Pane {
  dom: HTMLElement;
  head: HTMLElement;
  box: HTMLElement;
  count: HTMLElement;
  editor: TextPane;
  shown: Shown;
  /** Number of the text; -1 before there is one. */
  text: number;
}

const FOLLOWS: Shown = "drawn/0";
const FIRST: readonly Shown[] = ["source/0", FOLLOWS];
const NEXT: readonly Shown[] = ["aten/0", "lines/0", "fx/0", "bytecode/0"];
const MOST = 4;
/** The text that is read with a level that is drawn, where that is another level's. */
const READ_WITH: Readonly<Record<string, string>> = { launches: "lines", fusions: "loops" };

export class Texts {
  readonly dom = element("div", { class: "kl-graph-texts" });
  private panes: Pane[] = [];
  private readonly texts: readonly Text[];
  private readonly lines = new Map<number, Lines>();
  private drawn = "";
  private chain: GraphChain;

  constructor(
    private readonly data: GraphView,
    private readonly kit: Kit,
    part: (number: number) => Promise<string>,
    private readonly root: Document | ShadowRoot,
    private readonly listener: TextsListener,
  ) {
    this.texts = data.texts.map(
      ({ text }, number) => new kit.Text(String(number), text, null, () => part(text.part)),
    );
    this.chain = data.chains[0] ?? {
      name: "",
      remark: "",
      levels: data.levels.map((_, number) => number),
      fusions: [],
    };
  }

  /** The texts of a graph, with the level that is drawn beside them. */
  show(chain: GraphChain, drawn: string): void {
    this.chain = chain;
    this.drawn = drawn;
    if (this.panes.length === 0) for (const shown of FIRST) this.add(shown);
    for (const pane of this.panes) this.fill(pane);
  }

  resize(by: number): void {
    if (by < 0 && this.panes.length > 1) this.remove(this.panes.length - 1);
    if (by > 0 && this.panes.length < MOST) {
      const shown =
        NEXT.find(
          (one) =>
            this.number(one) >= 0 && !this.panes.some((pane) => pane.text === this.number(one)),
        ) ?? FOLLOWS;
      this.fill(this.add(shown));
    }
  }

  find(): void {
    (
      this.panes.find(({ editor }) => editor.view.hasFocus) ?? this.panes[this.panes.length - 1]
    )?.editor.find();
  }

  goToLit(forward: boolean): void {
    for (const { editor } of this.panes) editor.goToLit(forward);
  }

  clear(): void {
    for (const { editor } of this.panes) editor.destroy();
  }

  /** Light what belongs to lit elements; panes but the one that it was chosen in scroll there, a source's after turning to its file. */
  light(lit: Lit, from: number, line: number): void {
    for (const pane of this.panes.filter((_, place) => place !== from)) this.turn(pane, lit);
    const lights = this.panes.map((pane, place) => {
      const text = this.data.texts[pane.text];
      const lines = text === undefined ? [] : this.linesOf(pane.text).of(lit.get(text.level) ?? []);
      const view = pane.editor.view;
      return {
        pane,
        view,
        lines,
        own: place === from ? line : 0,
        overflows: view.contentHeight > view.scrollDOM.clientHeight,
        scroll: place !== from && !this.kit.anyVisible(view, lines),
      };
    });
    for (const { pane, view, lines, own, overflows, scroll } of lights) {
      this.kit.lightLines(view, lines, own, scroll);
      pane.editor.mark(lines, overflows);
      pane.count.textContent = lines.length === 0 ? "" : `${lines.length.toLocaleString("en")} lit`;
    }
  }

  /** Where a pane shows a source that has nothing of what is lit, show the one that has. */
  private turn(pane: Pane, lit: Lit): void {
    if (!pane.shown.startsWith("source/")) return;
    const has = (text: number): boolean =>
      this.linesOf(text).of(lit.get(this.data.texts[text]!.level) ?? []).length > 0;
    const sources = this.all().filter(({ shown }) => shown.startsWith("source/"));
    const other = sources.find(({ number }) => has(number));
    if (other === undefined || has(pane.text)) return;
    pane.shown = other.shown;
    this.fill(pane);
  }

  private linesOf(text: number): Lines {
    let found = this.lines.get(text);
    if (found === undefined)
      this.lines.set(text, (found = new Lines(this.data.texts[text]!.spans)));
    return found;
  }

  // Panes

  private add(shown: Shown): Pane {
    const head = element("div", { class: "kl-pane-head" });
    const box = element("div", { class: "kl-text" });
    const dom = element("div", { class: "kl-pane" }, head, box);
    const count = element("span", { class: "kl-soft", role: "status" });
    const pane: Pane = {
      dom,
      head,
      box,
      count,
      shown,
      text: -1,
      editor: new this.kit.TextPane(box, this.root, (line) => this.chose(pane, line)),
    };
    this.panes.push(pane);
    this.dom.append(dom);
    return pane;
  }

  private remove(place: number): void {
    const [pane] = this.panes.splice(place, 1);
    pane?.editor.destroy();
    pane?.dom.remove();
  }

  private chose(pane: Pane, line: number): void {
    const text = this.data.texts[pane.text];
    if (text === undefined) return;
    this.listener.choose(
      this.panes.indexOf(pane),
      text.level,
      this.linesOf(pane.text).at(line),
      line,
    );
  }

  /** The texts of this graph, each as a pane names it. */
  private all(): { shown: Shown; number: number; words: string }[] {
    const found: { shown: Shown; number: number; words: string }[] = [];
    const seen = new Map<string, number>();
    for (const level of this.chain.levels) {
      const { name, words } = this.data.levels[level]!;
      this.data.texts.forEach((text, number) => {
        if (text.level !== level) return;
        const place = seen.get(name) ?? 0;
        seen.set(name, place + 1);
        found.push({
          shown: `${name}/${place}`,
          number,
          words: text.words ? `${words}: ${text.words}` : words,
        });
      });
    }
    return found;
  }

  private number(shown: Shown): number {
    const wanted = shown === FOLLOWS ? `${READ_WITH[this.drawn] ?? this.drawn}/0` : shown;
    return this.all().find((one) => one.shown === wanted)?.number ?? -1;
  }

  private fill(pane: Pane): void {
    const all = this.all();
    const options = [
      { value: FOLLOWS as string, words: "as drawn" },
      ...all.map(({ shown, words }) => ({ value: shown as string, words })),
    ];
    const select = choice("Text of this pane", options, pane.shown, (value) => {
      pane.shown = value as Shown;
      this.fill(pane);
    });
    const number = this.number(pane.shown);
    const followed =
      pane.shown === FOLLOWS ? (all.find((one) => one.number === number)?.words ?? "") : "";
    pane.head.replaceChildren(
      select,
      element("span", { class: "kl-soft" }, followed),
      element("span", { class: "kl-space" }),
      pane.count,
      button("‹", "The lit lines before", () => pane.editor.goToLit(false)),
      button("›", "The next lit lines", () => pane.editor.goToLit(true)),
    );
    const text = this.texts[number];
    if (pane.text === number && number >= 0) return;
    pane.text = number;
    if (text === undefined)
      return this.write(
        pane,
        new this.kit.Text(
          "none",
          { language: "", content: "", part: 0, line_count: 1, skipped: [] },
          "There is no such text of this graph.",
          () => Promise.resolve(""),
        ),
        "no text",
      );
    const label = this.data.levels[this.data.texts[number]!.level]!.words;
    if (text.isHere) return this.write(pane, text, label);
    void text.load().then(() => pane.text === number && this.write(pane, text, label));
  }

  private write(pane: Pane, text: Text, label: string): void {
    pane.editor.show(
      text,
      label,
      { notes: [], bars: this.kit.noBars, controls: new Map(), layoutWords: () => "" },
      false,
    );
    // A source opens at the first line of the model.
    const first = Math.min(...this.linesOf(pane.text).firsts());
    if (pane.shown.startsWith("source/") && first < Infinity)
      this.kit.lightLines(pane.editor.view, [first], 0, true);
    this.listener.drawn();
  }
}
