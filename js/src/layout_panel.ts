// One picture of the layout view: the elements of a tile, or the threads or the memory that hold them.
//
// Only what is in sight is painted, so a picture may be larger than any canvas.
import { element } from "./dom";
import { type Place, type Run, runs, type TileLayout } from "./layout_math";
import { inkOn } from "./palette";

export type Picture = "logical" | "hardware";

/** The part of a tile that is shown: a plane of it, or all of a tile with up to two dimensions. */
export interface Slice {
  /** The number of its first element. */
  first: number;
  rows: number;
  columns: number;
}

export interface PanelListener {
  /** A cell was pointed at, by pointer or keys. */
  pointed(panel: LayoutPanel, x: number, y: number): void;
}

/** A label in one line, and in two for where that is too wide. */
type Words = readonly [string, string, string];

const LEFT = 38;
const TOP = 18;
/** Pixels of a cell. */
const CELL = { smallest: 2, largest: 38, labeled: 24, framed: 6, strip: 64 };
/** Pixels of a picture's height; what is higher is scrolled. */
const HEIGHT = 440;
const SCROLLBAR = 16;

export class LayoutPanel {
  readonly dom: HTMLElement;
  private readonly box = element("div", { class: "kl-grid-box" });
  private readonly below = element("canvas", {});
  private readonly above = element("canvas", { tabindex: "0", role: "application" });
  private readonly columns: number;
  private readonly rows: number;
  private readonly cell: number;
  private readonly view: Place;
  private readonly at: Place = { x: -1, y: -1 };
  /** How far the picture was scrolled when it was painted. */
  private scrolled: Place = { x: 0, y: 0 };
  private marked: { one: number; from: number | null } | null = null;
  private frame = 0;

  constructor(
    readonly layout: TileLayout,
    readonly picture: Picture,
    readonly side: number,
    private readonly slice: Slice,
    title: string,
    space: number,
    private readonly color: (number: number) => string,
    private readonly listener: PanelListener,
  ) {
    const size = picture === "logical" ? { x: slice.columns, y: slice.rows } : layout.hardwareSize;
    [this.columns, this.rows] = [size.x, size.y];
    // Few rows are given a height to be seen, and scroll sideways.
    const seen = Math.min(CELL.strip / size.y, CELL.framed * 2);
    const [wide, tall] = [(space - LEFT) / size.x, (HEIGHT - TOP - 1) / size.y];
    // Where labels do not fit, all rows are shown if they can be.
    const most =
      wide < CELL.labeled
        ? Math.max(CELL.framed, tall)
        : Math.min(CELL.largest, Math.max(CELL.labeled, tall));
    this.cell = Math.floor(Math.max(CELL.smallest, seen, Math.min(wide, most)));
    const whole = { x: LEFT + size.x * this.cell + 1, y: TOP + size.y * this.cell + 1 };
    this.view = { x: Math.min(whole.x, Math.floor(space)), y: Math.min(whole.y, HEIGHT) };
    const scale = window.devicePixelRatio || 1;
    for (const canvas of [this.below, this.above]) {
      canvas.width = this.view.x * scale;
      canvas.height = this.view.y * scale;
      canvas.style.width = `${this.view.x}px`;
      canvas.style.height = `${this.view.y}px`;
      canvas.getContext("2d")!.scale(scale, scale);
    }
    this.above.setAttribute(
      "aria-label",
      `${title}, ${size.y} by ${size.x}. Arrow keys go from cell to cell, Home, End, Page Up and Page Down farther.`,
    );
    const shown = element(
      "div",
      { class: "kl-grid-seen", style: `width: ${this.view.x}px; height: ${this.view.y}px` },
      this.below,
      this.above,
    );
    // Browsers stop at some ten million pixels: of what is larger the last rows are reached by keys alone.
    this.box.append(
      element(
        "div",
        { style: `width: ${whole.x}px; height: ${Math.min(whole.y, 10_000_000)}px` },
        shown,
      ),
    );
    this.box.style.maxHeight = `${HEIGHT + SCROLLBAR}px`;
    this.box.style.maxWidth = `${this.view.x + SCROLLBAR}px`;
    this.dom = element(
      "div",
      { class: "kl-panel" },
      element("div", { class: "kl-panel-title" }, title),
      this.box,
    );
    this.listen();
  }

  // Painting

  /** Paint what is in sight. */
  draw(): void {
    const context = this.below.getContext("2d")!;
    const style = getComputedStyle(this.dom);
    context.clearRect(0, 0, this.view.x, this.view.y);
    context.font = `10px ${style.fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    this.scrolled = { x: this.box.scrollLeft, y: this.box.scrollTop };
    const seen = this.seen();
    this.paintRulers(context, style.getPropertyValue("--kl-soft"), seen);
    this.within(context, () => {
      for (let y = seen.top; y < seen.bottom; y++) this.paintRow(context, y, seen.left, seen.right);
      if (this.cell >= CELL.labeled) this.paintLabels(context, seen);
    });
    this.drawMarks();
  }

  /** Cells that are in sight, in part at least. */
  private seen(): { left: number; right: number; top: number; bottom: number } {
    const { x, y } = this.scrolled;
    return {
      left: Math.floor(x / this.cell),
      right: Math.min(this.columns, Math.ceil((x + this.view.x - LEFT) / this.cell)),
      top: Math.floor(y / this.cell),
      bottom: Math.min(this.rows, Math.ceil((y + this.view.y - TOP) / this.cell)),
    };
  }

  private x(column: number): number {
    return LEFT + column * this.cell - this.scrolled.x;
  }

  private y(row: number): number {
    return TOP + row * this.cell - this.scrolled.y;
  }

  /** Paint beside the rulers alone. */
  private within(context: CanvasRenderingContext2D, paint: () => void): void {
    context.save();
    context.beginPath();
    context.rect(LEFT - 2, TOP - 2, this.view.x, this.view.y);
    context.clip();
    paint();
    context.restore();
  }

  /** What a cell represents: the first holder of an element, or an input; null for space that padding leaves free. */
  private numberAt(x: number, y: number): number | null {
    return this.picture === "logical"
      ? this.layout.holders(this.elementAt(x, y))[0]!
      : this.layout.at({ x, y });
  }

  private elementAt(x: number, y: number): number {
    return this.slice.first + y * this.columns + x;
  }

  /** The colors of all that hold an element: more than one where it is replicated. */
  private colorsAt(x: number, y: number, number: number): string[] {
    if (this.picture === "hardware" || this.layout.replication === 1) return [this.color(number)];
    return [...new Set([...this.layout.holders(this.elementAt(x, y))].map(this.color))].slice(0, 8);
  }

  private paintRow(
    context: CanvasRenderingContext2D,
    y: number,
    left: number,
    right: number,
  ): void {
    const isFramed = this.cell >= CELL.framed;
    const isPlain = this.picture === "hardware" || this.layout.replication === 1;
    let [from, color] = [left, ""];
    // Cells without a gap between them are painted together as long as their color is the same.
    const flush = (to: number): void => {
      if (color === "" || to === from) return;
      context.fillStyle = color;
      context.fillRect(
        this.x(from),
        this.y(y),
        (to - from) * this.cell - (isFramed ? 1 : 0),
        this.cell - (isFramed ? 1 : 0),
      );
    };
    for (let x = left; x < right; x++) {
      const number = this.numberAt(x, y);
      const next = number === null ? "" : isPlain ? this.color(number) : null;
      if (next === null) this.paintBands(context, x, y, number!);
      if (!isFramed && next === color) continue;
      flush(x);
      [from, color] = [x, next ?? ""];
    }
    flush(right);
  }

  private paintBands(
    context: CanvasRenderingContext2D,
    x: number,
    y: number,
    number: number,
  ): void {
    const side = this.cell - (this.cell >= CELL.framed ? 1 : 0);
    const colors = this.colorsAt(x, y, number);
    const part = side / colors.length;
    colors.forEach((color, at) => {
      context.fillStyle = color;
      context.fillRect(this.x(x) + at * part, this.y(y), part, side);
    });
  }

  private paintRulers(
    context: CanvasRenderingContext2D,
    ink: string,
    seen: ReturnType<LayoutPanel["seen"]>,
  ): void {
    context.fillStyle = ink;
    const every = (cells: number, space: number): number => {
      let step = 1;
      while (step * this.cell < space && step < cells) step *= 2;
      return step;
    };
    const space =
      this.picture === "hardware" && this.layout.data.memory === "registers" && this.layout.fold > 1
        ? 36
        : 26;
    const [across, down] = [every(this.columns, space), every(this.rows, 12)];
    const next = (from: number, step: number): number => Math.ceil(from / step) * step;
    for (let x = next(seen.left, across); x < seen.right; x += across) {
      const middle = this.x(x + 0.5);
      if (middle >= LEFT) context.fillText(this.columnName(x), middle, TOP / 2);
    }
    for (let y = next(seen.top, down); y < seen.bottom; y += down) {
      const middle = this.y(y + 0.5);
      if (middle >= TOP) context.fillText(this.rowName(y), LEFT / 2, middle, LEFT - 2);
    }
  }

  private columnName(x: number): string {
    const { layout, picture } = this;
    if (picture === "hardware" && layout.data.memory === "registers") {
      const registers = layout.size("register");
      if (layout.fold === 1) return `r${x}`;
      return registers === 1 ? `+${x}` : `+${Math.floor(x / registers)}:r${x % registers}`;
    }
    if (picture === "hardware" && layout.data.memory === "shared memory")
      return `b${Math.floor((x * layout.elementBytes) / 4)}`;
    return String(x);
  }

  private rowName(y: number): string {
    if (this.picture === "hardware" && this.layout.data.memory === "registers")
      return `T${y * this.layout.fold}`;
    return String(
      this.picture === "logical" && this.layout.data.shape.length === 1 ? y * this.columns : y,
    );
  }

  // Labels

  private paintLabels(
    context: CanvasRenderingContext2D,
    seen: ReturnType<LayoutPanel["seen"]>,
  ): void {
    if (this.picture === "logical" && this.layout.data.memory === "registers") {
      const lines = runs(
        this.layout,
        this.slice.first + seen.top * this.columns,
        seen.bottom - seen.top,
        this.columns,
      );
      for (const run of lines) this.paintRun(context, { ...run, row: run.row + seen.top });
      return;
    }
    for (let y = seen.top; y < seen.bottom; y++) {
      for (let x = seen.left; x < seen.right; x++) {
        const number = this.numberAt(x, y);
        if (number !== null)
          this.paintText(context, this.labelOf(number), x, y, 1, [this.color(number)]);
      }
    }
  }

  /** What a cell says. */
  private labelOf(number: number): Words {
    const { layout } = this;
    if (this.picture === "hardware") {
      const index = layout.index(layout.elements[number]!);
      return [
        index.join(","),
        index
          .slice(0, -2)
          .map((one) => `${one},`)
          .join(""),
        index.slice(-2).join(","),
      ];
    }
    const label =
      layout.data.memory === "shared memory"
        ? String(layout.offset(number))
        : `${layout.part(number, "row")}:${layout.part(number, "column")}`;
    return [label, "", label];
  }

  /** One thread's neighbors, by cells side by side that have the same colors: they become one box. */
  private paintRun(context: CanvasRenderingContext2D, run: Run): void {
    const colors = Array.from({ length: run.length }, (_, at) =>
      this.colorsAt(run.column + at, run.row, this.numberAt(run.column + at, run.row)!),
    );
    for (let first = 0, next = 0; first < run.length; first = next) {
      while (next < run.length && String(colors[next]) === String(colors[first])) next++;
      this.paintPart(
        context,
        {
          ...run,
          column: run.column + first,
          register: run.register + first,
          length: next - first,
        },
        colors[first]!,
      );
    }
  }

  /** A run, as the PTX manual writes it: T0:{c0,c1}; of a replicated element also how many hold it. */
  private paintPart(
    context: CanvasRenderingContext2D,
    { row, column, length, thread, register }: Run,
    colors: readonly string[],
  ): void {
    if (colors.length === 1) {
      context.fillStyle = colors[0]!;
      context.fillRect(this.x(column), this.y(row), length * this.cell - 1, this.cell - 1);
    }
    const letter = this.layout.data.fragment || "r";
    const names =
      length === 1
        ? `${letter}${register}`
        : length === 2
          ? `{${letter}${register},${letter}${register + 1}}`
          : `{${letter}${register}..${letter}${register + length - 1}}`;
    const copies = this.layout.replication > 1 ? ` ×${this.layout.replication}` : "";
    // Between several colors there is space for one line.
    const short = `T${thread}${copies}`;
    const words: Words =
      colors.length > 1 && length === 1
        ? [short, "", short]
        : [`T${thread}:${names}${copies}`, `T${thread}`, `${names}${copies}`];
    this.paintText(context, words, column, row, length, colors);
  }

  private paintText(
    context: CanvasRenderingContext2D,
    [whole, first, second]: Words,
    x: number,
    y: number,
    length: number,
    colors: readonly string[],
  ): void {
    const [across, down] = [this.x(x + length / 2) - 0.5, this.y(y + 0.5) - 0.5];
    const space = length * this.cell - 3;
    const isWide = first !== "" && context.measureText(whole).width > space;
    if (colors.length > 1) {
      // Above several colors ink is read on a separate plate.
      context.fillStyle = "rgba(255, 255, 255, 0.85)";
      const height = isWide ? 24 : 12;
      context.fillRect(across - space / 2, down - height / 2, space, height);
    }
    context.fillStyle = colors.length > 1 ? "#000000" : inkOn(colors[0]!);
    if (!isWide) context.fillText(whole, across, down, space);
    else {
      context.fillText(first, across, down - 6, space);
      context.fillText(second, across, down + 6, space);
    }
  }

  // Marks

  /** Outline an element, and thinly all that its thread holds, in white on black: one of the two is seen on any color. `from` is the one holder that is meant; null for all. */
  mark(one: number, from: number | null): void {
    this.marked = { one, from };
    this.drawMarks();
  }

  clearMarks(): void {
    this.marked = null;
    this.drawMarks();
  }

  /** Scroll to what is marked, if it is out of sight. */
  reveal(): void {
    if (this.marked === null) return;
    const [holder] = this.holders();
    const place = this.placeOf(holder!);
    if (place !== null) this.scrollTo(place.x, place.y);
  }

  private holders(): number[] {
    const { one, from } = this.marked!;
    return from === null ? [...this.layout.holders(one)] : [from];
  }

  private drawMarks(): void {
    const context = this.above.getContext("2d")!;
    context.clearRect(0, 0, this.view.x, this.view.y);
    if (this.marked === null) return;
    const { picture } = this;
    const holders = this.holders();
    const box = (number: number, width: number, ink: string): void => {
      const place = this.placeOf(number);
      if (place === null) return;
      context.lineWidth = width;
      context.strokeStyle = ink;
      context.strokeRect(this.x(place.x) - 0.5, this.y(place.y) - 0.5, this.cell, this.cell);
    };
    const held = this.heldWith(holders);
    const pointed = picture === "logical" ? holders.slice(0, 1) : holders;
    this.within(context, () => {
      for (const number of held) box(number, 3.5, "#000000");
      for (const number of pointed) box(number, 6, "#000000");
      for (const number of held) box(number, 1.5, "#ffffff");
      for (const number of pointed) box(number, 3.5, "#ffffff");
    });
  }

  /** All that the threads of some holders hold; nothing where the tile is in no registers. */
  private heldWith(holders: readonly number[]): number[] {
    const { layout } = this;
    if (layout.data.memory !== "registers") return [];
    const registers = layout.size("register");
    const threads = [...new Set(holders.map((holder) => layout.thread(holder)))];
    return threads.flatMap((thread) =>
      Array.from({ length: registers }, (_, register) => thread * registers + register),
    );
  }

  /** Where the picture has an input; null where that is in another slice. */
  private placeOf(number: number): Place | null {
    if (this.picture === "hardware") return this.layout.place(number);
    const at = this.layout.elements[number]! - this.slice.first;
    return at >= 0 && at < this.rows * this.columns
      ? { x: at % this.columns, y: Math.floor(at / this.columns) }
      : null;
  }

  // Pointing

  private listen(): void {
    const go = (x: number, y: number): boolean => {
      const isCell = x >= 0 && y >= 0 && x < this.columns && y < this.rows;
      if (!isCell || (x === this.at.x && y === this.at.y)) return false;
      [this.at.x, this.at.y] = [x, y];
      this.listener.pointed(this, x, y);
      return true;
    };
    this.above.addEventListener("pointermove", (event) => {
      if (event.offsetX < LEFT || event.offsetY < TOP) return;
      go(
        Math.floor((event.offsetX - LEFT + this.box.scrollLeft) / this.cell),
        Math.floor((event.offsetY - TOP + this.box.scrollTop) / this.cell),
      );
    });
    this.above.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor((this.view.y - TOP) / this.cell) - 1);
      const steps: Record<string, [number, number]> = {
        ArrowLeft: [-1, 0],
        ArrowRight: [1, 0],
        ArrowUp: [0, -1],
        ArrowDown: [0, 1],
        PageUp: [0, -page],
        PageDown: [0, page],
        Home: [-this.columns, 0],
        End: [this.columns, 0],
      };
      const step = steps[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const [x, y] = this.at.x < 0 ? [0, 0] : [this.at.x + step[0], this.at.y + step[1]];
      if (go(Math.min(this.columns - 1, Math.max(0, x)), Math.min(this.rows - 1, Math.max(0, y))))
        this.scrollTo(this.at.x, this.at.y);
    });
    this.box.addEventListener("scroll", () => {
      if (this.frame === 0)
        this.frame = requestAnimationFrame(() => {
          this.frame = 0;
          this.draw();
        });
    });
  }

  private scrollTo(x: number, y: number): void {
    const { box, cell } = this;
    const { scrollLeft, scrollTop } = box;
    const fit = (place: number, scrolled: number, space: number): number => {
      if (place < scrolled) return place;
      return place + cell > scrolled + space ? place + cell - space : scrolled;
    };
    const [left, top] = [
      fit(x * cell, scrollLeft, box.clientWidth - LEFT),
      fit(y * cell, scrollTop, box.clientHeight - TOP),
    ];
    if (left !== scrollLeft || top !== scrollTop) box.scrollTo({ left, top });
  }
}
