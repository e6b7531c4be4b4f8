// What the tensors hold after a step, and how often each element was touched by then; goes forwards and backwards.
import type { ArgumentData, ElementsData, PlacesData, StepAccess, TensorPart } from "./data";
import { countOf, eachRun, type Numbers, numbersOf, type TraceReader } from "./stepper_trace";

interface Accessed {
  operation: StepAccess["operation"];
  places: PlacesData | null;
}

interface Written {
  places: PlacesData;
  at: number;
}

/** A tensor that the view has a small picture of, with every element, as a kernel sent it. */
export interface Whole {
  part: TensorPart;
  buffer: ArrayBuffer;
}

export class TensorMemory {
  /** What the picture shows: elements, or the means of neighbors; null where there is none. */
  readonly shown: Numbers | null;
  /** Whether `shown` has every element. */
  readonly isExact: boolean;
  /** How often each element, or each cell of the small picture, was touched. */
  readonly reads: Uint32Array;
  readonly writes: Uint32Array;
  /** The data, with the elements that are shown. */
  readonly data: ArgumentData;
  /** Grows when contents change. */
  version = 0;
  private readonly buffer: ArrayBuffer;
  private readonly part: TensorPart | null;
  /** The steps in the order in which they happen, and how many of them have. */
  private order: readonly number[];
  private done = 0;
  /** What was in memory before a write, from its first time on; by where its new contents are and the step. */
  private readonly before = new Map<string, Numbers>();

  constructor(
    private readonly reader: TraceReader,
    private readonly number: number,
    whole: Whole | null = null,
  ) {
    const known = reader.data.arguments[number]!;
    this.buffer = whole?.buffer ?? reader.buffer;
    this.part = whole?.part ?? null;
    this.data = whole === null ? known : { ...known, elements: whole.part.elements };
    const { elements, shape } = this.data;
    this.shown =
      elements === null
        ? null
        : numbersOf(this.buffer, elements.dtype, elements.at, countOf(elements, shape)).slice();
    this.isExact = elements !== null && !elements.averaged;
    this.reads = new Uint32Array(this.shown?.length ?? 0);
    this.writes = new Uint32Array(this.shown?.length ?? 0);
    this.order = reader.data.steps.map((_, place) => reader.first + place);
  }

  /** Let the steps happen in another order. */
  follow(order: readonly number[]): void {
    this.goTo(0);
    this.before.clear();
    this.order = order;
  }

  /** Be after so many steps. */
  goTo(count: number): void {
    while (this.done < count) this.forwards(this.order[this.done++]!);
    while (this.done > count) this.backwards(this.order[--this.done]!);
  }

  /** What a step reads and writes of it. */
  accesses(number: number): Accessed[] {
    const mine = this.reader
      .step(number)
      .accesses.filter(({ argument }) => argument === this.number);
    const sent = this.part?.steps[number - this.reader.first]?.places;
    return mine.map(({ operation, places }, at) => ({
      operation,
      places: this.placesOf(sent === undefined ? places : (sent[at] ?? null)),
    }));
  }

  /** Calls `each` with every run of elements, or cells, among places. */
  eachRun(places: PlacesData, each: (first: number, count: number) => void): void {
    eachRun(this.buffer, places, each);
  }

  private placesOf(number: number | null): PlacesData | null {
    return number === null ? null : (this.part ?? this.reader.data).places[number]!;
  }

  private written(number: number): Written[] {
    const writes =
      this.part === null
        ? this.reader.step(number).writes
        : (this.part.steps[number - this.reader.first]?.writes ?? []);
    return writes
      .filter(({ argument }) => argument === this.number)
      .map(({ places, at }) => ({ places: this.placesOf(places)!, at }));
  }

  private forwards(number: number): void {
    const { shown } = this;
    if (shown === null) return;
    for (const { places, at } of this.written(number)) {
      const written = numbersOf(this.buffer, this.data.elements!.dtype, at, places.count);
      const key = `${number} ${places.at} ${at}`;
      const isNew = !this.before.has(key);
      const old = isNew ? written.slice() : written;
      let done = 0;
      this.eachRun(places, (first, count) => {
        if (isNew) old.set(shown.subarray(first, first + count) as never, done);
        shown.set(written.subarray(done, done + count) as never, first);
        done += count;
      });
      if (isNew) this.before.set(key, old);
      this.version++;
    }
    this.count(number, 1);
  }

  private backwards(number: number): void {
    const { shown } = this;
    if (shown === null) return;
    this.count(number, -1);
    for (const { places, at } of this.written(number).reverse()) {
      const old = this.before.get(`${number} ${places.at} ${at}`)!;
      let done = 0;
      this.eachRun(places, (first, count) => {
        shown.set(old.subarray(done, done + count) as never, first);
        done += count;
      });
      this.version++;
    }
  }

  private count(number: number, by: 1 | -1): void {
    for (const { places, operation } of this.accesses(number)) {
      if (places === null) continue;
      for (const counts of [
        operation === "store" ? null : this.reads,
        operation === "load" ? null : this.writes,
      ]) {
        if (counts === null) continue;
        this.eachRun(places, (first, length) => {
          for (let at = first; at < first + length; at++) counts[at]! += by;
        });
      }
    }
  }
}

/** The pixel of an element in a tensor's picture, as `cellWords` counts them. */
export function pixelOf(
  shape: readonly number[],
  { averaged, rows, columns }: ElementsData,
  number: number,
): number {
  if (!averaged) return number;
  const width = widthOf(shape, columns);
  const height = Math.ceil(shape.reduce((product, extent) => product * extent, 1) / width);
  const cellOf = (place: number, extent: number, cells: number): number => {
    let cell = Math.floor((place * cells) / extent);
    while (Math.floor(((cell + 1) * extent) / cells) <= place) cell++;
    return cell;
  };
  const [row, column] = [Math.floor(number / width), number % width];
  return cellOf(row, height, rows) * columns + cellOf(column, width, columns);
}

/** Elements in a row of a tensor's picture, before neighbors become one cell. */
function widthOf(shape: readonly number[], columns: number): number {
  const size = shape.reduce((product, extent) => product * extent, 1);
  if (shape.length >= 2) return shape[shape.length - 1]!;
  return size <= columns ? size : 2 ** Math.ceil(Math.log2(Math.sqrt(size)));
}

/** In words, which elements a cell of a small picture represents; drawn as by `thumbnail_of` of kernellab/tracing/values.py. */
export function cellWords(
  shape: readonly number[],
  rows: number,
  columns: number,
  cell: number,
): string {
  const size = shape.reduce((product, extent) => product * extent, 1);
  const width = widthOf(shape, columns);
  const height = Math.ceil(size / width);
  const within = (place: number, extent: number, cells: number): [number, number] => [
    Math.floor((place * extent) / cells),
    Math.floor(((place + 1) * extent) / cells),
  ];
  const [down, across] = [
    within(Math.floor(cell / columns), height, rows),
    within(cell % columns, width, columns),
  ];
  const slice = ([first, end]: [number, number]): string =>
    end - first === 1 ? String(first) : `${first}:${end}`;
  if (shape.length === 2) return `[${slice(down)}, ${slice(across)}]`;
  const index: number[] = [];
  let rest = Math.min(down[0] * width + across[0], size - 1);
  for (const extent of [...shape].reverse()) {
    index.unshift(rest % extent);
    rest = Math.floor(rest / extent);
  }
  return `[${index.join(", ")}] and its neighbors`;
}
