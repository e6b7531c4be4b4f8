// torch.compile's levels: a drawn graph, the pairs that were fused or not, and texts, linked by provenance.
import type { GraphChain, GraphView } from "./data";
import { button, choice, element, onKeys, toolbar } from "./dom";
import { radios, turnOn } from "./parts/toolbar";
import { GraphCanvas } from "./graph_canvas";
import { Fusions } from "./graph_fusions";
import { type Chosen, endWords, Links, type Lit } from "./graph_links";
import { overlaysOf } from "./graph_overlays";
import { type Kit, Texts } from "./graph_texts";
import { Tree } from "./graph_tree";
import { followWidth } from "./narrow";
import type { At, Beside, Seen } from "./tabs";
import { splitter } from "./splitter";

const FUSIONS = "fusions";
/** What is drawn first, where there is such a level. */
const DRAWN_FIRST = ["aten", "fx"];
/** Kernels that get a button each. */
const MOST_LINKS = 3;

export class GraphExplorer implements Seen {
  private readonly links: Links;
  private readonly trees = new Map<number, Tree>();
  private chain: GraphChain;
  private drawn = "";
  private chosen: Chosen | null = null;
  private lit: Lit = new Map();
  /** The pane that it was chosen in, and its line there; -1 for the graph. */
  private from = { pane: -1, line: 0 };
  /** The kernel whose IR was opened last. */
  private opened = "";
  private readonly canvas: GraphCanvas;
  private readonly fusions: Fusions;
  private readonly texts: Texts;
  private readonly tools = toolbar("View");
  private readonly search = element("input", {
    type: "search",
    class: "kl-input",
    placeholder: "Find a node (/)",
    "aria-label": "Find a node by its name, operation, shape or module",
    oninput: () => this.find(0),
    onkeydown: (event) => {
      const { key, shiftKey } = event as KeyboardEvent;
      if (key === "Enter") this.find(shiftKey ? -1 : 1);
    },
  });
  /** Which of the nodes that match was found last. */
  private match = 0;
  private readonly remark = element("div", { class: "kl-graph-remark kl-soft" });
  private readonly picture = element("div", { class: "kl-graph-picture" });
  private readonly status = element("div", { class: "kl-status kl-graph-status" });
  private readonly words = element("div", { role: "status", "aria-live": "polite" });
  private readonly ways = element("div", { class: "kl-graph-ways" });
  private readonly width: ResizeObserver;

  constructor(
    private readonly dom: HTMLElement,
    private readonly data: GraphView,
    kit: Kit,
    part: (number: number) => Promise<string>,
    private readonly beside: Beside,
    root: Document | ShadowRoot,
  ) {
    this.links = new Links(data);
    this.chain = data.chains[0] ?? {
      name: "",
      remark: "",
      levels: data.levels.map((_, number) => number),
      fusions: [],
    };
    this.canvas = new GraphCanvas(dom, {
      choose: (elements) => this.choose(this.levelNumber(this.drawn), elements, -1, 0),
      refused: ({ row }) => {
        this.choose(this.levelNumber("loops"), row.elements, -1, 0);
        this.say(
          `Not fused, which would save ${row.saved_bytes.toLocaleString("en")} bytes of memory traffic: ${row.pair}\n${row.reason}`,
        );
      },
    });
    this.fusions = new Fusions((elements) =>
      this.choose(this.levelNumber("loops"), elements, -1, 0),
    );
    this.texts = new Texts(data, kit, part, root, {
      choose: (pane, level, elements, line) => this.choose(level, elements, pane, line),
      drawn: () => this.texts.light(this.lit, this.from.pane, this.from.line),
    });
    this.width = followWidth(dom);
    this.build();
    this.showChain(this.chain);
    onKeys(dom, (event) => this.key(event));
  }

  destroy(): void {
    this.width.disconnect();
    this.canvas.destroy();
    this.texts.clear();
  }

  /** A line, from the IR of the kernel that was opened last, is that line of the kernel. */
  turnTo({ line, graph, level, node }: At): boolean {
    const chain = this.data.chains.find(({ name }) => name === graph);
    if (chain !== undefined && chain !== this.chain) this.showChain(chain);
    if (typeof level === "string" && this.drawable().some(({ name }) => name === level))
      this.draw(level);
    if (typeof level === "string" && typeof node === "string") {
      const number = this.levelNumber(level);
      const found = this.data.levels[number]?.names.indexOf(node) ?? -1;
      if (found >= 0) this.choose(number, [found], -1, 0);
    }
    if (typeof line === "number" && this.opened !== "") {
      const number = this.levelNumber("lines");
      const { tab_ids = [], places = [] } = this.data.levels[number] ?? {};
      const found = [...places.keys()].filter(
        (one) => places[one] === line && tab_ids[one] === this.opened,
      );
      if (found.length > 0) this.choose(number, found, -1, 0);
    }
    return true;
  }

  here(): At {
    return {};
  }

  private build(): void {
    const { title, subtitle, notes } = this.data;
    const troubles = notes.filter((note) => / stopped: |^It stopped: /.test(note));
    this.status.append(this.words, this.ways);
    this.picture.append(this.remark, this.canvas.dom, this.fusions.dom);
    this.dom.append(
      element(
        "div",
        { class: "kl-head" },
        element("b", {}, title),
        element("span", { class: "kl-soft" }, subtitle),
        element("span", { class: "kl-space" }),
        this.search,
      ),
      ...troubles.map((note) => element("div", { class: "kl-failure" }, note)),
      this.tools,
      element(
        "div",
        { class: "kl-main kl-graph-main" },
        this.picture,
        splitter("Width of the graph"),
        this.texts.dom,
      ),
      this.status,
    );
    this.say(
      "Choose a node, a line or a pair: everything that belongs to it is lit, up to the model and down to the kernels. A double click opens or closes a group. An edge is as wide as the bytes that go along it; nodes of one color are one kernel; ✗ is a pair that was not fused.",
    );
  }

  // What is drawn

  private levelNumber(name: string): number {
    return this.chain.levels.find((number) => this.data.levels[number]!.name === name) ?? -1;
  }

  private drawable(): { name: string; words: string; number: number }[] {
    const levels = this.chain.levels.flatMap((number) => {
      const { name, words, is_drawn } = this.data.levels[number]!;
      return is_drawn ? [{ name, words, number }] : [];
    });
    return levels.length === 0 ? [] : [...levels, { name: FUSIONS, words: "Fusions", number: -1 }];
  }

  private showChain(chain: GraphChain): void {
    this.chain = chain;
    this.chosen = null;
    this.lit = new Map();
    this.fusions.show(chain);
    const names = this.drawable()
      .filter(({ number }) => (this.data.levels[number]?.names.length ?? 0) > 0)
      .map(({ name }) => name);
    const first =
      [this.drawn, ...DRAWN_FIRST].find((name) => names.includes(name)) ?? names[0] ?? "";
    this.draw(first);
    this.relight(false);
  }

  private draw(name: string): void {
    this.drawn = name;
    const number = this.levelNumber(name);
    const level = this.data.levels[number];
    const isTable = name === FUSIONS;
    this.fusions.dom.hidden = !isTable;
    this.canvas.dom.hidden = isTable || level === undefined;
    if (isTable) this.fusions.draw();
    else if (level !== undefined)
      this.canvas.show(
        this.tree(number),
        `${level.words} of ${this.chain.name}: ${level.names.length} nodes`,
        overlaysOf(this.data, this.chain, number, this.links),
      );
    const nothing =
      level !== undefined && level.names.length === 0 && level.remark === ""
        ? "There is nothing at this level."
        : "";
    const remarks = [
      this.data.chains.length === 0 ? "Nothing was captured." : "",
      this.chain.remark,
      level?.remark ?? "",
      nothing,
    ];
    this.remark.textContent = remarks.filter((words) => words !== "").join(" ");
    this.remark.hidden = this.remark.textContent === "";
    this.texts.show(this.chain, name);
    this.drawTools();
    this.relight(true);
  }

  private tree(number: number): Tree {
    let found = this.trees.get(number);
    if (found === undefined) this.trees.set(number, (found = new Tree(this.data.levels[number]!)));
    return found;
  }

  private drawTools(): void {
    const { chains } = this.data;
    const graphs = choice(
      "Graph",
      chains.map(({ name }, place) => ({ value: String(place), words: name })),
      String(chains.indexOf(this.chain)),
      (value) => this.showChain(chains[Number(value)]!),
    );
    const modes = this.drawable().map(({ name, words, number }) => {
      const count = (this.lit.get(number) ?? []).length;
      const title = name === FUSIONS ? "The pairs that the scheduler considered" : `Draw ${words}`;
      return { value: name, words, title, count };
    });
    const drawn = radios("What is drawn", modes, (name) => this.draw(name));
    turnOn(drawn, this.drawn);
    modes.forEach(({ count }, at) => {
      if (count > 0)
        drawn.children[at]!.append(element("span", { class: "kl-graph-count" }, String(count)));
    });
    this.tools.replaceChildren(
      ...(chains.length > 1 ? [graphs] : []),
      drawn,
      element("span", { class: "kl-space" }),
      element(
        "span",
        { class: "kl-group" },
        "Texts",
        button("−", "One text less", () => this.texts.resize(-1)),
        button("+", "One more text", () => this.texts.resize(1)),
      ),
    );
  }

  // What is chosen

  private choose(level: number, elements: readonly number[], pane: number, line: number): void {
    if (level < 0) return;
    if (elements.length === 0) {
      if (pane >= 0) this.say("Torch says nothing of what this line belongs to.");
      else this.clear();
      return;
    }
    const start = performance.now();
    this.chosen = { level, elements };
    this.from = { pane, line };
    this.lit = this.links.lit(this.chain, this.chosen);
    this.relight(pane >= 0 || level !== this.levelNumber(this.drawn));
    this.drawTools();
    this.say(this.chosenWords());
    this.dom.dataset["clicked"] = (performance.now() - start).toFixed(1);
  }

  /** Choose the next node that matches the search: of the drawn level, or else of the first level that has one. */
  private find(step: number): void {
    const wanted = this.search.value.trim().toLowerCase();
    if (wanted === "") return this.clear();
    const drawn = { name: this.drawn, number: this.levelNumber(this.drawn) };
    for (const { name, number } of [drawn, ...this.drawable()]) {
      const level = this.data.levels[number];
      if (level === undefined) continue;
      const found = [...level.names.keys()].filter((one) => {
        const module = level.all_groups[level.groups[one]!]?.name;
        const words = [level.names[one], level.labels[one], level.facts[one], module];
        return words.join("\n").toLowerCase().includes(wanted);
      });
      if (found.length === 0) continue;
      this.match = step === 0 ? 0 : (this.match + step + found.length) % found.length;
      if (name !== this.drawn) this.draw(name);
      this.choose(number, [found[this.match]!], -1, 0);
      this.canvas.turnTo(found[this.match]!);
      return this.say(`${this.match + 1} of ${found.length} found. ${this.chosenWords()}`);
    }
    this.clear();
    this.say(`No node has ${JSON.stringify(wanted)} in its name, operation, shape or module.`);
  }

  private clear(): void {
    this.chosen = null;
    this.lit = new Map();
    this.relight(false);
    this.drawTools();
    this.say("");
  }

  private relight(reveal: boolean): void {
    const drawn = this.levelNumber(this.drawn);
    const own = this.chosen !== null && this.chosen.level === drawn ? this.chosen.elements : [];
    this.canvas.light(this.lit.get(drawn) ?? [], own, reveal);
    this.fusions.light(this.lit.get(this.levelNumber("loops")) ?? []);
    this.texts.light(this.lit, this.from.pane, this.from.line);
    this.drawWays();
  }

  private say(words: string): void {
    this.words.textContent = words;
  }

  private chosenWords(): string {
    const { level, elements } = this.chosen!;
    const { words, names, labels, facts } = this.data.levels[level]!;
    const [first] = elements;
    const one = [`${words}: ${names[first!]!}`, labels[first!], facts[first!]]
      .filter((part) => part)
      .join(" · ");
    const what =
      elements.length === 1 ? one : `${words}: ${elements.length.toLocaleString("en")} together`;
    const others = this.chain.levels.flatMap((number) => {
      const count = this.lit.get(number)?.length ?? 0;
      if (number === level || count === 0) return [];
      const found = this.data.levels[number]!;
      return [
        count === 1 && found.name !== "lines"
          ? `${found.words} ${found.names[this.lit.get(number)![0]!]!}`
          : `${found.words} ${count.toLocaleString("en")}`,
      ];
    });
    const end = endWords(this.data, this.chain, this.chosen!, this.lit);
    return [what, others.join(" · "), end].filter((part) => part !== "").join("\n");
  }

  /** The ways to the IR of the kernels that are lit. */
  private drawWays(): void {
    const number = this.levelNumber("launches");
    const { tab_ids = [], names = [] } = this.data.levels[number] ?? {};
    const found = new Map(
      (this.lit.get(number) ?? []).flatMap((one) =>
        tab_ids[one] ? [[tab_ids[one]!, names[one]!] as const] : [],
      ),
    );
    const there = [...found].filter(([tabId]) => this.beside.has(tabId));
    const ways: Node[] = there
      .slice(0, MOST_LINKS)
      .map(([tabId, name]) => button(`IR of ${name}`, this.wayTitle, () => this.openIr(tabId)));
    if (there.length > MOST_LINKS) {
      const options = [
        { value: "", words: `${there.length - MOST_LINKS} more kernels` },
        ...there.slice(MOST_LINKS).map(([tabId, name]) => ({ value: tabId, words: name })),
      ];
      ways.push(
        choice("Further kernels", options, "", (tabId) => tabId !== "" && this.openIr(tabId)),
      );
    }
    const [missing] = [...found.keys()].filter((tabId) => !this.beside.has(tabId));
    if (there.length === 0 && missing !== undefined)
      ways.push(
        element(
          "span",
          { class: "kl-soft" },
          `This page does not hold the kernel's IR: report.explore().to_html("page.html", tab_ids=["${missing}"]) writes one that does.`,
        ),
      );
    this.ways.replaceChildren(...ways);
    this.ways.hidden = ways.length === 0;
  }

  private get wayTitle(): string {
    return this.beside.isLive
      ? "Compile the kernel in the notebook's process, which executes its module, and open every pass down to SASS"
      : "Every pass of the kernel, down to SASS";
  }

  private openIr(tabId: string): void {
    this.opened = tabId;
    const number = this.levelNumber("lines");
    const { tab_ids = [], places = [] } = this.data.levels[number] ?? {};
    const isLine = this.chosen?.level === number;
    const one = isLine
      ? this.chosen!.elements.find((element) => tab_ids[element] === tabId)
      : undefined;
    this.beside.open(tabId, one === undefined ? {} : { line: places[one]! });
  }

  private key(event: KeyboardEvent): boolean {
    const drawable = this.drawable();
    const mode = /^[1-9]$/.test(event.key) ? drawable[Number(event.key) - 1] : undefined;
    if (mode !== undefined) this.draw(mode.name);
    else if (event.key === "," || event.key === ".") this.texts.goToLit(event.key === ".");
    else if (event.key === "/" && this.texts.dom.contains(event.target as Node)) this.texts.find();
    else if (event.key === "/") this.search.focus();
    else if (event.key === "Escape" && this.chosen !== null) this.clear();
    else return false;
    return true;
  }
}
