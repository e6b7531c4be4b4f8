// The layout view: a tile's elements, and the threads or the memory that hold them; hover leads from either to the other.
import type { LayoutView, TileData } from "./data";
import { choice, element, onKeys, statusLine, toolbar } from "./dom";
import { onTheme } from "./theme";
import { colorings, firstColoring, legendEntry, scaleLegend, scaleOf } from "./layout_colors";
import { TileLayout, MOVES, type Move, moves } from "./layout_math";
import { LayoutPanel, type Picture } from "./layout_panel";
import { BLIND_SAFE } from "./palette";
import type { At, Seen } from "./tabs";

const MOVE_WORDS: Record<Move, string> = {
  stays: "stays where it is",
  register: "goes to another register of its thread",
  lane: "goes to another lane of its warp (a shuffle)",
  warp: "goes to another warp (through shared memory)",
  block: "goes to another block",
};

/** Elements of a row, of a tile of one dimension. */
const ROW = 32;
/** Pixels of width from which on two pictures are side by side. */
const SIDE_BY_SIDE = 700;

/** What was pointed at: an element, and the one holder of a layout that is meant; null for all. */
interface Pointed {
  side: number;
  one: number;
  from: number | null;
}

export class LayoutExplorer implements Seen {
  private readonly tiles: readonly TileData[];
  private left: number;
  private right: number | null;
  private colorBy = "";
  private picture: Picture = "logical";
  private plane = 0;
  private bytes: number;
  private panels: LayoutPanel[] = [];
  private layouts: TileLayout[] = [];
  private moved: Move[] | null = null;
  private pointed: Pointed | null = null;
  private readonly tools = toolbar("View");
  private readonly words = element("div", { class: "kl-layout-words" });
  private readonly lead = element("div", { class: "kl-card-note kl-card-lead" });
  private readonly stage = element("div", { class: "kl-panels" });
  private readonly legend = element("div", { class: "kl-legend" });
  private readonly status = statusLine();
  private readonly watcher: ResizeObserver;
  private width = 0;

  constructor(
    dom: HTMLElement,
    private readonly data: LayoutView,
  ) {
    this.tiles = data.tiles;
    this.left = data.left;
    this.right = data.right;
    this.bytes = this.bytesOf(this.left);
    dom.append(
      element(
        "div",
        { class: "kl-head" },
        element("b", {}, data.title),
        ...(data.conversion ? [element("span", { class: "kl-soft" }, data.conversion)] : []),
      ),
      this.lead,
      this.tools,
      element("div", { class: "kl-layout-body" }, this.legend, this.stage, this.words),
      this.status,
    );
    this.reset();
    this.watcher = new ResizeObserver(() => {
      if (Math.abs(this.stage.clientWidth - this.width) > 8) this.draw();
    });
    this.watcher.observe(this.stage);
    onTheme(dom, () => this.draw());
    onKeys(dom, () => false);
  }

  destroy(): void {
    this.watcher.disconnect();
  }

  turnTo({ tile }: At): boolean {
    const found =
      typeof tile === "string"
        ? this.tiles.findIndex(({ name }) => name === tile || name.startsWith(`${tile},`))
        : -1;
    if (found >= 0 && found !== this.left) this.choose(found);
    return true;
  }

  // What is shown

  /** Look at another tile, alone. */
  private choose(tile: number): void {
    this.left = tile;
    this.right = null;
    this.plane = 0;
    this.bytes = this.bytesOf(tile);
    this.pointed = null;
    this.reset();
  }

  /** Read the chosen tiles anew, and choose colors that they have. */
  private reset(): void {
    const chosen = [this.left, ...(this.right === null ? [] : [this.right])]
      .map((number) => this.tiles[number])
      .filter((tile) => tile !== undefined);
    this.layouts = chosen.map(
      (tile) =>
        new TileLayout(tile, tile.element_bits ? Math.max(1, tile.element_bits / 8) : this.bytes),
    );
    const [first, second] = this.layouts;
    const comparable =
      first !== undefined &&
      second !== undefined &&
      first.data.memory === "registers" &&
      second.data.memory === "registers" &&
      String(first.data.shape) === String(second.data.shape);
    this.moved = comparable ? moves(first, second) : null;
    this.plane = Math.min(this.plane, this.planes - 1);
    if (!this.colorings().includes(this.colorBy)) {
      const chosen = firstColoring(this.layouts, this.data.colors);
      this.colorBy = this.moved && this.data.colors === "" ? "what moves" : chosen;
    }
    this.drawTools();
    this.draw();
  }

  /** Bytes of a tile's element; 2 where no one says. */
  private bytesOf(tile: number): number {
    return Math.max(1, (this.tiles[tile]?.element_bits || 16) / 8);
  }

  private colorings(): string[] {
    return [...(this.moved ? ["what moves"] : []), ...colorings(this.layouts)];
  }

  private drawTools(): void {
    const tile = (number: number): string => this.tiles[number]!.name;
    const all = this.tiles.map((_, number) => ({ value: String(number), words: tile(number) }));
    const shape = String(this.tiles[this.left]?.shape);
    const others = all.filter(({ value }) => String(this.tiles[Number(value)]!.shape) === shape);
    const parts: Node[] = [];
    if (this.tiles.length > 1) {
      parts.push(choice("Tile", all, String(this.left), (value) => this.choose(Number(value))));
      parts.push(
        choice(
          "Compared with",
          [
            { value: "", words: "alone" },
            ...others.map((one) => ({ ...one, words: `to ${one.words}` })),
          ],
          this.right === null ? "" : String(this.right),
          (value) => {
            this.right = value === "" ? null : Number(value);
            this.colorBy = "";
            this.pointed = null;
            this.reset();
          },
        ),
      );
    }
    parts.push(
      choice(
        "Colors",
        this.colorings().map((name) => ({ value: name, words: `colors: ${name}` })),
        this.colorBy,
        (value) => {
          this.colorBy = value;
          this.draw();
        },
      ),
    );
    if (this.layouts.length > 1) {
      parts.push(
        choice(
          "Picture",
          [
            { value: "logical", words: "elements of the tile" },
            { value: "hardware", words: "threads and memory" },
          ],
          this.picture,
          (value) => {
            this.picture = value as Picture;
            this.draw();
          },
        ),
      );
    }
    if (this.planes > 1) {
      const planes = Array.from({ length: this.planes }, (_, number) => ({
        value: String(number),
        words: `slice ${this.planeIndex(number)}`,
      }));
      parts.push(
        choice("Slice", planes, String(this.plane), (value) => {
          this.plane = Number(value);
          this.draw();
        }),
      );
    }
    if (this.layouts.some(({ data }) => data.memory === "shared memory" && !data.element_bits)) {
      parts.push(
        choice(
          "Bytes of an element",
          [1, 2, 4, 8].map((size) => ({ value: String(size), words: `${size}-byte elements` })),
          String(this.bytes),
          (value) => {
            this.bytes = Number(value);
            this.reset();
          },
        ),
      );
    }
    this.tools.replaceChildren(...parts);
  }

  private get shape(): readonly number[] {
    return this.layouts[0]?.data.shape ?? [];
  }

  /** Columns of the picture; a tile of one dimension is laid out in rows of 32. */
  private get columns(): number {
    const last = this.shape[this.shape.length - 1] ?? 1;
    return this.shape.length === 1 ? Math.min(last, ROW) : last;
  }

  private get rows(): number {
    return this.shape.length === 1
      ? this.shape[0]! / this.columns
      : (this.shape[this.shape.length - 2] ?? 1);
  }

  private get planes(): number {
    return this.shape.slice(0, -2).reduce((product, size) => product * size, 1);
  }

  private planeIndex(plane: number): string {
    const index = this.layouts[0]!.index(plane * this.rows * this.columns).slice(0, -2);
    return `[${[...index, ":", ":"].join(", ")}]`;
  }

  // Drawing

  private draw(): void {
    this.width = this.stage.clientWidth;
    const pictures: [number, Picture][] =
      this.layouts.length === 1
        ? [
            [0, "logical"],
            [0, "hardware"],
          ]
        : this.layouts.map((_, side) => [side, this.picture]);
    this.panels = pictures.map(([side, picture]) => this.panel(side, picture));
    this.stage.replaceChildren(...this.panels.map(({ dom }) => dom));
    for (const panel of this.panels) panel.draw();
    this.drawLegend();
    this.sayPointed();
    const [first, ...others] = this.layouts.map(({ data }) => data.words.split("\n"));
    // What the layout is, and who holds what.
    this.lead.textContent = others.length > 0 ? "" : first!.slice(0, 2).join(" ");
    this.words.replaceChildren(
      ...this.layouts.map(({ data }) =>
        element(
          "div",
          {},
          element("b", {}, data.name),
          element("code", {}, data.encoding),
          element(
            "span",
            { class: "kl-name-words" },
            others.length > 0 ? data.words : first!.slice(2).join("\n"),
          ),
        ),
      ),
    );
  }

  private panel(side: number, picture: Picture): LayoutPanel {
    const layout = this.layouts[side]!;
    const space = Math.max(200, this.width < SIDE_BY_SIDE ? this.width - 38 : this.width / 2 - 40);
    const heading = this.layouts.length > 1 ? `${layout.data.name}: ` : "";
    const title = `${heading}${picture === "logical" ? "elements of the tile" : hardwareWords(layout)}`;
    const slice = {
      first: this.plane * this.rows * this.columns,
      rows: this.rows,
      columns: this.columns,
    };
    return new LayoutPanel(layout, picture, side, slice, title, space, this.colorer(layout, side), {
      pointed: (panel, x, y) => this.point(panel, x, y),
    });
  }

  private colorer(layout: TileLayout, side: number): (number: number) => string {
    const by = this.colorBy;
    if (by === "what moves") {
      const moved = this.moved!;
      const [, second] = this.layouts as [TileLayout, TileLayout];
      if (side === 1) return (number) => MOVE_COLORS[moved[number]!];
      // Where an element starts out, by the farthest way that one of its copies goes.
      const farthest = new Map<number, Move>();
      second.elements.forEach((one, number) => {
        const known = farthest.get(one);
        if (known === undefined || MOVES.indexOf(moved[number]!) > MOVES.indexOf(known))
          farthest.set(one, moved[number]!);
      });
      return (number) => MOVE_COLORS[farthest.get(layout.elements[number]!)!];
    }
    return scaleOf(layout, side, by, this.columns).color;
  }

  private drawLegend(): void {
    if (this.colorBy === "what moves") {
      const counts = new Map<Move, number>();
      for (const move of this.moved!) counts.set(move, (counts.get(move) ?? 0) + 1);
      this.legend.replaceChildren(
        ...MOVES.filter((move) => counts.has(move)).map((move) =>
          legendEntry(
            MOVE_COLORS[move],
            `${counts.get(move)!.toLocaleString("en")} × ${MOVE_WORDS[move]}`,
          ),
        ),
      );
      return;
    }
    const scales = this.layouts.map((layout, side) =>
      scaleOf(layout, side, this.colorBy, this.columns),
    );
    this.legend.replaceChildren(...scaleLegend(this.layouts, scales));
  }

  // Pointing at a cell

  /** A cell was pointed at: outline what it represents in every picture, and say it. */
  private point(panel: LayoutPanel, x: number, y: number): void {
    const { layout } = panel;
    let one: number;
    let from: number | null = null;
    if (panel.picture === "logical")
      one = this.plane * this.rows * this.columns + y * this.columns + x;
    else {
      from = layout.at({ x, y });
      if (from === null) {
        this.pointed = null;
        for (const other of this.panels) other.clearMarks();
        this.status.textContent = "space that is left free";
        return;
      }
      one = layout.elements[from]!;
    }
    this.pointed = { side: panel.side, one, from };
    this.sayPointed();
    for (const other of this.panels) if (other !== panel) other.reveal();
  }

  /** Outline what was pointed at in every picture, and say it; the same element of a layout stays pointed at when it is drawn anew. */
  private sayPointed(): void {
    const { pointed } = this;
    if (pointed === null) {
      this.status.textContent = "";
      return;
    }
    for (const panel of this.panels)
      panel.mark(pointed.one, panel.side === pointed.side ? pointed.from : null);
    this.status.textContent = this.cellWords(
      this.layouts[pointed.side]!,
      pointed.one,
      pointed.from,
    );
  }

  private cellWords(layout: TileLayout, one: number, from: number | null): string {
    const plane = Math.floor(one / (this.rows * this.columns));
    const elsewhere = plane === this.plane ? "" : `, in slice ${this.planeIndex(plane)}`;
    const index = `element (${layout.index(one).join(", ")})${elsewhere}`;
    const places = from === null ? [...layout.holders(one)] : [from];
    const words = places.slice(0, 8).map((number) => this.placeWords(layout, number));
    const more = places.length > 8 ? `; and ${places.length - 8} more` : "";
    if (from === null) return `${index}: ${words.join("; ")}${more}`;
    const copies = layout.replication > 1 ? `, one of its ${layout.replication} holders` : "";
    return `${words[0]}: ${index}${copies}`;
  }

  private placeWords(layout: TileLayout, number: number): string {
    if (layout.data.memory === "shared memory") {
      const block = layout.size("block") > 1 ? `, block ${layout.part(number, "block")}` : "";
      const offset = layout.offset(number);
      return `offset ${offset} in elements (byte ${offset * layout.elementBytes}), bank ${layout.bank(number)}${block}`;
    }
    if (layout.data.memory === "tensor memory")
      return `row ${layout.part(number, "row")}, column ${layout.part(number, "column")}`;
    const block = layout.size("block") > 1 ? `block ${layout.part(number, "block")}, ` : "";
    return `${block}warp ${layout.part(number, "warp")}, lane ${layout.part(number, "lane")}, register ${layout.part(number, "register")} (thread T${layout.thread(number)})`;
  }
}

/** What the picture of the hardware shows; where threads are side by side, how to read its columns. */
function hardwareWords(layout: TileLayout): string {
  const folded =
    layout.data.memory === "registers" && layout.fold > 1
      ? `, ${layout.fold} threads a row: +1 is the one after the row's first`
      : "";
  return `${HARDWARE_WORDS[layout.data.memory]}${folded}`;
}

const HARDWARE_WORDS: Record<TileData["memory"], string> = {
  registers: "registers of each thread",
  "shared memory": "shared memory, 128 bytes a row, by bank",
  "tensor memory": "tensor memory",
};

const MOVE_COLORS: Record<Move, string> = {
  stays: BLIND_SAFE[2]!,
  register: BLIND_SAFE[4]!,
  lane: BLIND_SAFE[1]!,
  warp: BLIND_SAFE[5]!,
  block: BLIND_SAFE[6]!,
};
