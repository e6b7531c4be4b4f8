// The pairs that the scheduler considered: fused, or why not, and the bytes that it saves or would save.
import type { FusionRow, GraphChain } from "./data";
import { choice, element } from "./dom";

/** Rows that are drawn: of more, those that save most. */
const MOST = 300;

const KINDS = {
  all: "Pairs that share data",
  apart: "Not fused",
  fused: "Fused",
  unrelated: "Pairs without shared data",
  chosen: "Of what is chosen",
} as const;
type Kind = keyof typeof KINDS;

export class Fusions {
  readonly dom = element("div", { class: "kl-fusions" });
  private kind: Kind = "all";
  private chain: GraphChain | null = null;
  private lit: ReadonlySet<number> = new Set();

  constructor(private readonly onchoose: (elements: readonly number[]) => void) {}

  show(chain: GraphChain): void {
    this.chain = chain;
    this.draw();
  }

  /** Buffers that are lit. */
  light(lit: readonly number[]): void {
    this.lit = new Set(lit);
    if (!this.dom.hidden) this.draw();
  }

  draw(): void {
    const all = this.chain?.fusions ?? [];
    const rows = all.filter((row) => this.isWanted(row));
    const kinds = Object.entries(KINDS).map(([value, words]) => ({ value, words }));
    const select = choice("Which pairs", kinds, this.kind, (value) => {
      this.kind = value as Kind;
      this.draw();
    });
    const fused = all.filter((row) => row.fused).length;
    const more =
      rows.length > MOST ? `, ${MOST} of them shown: report.graphs[...].fusions has all` : "";
    const head = element(
      "div",
      { class: "kl-fusions-head" },
      select,
      element(
        "span",
        { class: "kl-soft" },
        `${rows.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} pairs (${fused.toLocaleString("en")} fused)${more}`,
      ),
    );
    const names = ["Pair", "Bytes", "", "Because"];
    const table = element(
      "table",
      { class: "kl-table" },
      element(
        "thead",
        {},
        element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))),
      ),
      element("tbody", {}, ...rows.slice(0, MOST).map((row) => this.row(row))),
    );
    this.dom.replaceChildren(head, element("div", { class: "kl-fusions-rows" }, table));
  }

  private isWanted(row: FusionRow): boolean {
    if (this.kind === "chosen") return this.touches(row);
    const unrelated = !row.fused && row.saved_bytes === 0;
    if (unrelated || this.kind === "unrelated") return unrelated && this.kind === "unrelated";
    return this.kind === "all" || row.fused === (this.kind === "fused");
  }

  private touches(row: FusionRow): boolean {
    return row.elements.some((one) => this.lit.has(one));
  }

  private row(row: FusionRow): HTMLElement {
    const choose = (): void => this.onchoose(row.elements);
    return element(
      "tr",
      {
        tabindex: "0",
        "aria-selected": this.touches(row) ? "true" : "false",
        onclick: choose,
        onkeydown: (event) => void ((event as KeyboardEvent).key === "Enter" && choose()),
      },
      element("td", { class: "kl-words-cell" }, element("code", {}, row.pair)),
      element(
        "td",
        {
          title: row.fused ? "of memory traffic saved" : "of memory traffic that fusing would save",
        },
        row.saved_bytes.toLocaleString("en"),
      ),
      element(
        "td",
        { class: row.fused ? "kl-is-fused" : "kl-is-apart" },
        row.fused ? "✓ fused" : "✗ apart",
      ),
      element("td", { class: "kl-words-cell", title: row.reason }, row.reason),
    );
  }
}
