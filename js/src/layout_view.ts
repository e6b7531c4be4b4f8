// The layout view: a tile's elements, and the threads or the memory that hold them; hover leads from either to the other.
import type { LayoutView, TileData } from "./data";
import { choice, element } from "./dom";
import { TileLayout, MOVES, type Move, moves, type Place, type Run, runs } from "./layout_math";
import { BLIND_SAFE, inkOn, sequential } from "./palette";

type Picture = "logical" | "hardware";

interface Panel {
  layout: TileLayout;
  picture: Picture;
  side: number;
  columns: number;
  rows: number;
  cell: number;
  left: number;
  top: number;
  below: HTMLCanvasElement;
  above: HTMLCanvasElement;
}

const MOVE_WORDS: Record<Move, string> = {
  stays: "stays where it is",
  register: "goes to another register of its thread",
  lane: "goes to another lane of its warp (a shuffle)",
  warp: "goes to another warp (through shared memory)",
  block: "goes to another block",
};

/** Elements of a row, of a tile of one dimension. */
const ROW = 32;
const LARGEST_CELL = 38;
const LABELLED_CELL = 24;

export class LayoutExplorer {
  private readonly tiles: readonly TileData[];
  private left: number;
  private right: number | null;
  private colourBy = "";
  private picture: Picture = "logical";
  private plane = 0;
  private bytes: number;
  private panels: Panel[] = [];
  private layouts: TileLayout[] = [];
  private moved: Move[] | null = null;
  private readonly tools = element("div", { class: "kl-tools", role: "toolbar", "aria-label": "View" });
  private readonly words = element("div", { class: "kl-layout-words" });
  private readonly stage = element("div", { class: "kl-panels" });
  private readonly legend = element("div", { class: "kl-legend" });
  private readonly status = element("div", { class: "kl-status", role: "status", "aria-live": "polite" });
  private readonly watcher: ResizeObserver;
  private width = 0;

  constructor(dom: HTMLElement, data: LayoutView) {
    this.tiles = data.tiles;
    this.left = data.left;
    this.right = data.right;
    this.bytes = Math.max(1, (this.tiles[this.left]?.element_bits || 16) / 8);
    dom.append(
      element("div", { class: "kl-head" }, element("b", {}, data.title), ...(data.conversion ? [element("span", { class: "kl-soft" }, data.conversion)] : [])),
      this.tools,
      element("div", { class: "kl-layout-body" }, this.legend, this.stage, this.words),
      this.status,
    );
    this.reset();
    this.watcher = new ResizeObserver(() => {
      if (Math.abs(this.stage.clientWidth - this.width) > 8) this.draw();
    });
    this.watcher.observe(this.stage);
    const theme = new MutationObserver(() => this.draw());
    theme.observe(dom, { attributes: true, attributeFilter: ["data-theme"] });
    dom.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
  }

  destroy(): void {
    this.watcher.disconnect();
  }

  // What is shown

  /** Read the chosen tiles anew, and choose colours that they have. */
  private reset(): void {
    const chosen = [this.left, ...(this.right === null ? [] : [this.right])].map((number) => this.tiles[number]).filter((tile) => tile !== undefined);
    this.layouts = chosen.map((tile) => new TileLayout(tile, this.bytes));
    const [first, second] = this.layouts;
    const comparable = first !== undefined && second !== undefined && first.data.memory === "registers" && second.data.memory === "registers" && String(first.data.shape) === String(second.data.shape);
    this.moved = comparable ? moves(first, second) : null;
    this.plane = 0;
    const offered = this.colourings();
    if (!offered.includes(this.colourBy)) {
      // Of threads the first kind that there are several of: warps, else lanes.
      const several = first?.data.memory === "registers" ? offered.find((name) => first.size(name) > 1) : undefined;
      this.colourBy = this.moved ? "what moves" : several ?? offered[0] ?? "";
    }
    this.drawTools();
    this.draw();
  }

  private colourings(): string[] {
    const first = this.layouts[0];
    if (first === undefined) return [];
    const moved = this.moved ? ["what moves"] : [];
    if (first.data.memory === "registers") return [...moved, "warp", "lane", "register", "block"];
    if (first.data.memory === "tensor memory") return ["row", "column"];
    return ["bank", "offset", "row of the tile"];
  }

  private drawTools(): void {
    const tile = (number: number): string => this.tiles[number]!.name;
    const all = this.tiles.map((_, number) => ({ value: String(number), words: tile(number) }));
    const shape = String(this.tiles[this.left]?.shape);
    const others = all.filter(({ value }) => String(this.tiles[Number(value)]!.shape) === shape && this.tiles[Number(value)]!.memory === this.tiles[this.left]!.memory);
    const parts: Node[] = [];
    if (this.tiles.length > 1) {
      parts.push(choice("Tile", all, String(this.left), (value) => {
        this.left = Number(value);
        this.right = null;
        this.bytes = Math.max(1, (this.tiles[this.left]?.element_bits || 16) / 8);
        this.reset();
      }));
      parts.push(choice("Compared with", [{ value: "", words: "alone" }, ...others.map((one) => ({ ...one, words: `to ${one.words}` }))], this.right === null ? "" : String(this.right), (value) => {
        this.right = value === "" ? null : Number(value);
        this.colourBy = "";
        this.reset();
      }));
    }
    parts.push(choice("Colours", this.colourings().map((name) => ({ value: name, words: `colours: ${name}` })), this.colourBy, (value) => {
      this.colourBy = value;
      this.draw();
    }));
    if (this.layouts.length > 1) {
      parts.push(choice("Picture", [{ value: "logical", words: "elements of the tile" }, { value: "hardware", words: "threads and memory" }], this.picture, (value) => {
        this.picture = value as Picture;
        this.draw();
      }));
    }
    if (this.planes > 1) {
      const planes = Array.from({ length: this.planes }, (_, number) => ({ value: String(number), words: `slice ${this.planeIndex(number)}` }));
      parts.push(choice("Slice", planes, String(this.plane), (value) => {
        this.plane = Number(value);
        this.draw();
      }));
    }
    if (this.layouts[0]?.data.memory === "shared memory" && !this.layouts[0].data.element_bits) {
      parts.push(choice("Bytes of an element", [1, 2, 4, 8].map((size) => ({ value: String(size), words: `${size}-byte elements` })), String(this.bytes), (value) => {
        this.bytes = Number(value);
        this.reset();
      }));
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
    return this.shape.length === 1 ? this.shape[0]! / this.columns : this.shape[this.shape.length - 2] ?? 1;
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
      this.layouts.length === 1 ? [[0, "logical"], [0, "hardware"]] : this.layouts.map((_, side) => [side, this.picture]);
    this.stage.replaceChildren();
    this.panels = pictures.map(([side, picture]) => this.panel(side, picture));
    for (const panel of this.panels) this.paint(panel);
    this.drawLegend();
    this.words.replaceChildren(...this.layouts.map(({ data }) =>
      element("div", {}, element("b", {}, data.name), element("code", {}, data.encoding), element("span", { class: "kl-name-words" }, data.words))));
  }

  private panel(side: number, picture: Picture): Panel {
    const layout = this.layouts[side]!;
    const size = picture === "logical" ? { x: this.columns, y: this.rows } : layout.hardwareSize;
    const width = Math.max(200, this.width / 2 - 24);
    const left = 34;
    const top = 18;
    const cell = Math.max(2, Math.min(LARGEST_CELL, Math.floor((width - left) / size.x)));
    const heading = this.layouts.length > 1 ? `${layout.data.name}: ` : "";
    const what = picture === "logical" ? "elements of the tile" : HARDWARE_WORDS[layout.data.memory];
    const box = element("div", { class: "kl-grid-box" });
    const canvases = [0, 1].map(() => element("canvas", {}));
    const [below, above] = canvases as [HTMLCanvasElement, HTMLCanvasElement];
    const scale = window.devicePixelRatio || 1;
    for (const canvas of canvases) {
      canvas.width = (left + size.x * cell + 1) * scale;
      canvas.height = (top + size.y * cell + 1) * scale;
      canvas.style.width = `${left + size.x * cell + 1}px`;
      canvas.style.height = `${top + size.y * cell + 1}px`;
      canvas.getContext("2d")!.scale(scale, scale);
    }
    const panel: Panel = { layout, picture, side, columns: size.x, rows: size.y, cell, left, top, below, above };
    above.tabIndex = 0;
    above.setAttribute("role", "application");
    above.setAttribute("aria-label", `${heading}${what}, ${size.y} by ${size.x}. Arrow keys go from cell to cell.`);
    this.listen(panel);
    box.append(below, above);
    this.stage.append(element("div", { class: "kl-panel" }, element("div", { class: "kl-panel-title" }, `${heading}${what}`), box));
    return panel;
  }

  private paint(panel: Panel): void {
    const context = panel.below.getContext("2d")!;
    const style = getComputedStyle(this.stage);
    const colour = this.colourer(panel);
    context.font = `10px ${style.fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    this.paintRulers(panel, context, style.getPropertyValue("--kl-soft"));
    const gap = panel.cell >= 6 ? 1 : 0;
    const { first, count } = this.cells(panel);
    for (let at = 0; at < count; at++) {
      const number = panel.picture === "logical" ? panel.layout.holders(first + at)[0]! : at;
      const { x, y } = panel.picture === "logical" ? { x: at % panel.columns, y: Math.floor(at / panel.columns) } : panel.layout.place(at);
      context.fillStyle = colour(number);
      context.fillRect(panel.left + x * panel.cell, panel.top + y * panel.cell, panel.cell - gap, panel.cell - gap);
    }
    if (panel.cell >= LABELLED_CELL) this.paintLabels(panel, context, colour);
  }

  /** The cells of a picture: elements of the slice from the first on, or all inputs. */
  private cells(panel: Panel): { first: number; count: number } {
    if (panel.picture === "hardware") return { first: 0, count: panel.layout.elements.length };
    return { first: this.plane * this.rows * this.columns, count: this.rows * this.columns };
  }

  private paintRulers(panel: Panel, context: CanvasRenderingContext2D, ink: string): void {
    context.fillStyle = ink;
    const every = (cells: number, room: number): number => {
      let step = 1;
      while (step * panel.cell < room && step < cells) step *= 2;
      return step;
    };
    for (let x = 0; x < panel.columns; x += every(panel.columns, 26)) {
      context.fillText(this.columnName(panel, x), panel.left + (x + 0.5) * panel.cell, panel.top / 2);
    }
    for (let y = 0; y < panel.rows; y += every(panel.rows, 12)) {
      context.fillText(this.rowName(panel, y), panel.left / 2, panel.top + (y + 0.5) * panel.cell);
    }
  }

  private columnName(panel: Panel, x: number): string {
    if (panel.picture === "hardware" && panel.layout.data.memory === "registers") {
      const registers = panel.layout.size("register");
      return panel.layout.fold > 1 && registers === 1 ? `+${x}` : `r${x % registers}`;
    }
    if (panel.picture === "hardware" && panel.layout.data.memory === "shared memory") return `b${Math.floor((x * panel.layout.elementBytes) / 4)}`;
    return String(x);
  }

  private rowName(panel: Panel, y: number): string {
    if (panel.picture === "hardware" && panel.layout.data.memory === "registers") return `T${y * panel.layout.fold}`;
    return String(panel.picture === "logical" && this.shape.length === 1 ? y * this.columns : y);
  }

  private paintLabels(panel: Panel, context: CanvasRenderingContext2D, colour: (number: number) => string): void {
    const centre = (x: number, y: number, wide = 1): [number, number] => [panel.left + (x + wide / 2) * panel.cell - 0.5, panel.top + (y + 0.5) * panel.cell - 0.5];
    if (panel.picture === "hardware") {
      panel.layout.elements.forEach((one, number) => {
        const { x, y } = panel.layout.place(number);
        context.fillStyle = inkOn(colour(number));
        context.fillText(panel.layout.index(one).join(","), ...centre(x, y));
      });
      return;
    }
    const { first } = this.cells(panel);
    if (panel.layout.data.memory !== "registers") {
      for (let at = 0; at < panel.rows * panel.columns; at++) {
        const number = panel.layout.holders(first + at)[0]!;
        context.fillStyle = inkOn(colour(number));
        const label = panel.layout.data.memory === "shared memory" ? panel.layout.offset(number) : `${panel.layout.part(number, "row")}:${panel.layout.part(number, "column")}`;
        context.fillText(String(label), ...centre(at % panel.columns, Math.floor(at / panel.columns)));
      }
      return;
    }
    for (const run of runs(panel.layout, first, panel.rows, panel.columns)) {
      const number = panel.layout.holders(first + run.row * panel.columns + run.column)[0]!;
      this.joinRun(panel, context, run, colour);
      context.fillStyle = inkOn(colour(number));
      this.paintRun(panel, context, run.thread, run.register, run.length, centre(run.column, run.row, run.length));
    }
  }

  /** Cells of a run that have one colour become one box. */
  private joinRun(panel: Panel, context: CanvasRenderingContext2D, run: Run, colour: (number: number) => string): void {
    const { first } = this.cells(panel);
    const holder = (at: number): number => panel.layout.holders(first + run.row * panel.columns + run.column + at)[0]!;
    const fill = colour(holder(0));
    for (let at = 1; at < run.length; at++) if (colour(holder(at)) !== fill) return;
    context.fillStyle = fill;
    context.fillRect(panel.left + run.column * panel.cell, panel.top + run.row * panel.cell, run.length * panel.cell - 1, panel.cell - 1);
  }

  /** One thread's neighbours, as the PTX manual writes them: T0:{c0,c1}; where that is too wide, thread and registers below each other. */
  private paintRun(panel: Panel, context: CanvasRenderingContext2D, thread: number, register: number, length: number, at: [number, number]): void {
    const letter = panel.layout.data.fragment || "r";
    const names = length === 1 ? `${letter}${register}` : length === 2 ? `{${letter}${register},${letter}${register + 1}}` : `{${letter}${register}..${letter}${register + length - 1}}`;
    const whole = `T${thread}:${names}`;
    const room = length * panel.cell - 3;
    if (context.measureText(whole).width <= room) context.fillText(whole, ...at);
    else {
      context.fillText(`T${thread}`, at[0], at[1] - 6, room);
      context.fillText(names, at[0], at[1] + 6, room);
    }
  }

  private colourer(panel: Panel): (number: number) => string {
    const { layout } = panel;
    const by = this.colourBy;
    if (by === "what moves") {
      const moved = this.moved!;
      const [, second] = this.layouts as [TileLayout, TileLayout];
      if (panel.side === 1) return (number) => MOVE_COLOURS[moved[number]!];
      // Where an element starts out, by the farthest way that one of its copies goes.
      const farthest = new Map<number, Move>();
      second.elements.forEach((one, number) => {
        const known = farthest.get(one);
        if (known === undefined || MOVES.indexOf(moved[number]!) > MOVES.indexOf(known)) farthest.set(one, moved[number]!);
      });
      return (number) => MOVE_COLOURS[farthest.get(layout.elements[number]!)!];
    }
    const value =
      by === "bank" ? (number: number) => layout.bank(number)
      : by === "offset" ? (number: number) => layout.offset(number)
      : by === "row of the tile" ? (number: number) => Math.floor(layout.elements[number]! / this.columns)
      : (number: number) => layout.part(number, by);
    const most = by === "bank" ? 32 : by === "offset" ? layout.offset(layout.size("offset") - 1) + 1 : by === "row of the tile" ? this.rows * this.planes : layout.size(by);
    const colours = most <= BLIND_SAFE.length ? BLIND_SAFE : Array.from({ length: Math.min(most, 256) }, (_, at) => sequential(at / (Math.min(most, 256) - 1)));
    return (number) => colours[most <= colours.length ? value(number) : Math.floor((value(number) * colours.length) / most)]!;
  }

  private drawLegend(): void {
    const first = this.layouts[0];
    this.legend.replaceChildren();
    if (first === undefined) return;
    const entry = (colour: string, words: string): void => this.legend.append(element("span", {}, element("i", { style: `background: ${colour}` }), words));
    if (this.colourBy === "what moves") {
      const counts = new Map<Move, number>();
      for (const move of this.moved!) counts.set(move, (counts.get(move) ?? 0) + 1);
      for (const move of MOVES) if (counts.has(move)) entry(MOVE_COLOURS[move], `${counts.get(move)!.toLocaleString("en")} × ${MOVE_WORDS[move]}`);
      return;
    }
    const size = this.colourBy === "bank" ? 32 : first.size(this.colourBy);
    if (size <= BLIND_SAFE.length) for (let at = 0; at < size; at++) entry(BLIND_SAFE[at]!, `${this.colourBy} ${at}`);
    else {
      const most = this.colourBy === "offset" ? first.offset(first.size("offset") - 1) : this.colourBy === "row of the tile" ? this.rows * this.planes - 1 : size - 1;
      entry(`linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(sequential).join(", ")}); width: 120px`, `${this.colourBy} 0 to ${most}`);
    }
  }

  // Pointing at a cell

  private listen(panel: Panel): void {
    const at: Place = { x: -1, y: -1 };
    const go = (x: number, y: number): void => {
      if ((x === at.x && y === at.y) || x < 0 || y < 0 || x >= panel.columns || y >= panel.rows) return;
      [at.x, at.y] = [x, y];
      this.point(panel, x, y);
    };
    panel.above.addEventListener("pointermove", (event) => {
      go(Math.floor((event.offsetX - panel.left) / panel.cell), Math.floor((event.offsetY - panel.top) / panel.cell));
    });
    panel.above.addEventListener("keydown", (event) => {
      const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const step = steps[event.key];
      if (step === undefined) return;
      event.preventDefault();
      go(Math.max(0, at.x) + (at.x < 0 ? 0 : step[0]), Math.max(0, at.y) + (at.y < 0 ? 0 : step[1]));
    });
  }

  /** A cell was pointed at: outline what it stands for in every picture, and say it. */
  private point(panel: Panel, x: number, y: number): void {
    const { layout } = panel;
    let one: number;
    let from: number | null = null;
    if (panel.picture === "logical") one = this.plane * this.rows * this.columns + y * this.columns + x;
    else {
      from = layout.at({ x, y });
      if (from === null) {
        this.clearMarks();
        this.status.textContent = "room that padding leaves free";
        return;
      }
      one = layout.elements[from]!;
    }
    for (const other of this.panels) this.mark(other, one, other.layout === layout ? from : null);
    this.status.textContent = this.cellWords(layout, one, from);
  }

  private clearMarks(): void {
    for (const { above } of this.panels) above.getContext("2d")!.clearRect(0, 0, above.width, above.height);
  }

  /** Outline an element, and thinly all that its thread holds. */
  private mark(panel: Panel, one: number, from: number | null): void {
    const context = panel.above.getContext("2d")!;
    context.clearRect(0, 0, panel.above.width, panel.above.height);
    const { layout } = panel;
    const holders = from === null ? [...layout.holders(one)] : [from];
    const style = getComputedStyle(this.stage);
    const box = (x: number, y: number, width: number, ink: string): void => {
      context.lineWidth = width;
      context.strokeStyle = ink;
      context.strokeRect(panel.left + x * panel.cell - 0.5, panel.top + y * panel.cell - 0.5, panel.cell, panel.cell);
    };
    if (layout.data.memory === "registers") {
      for (const thread of new Set(holders.map((holder) => layout.thread(holder)))) {
        for (let register = 0; register < layout.size("register"); register++) this.boxOf(panel, thread * layout.size("register") + register, (x, y) => box(x, y, 1.5, style.getPropertyValue("--kl-mark")));
      }
    }
    for (const holder of panel.picture === "logical" ? holders.slice(0, 1) : holders) {
      this.boxOf(panel, holder, (x, y) => {
        box(x, y, 4, style.getPropertyValue("--kl-paper"));
        box(x, y, 2.5, style.getPropertyValue("--kl-ink"));
      });
    }
  }

  private boxOf(panel: Panel, number: number, draw: (x: number, y: number) => void): void {
    if (panel.picture === "hardware") {
      const { x, y } = panel.layout.place(number);
      draw(x, y);
      return;
    }
    const at = panel.layout.elements[number]! - this.plane * this.rows * this.columns;
    if (at >= 0 && at < this.rows * this.columns) draw(at % this.columns, Math.floor(at / this.columns));
  }

  private cellWords(layout: TileLayout, one: number, from: number | null): string {
    const index = `element (${layout.index(one).join(", ")})`;
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
      return `offset ${layout.offset(number)}, bank ${layout.bank(number)}${block}`;
    }
    if (layout.data.memory === "tensor memory") return `row ${layout.part(number, "row")}, column ${layout.part(number, "column")}`;
    const block = layout.size("block") > 1 ? `block ${layout.part(number, "block")}, ` : "";
    return `${block}warp ${layout.part(number, "warp")}, lane ${layout.part(number, "lane")}, register ${layout.part(number, "register")} (thread T${layout.thread(number)})`;
  }
}

const HARDWARE_WORDS: Record<TileData["memory"], string> = {
  registers: "registers of each thread",
  "shared memory": "shared memory, 128 bytes a row, by bank",
  "tensor memory": "tensor memory",
};

const MOVE_COLOURS: Record<Move, string> = {
  stays: BLIND_SAFE[2]!, register: BLIND_SAFE[4]!, lane: BLIND_SAFE[1]!, warp: BLIND_SAFE[5]!, block: BLIND_SAFE[6]!,
};
