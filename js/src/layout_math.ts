// Which input (register, lane, warp, block; offset in memory) holds which element: the arithmetic of `kernellab.records.layouts`.
import type { TileData } from "./data";

/** A cell of the picture of the hardware. */
export interface Place {
  x: number;
  y: number;
}

/** Bytes that one row of shared memory's picture has: 32 banks of 4. */
const BANK_ROW = 128;
const BANK = 4;

export class TileLayout {
  /** Input -> how many numbers it has, the first input fastest where inputs are counted through. */
  readonly sizes: ReadonlyMap<string, number>;
  readonly elementCount: number;
  /** The element's number (the last dimension fastest) of every input, counted through. */
  readonly elements: Int32Array;
  private readonly byElement: Int32Array;
  /** Of memory: the input in each cell of the picture of the hardware, -1 for none. */
  private byPlace: Int32Array | null = null;

  constructor(
    readonly data: TileData,
    readonly elementBytes: number,
  ) {
    this.sizes = new Map(data.inputs.map((input) => [input.name, 2 ** input.bases.length]));
    this.elementCount = data.shape.reduce((product, size) => product * size, 1);
    let elements = new Int32Array(1);
    for (const input of data.inputs) {
      for (const base of input.bases) {
        const doubled = new Int32Array(2 * elements.length);
        doubled.set(elements);
        elements.forEach((element, at) => (doubled[elements.length + at] = element ^ base));
        elements = doubled;
      }
    }
    this.elements = elements;
    this.byElement = this.sortedByElement();
  }

  /** How many inputs lead to each element: the layout is linear, so as many to one as to any other. */
  get replication(): number {
    return this.elements.length / this.elementCount;
  }

  /** Every input that leads to an element, in order. */
  holders(element: number): Int32Array {
    return this.byElement.subarray(element * this.replication, (element + 1) * this.replication);
  }

  /** One of an input's numbers within a counted-through one. */
  part(number: number, input: string): number {
    let rest = number;
    for (const [name, size] of this.sizes) {
      if (name === input) return rest % size;
      rest = Math.floor(rest / size);
    }
    return 0;
  }

  size(input: string): number {
    return this.sizes.get(input) ?? 1;
  }

  /** The thread of a register, numbered through the program. */
  thread(number: number): number {
    return Math.floor(number / this.size("register"));
  }

  /** The offset in shared memory, in elements, with the padding before it. */
  offset(number: number): number {
    const plain = this.part(number, "offset");
    return this.data.paddings.reduce(
      (sum, [interval, padding]) => sum + Math.floor(plain / interval) * padding,
      plain,
    );
  }

  /** The bank (0 to 31) that an element's first byte is in. */
  bank(number: number): number {
    return Math.floor(((this.offset(number) * this.elementBytes) % BANK_ROW) / BANK);
  }

  /** Threads side by side in the picture of the hardware: many where each holds little, else one a row. */
  get fold(): number {
    const registers = this.size("register");
    return registers > 2 ? 1 : Math.min(this.elements.length / registers, 32 / registers);
  }

  /** The input that a cell of the hardware's picture represents; null for space that padding leaves free. */
  at({ x, y }: Place): number | null {
    if (this.data.memory === "registers") {
      const registers = this.size("register");
      return (y * this.fold + Math.floor(x / registers)) * registers + (x % registers);
    }
    const { x: columns, y: rows } = this.hardwareSize;
    if (this.byPlace === null) {
      this.byPlace = new Int32Array(columns * rows).fill(-1);
      for (let number = 0; number < this.elements.length; number++) {
        const place = this.place(number);
        this.byPlace[place.y * columns + place.x] = number;
      }
    }
    const number = this.byPlace[y * columns + x] ?? -1;
    return number < 0 ? null : number;
  }

  /** Columns and rows of the picture of the hardware. */
  get hardwareSize(): Place {
    if (this.data.memory === "registers") {
      return {
        x: this.size("register") * this.fold,
        y: this.elements.length / this.size("register") / this.fold,
      };
    }
    if (this.data.memory === "tensor memory")
      return { x: this.size("column"), y: this.size("row") };
    return { x: BANK_ROW / this.elementBytes, y: this.rowsOfABlock * this.size("block") };
  }

  /** Where the hardware's picture has an input. */
  place(number: number): Place {
    if (this.data.memory === "registers") {
      const thread = this.thread(number);
      return {
        x: (thread % this.fold) * this.size("register") + this.part(number, "register"),
        y: Math.floor(thread / this.fold),
      };
    }
    if (this.data.memory === "tensor memory")
      return { x: this.part(number, "column"), y: this.part(number, "row") };
    const byte = this.offset(number) * this.elementBytes;
    const row = this.part(number, "block") * this.rowsOfABlock + Math.floor(byte / BANK_ROW);
    return { x: Math.floor((byte % BANK_ROW) / this.elementBytes), y: row };
  }

  /** The index of an element by its number. */
  index(element: number): number[] {
    const index: number[] = [];
    let rest = element;
    for (const size of [...this.data.shape].reverse()) {
      index.unshift(rest % size);
      rest = Math.floor(rest / size);
    }
    return index;
  }

  private get rowsOfABlock(): number {
    const last = this.offset(this.size("offset") - 1);
    return Math.floor((last * this.elementBytes) / BANK_ROW) + 1;
  }

  private sortedByElement(): Int32Array {
    const filled = new Int32Array(this.elementCount);
    const sorted = new Int32Array(this.elements.length);
    const each = this.elements.length / this.elementCount;
    this.elements.forEach(
      (element, number) => (sorted[element * each + filled[element]!++] = number),
    );
    return sorted;
  }
}

/** How an element gets to where another layout wants it. */
export type Move = "stays" | "register" | "lane" | "warp" | "block";

export const MOVES: readonly Move[] = ["stays", "register", "lane", "warp", "block"];

/** For every holder of the second layout, where the nearest holder of the same element in the first one is. */
export function moves(from: TileLayout, to: TileLayout): Move[] {
  return Array.from(to.elements, (element, number) => {
    let nearest: Move = "block";
    for (const holder of from.holders(element)) {
      const move = moveBetween(from, holder, to, number);
      if (MOVES.indexOf(move) < MOVES.indexOf(nearest)) nearest = move;
    }
    return nearest;
  });
}

function moveBetween(from: TileLayout, holder: number, to: TileLayout, number: number): Move {
  const same = (input: string): boolean => from.part(holder, input) === to.part(number, input);
  if (!same("block")) return "block";
  if (!same("warp")) return "warp";
  if (!same("lane")) return "lane";
  return same("register") ? "stays" : "register";
}

/** Cells side by side of one thread, with consecutive registers: what the PTX manual draws as T0:{c0,c1}. */
export interface Run {
  row: number;
  column: number;
  length: number;
  thread: number;
  register: number;
}

/** The runs of a plane of a tile (rows x columns, from an element's number on), by each element's first holder. */
export function runs(layout: TileLayout, first: number, rows: number, columns: number): Run[] {
  const found: Run[] = [];
  for (let row = 0; row < rows; row++) {
    let run: Run | null = null;
    for (let column = 0; column < columns; column++) {
      const holder = layout.holders(first + row * columns + column)[0]!;
      const thread = layout.thread(holder);
      const register = layout.part(holder, "register");
      if (run !== null && run.thread === thread && run.register + run.length === register)
        run.length++;
      else found.push((run = { row, column, length: 1, thread, register }));
    }
  }
  return found;
}
