// What the tensors hold after a step, and how often each element was touched by then; goes forwards and backwards.
import type { ArgumentData, StepWrite } from "./data";
import { countOf, eachRun, type Numbers, numbersOf, sizeOf, type TraceReader } from "./stepper_trace";

export class TensorMemory {
  /** null where the elements are not known one by one. */
  readonly contents: Numbers | null;
  /** What the picture shows: the contents, or a small picture of what they were at first; null where there is none. */
  readonly shown: Numbers | null;
  /** How often each element, or each cell of the small picture, was touched. */
  readonly reads: Uint32Array;
  readonly writes: Uint32Array;
  /** Grows when contents change. */
  version = 0;
  private readonly cells: Cells | null;

  constructor(readonly data: ArgumentData, buffer: ArrayBuffer) {
    const { elements, shape } = data;
    this.shown = elements === null ? null : numbersOf(buffer, elements.dtype, elements.at, countOf(elements, shape)).slice();
    this.contents = elements === null || elements.averaged ? null : this.shown;
    this.cells = elements?.averaged ? new Cells(shape, elements.rows, elements.columns) : null;
    this.reads = new Uint32Array(this.shown?.length ?? 0);
    this.writes = new Uint32Array(this.shown?.length ?? 0);
  }

  /** The place in the picture of an element. */
  cellOf(number: number): number {
    return this.cells === null ? number : this.cells.of(number);
  }
}

/** Where elements are in a picture in which neighbours are averaged; as `thumbnail_of` of kernellab/tracing/values.py draws it. */
export class Cells {
  private readonly width: number;
  private readonly height: number;

  constructor(shape: readonly number[], private readonly rows: number, private readonly columns: number) {
    const size = sizeOf(shape);
    this.width = shape.length >= 2 ? shape[shape.length - 1]! : size <= columns ? size : 2 ** Math.ceil(Math.log2(Math.sqrt(size)));
    this.height = Math.ceil(size / this.width);
  }

  of(number: number): number {
    return cell(Math.floor(number / this.width), this.height, this.rows) * this.columns + cell(number % this.width, this.width, this.columns);
  }
}

/** Of `cells` cells, whose k-th begins at floor(k * extent / cells), the one that a place falls into. */
function cell(place: number, extent: number, cells: number): number {
  return extent <= cells ? place : Math.ceil(((place + 1) * cells) / extent) - 1;
}

export class MemoryReplay {
  readonly tensors: readonly TensorMemory[];
  /** The last step whose writes are done. */
  private done: number;
  /** What was in memory before a write, from its first time on. */
  private readonly before = new Map<StepWrite, Numbers>();

  constructor(private readonly reader: TraceReader) {
    this.tensors = reader.data.arguments.map((one) => new TensorMemory(one, reader.buffer));
    this.done = reader.first - 1;
  }

  /** Be after a step. */
  goTo(number: number): void {
    while (this.done < number) this.forwards(++this.done);
    while (this.done > number) this.backwards(this.done--);
  }

  private forwards(number: number): void {
    const step = this.reader.step(number);
    for (const write of step.writes) {
      const tensor = this.tensors[write.argument]!;
      const { contents } = tensor;
      if (contents === null) continue;
      const places = this.reader.data.places[write.places]!;
      const written = numbersOf(this.reader.buffer, tensor.data.elements!.dtype, write.at, places.count);
      const isNew = !this.before.has(write);
      const old = isNew ? written.slice() : written;
      let at = 0;
      eachRun(this.reader.buffer, places, (first, count) => {
        if (isNew) old.set(contents.subarray(first, first + count) as never, at);
        contents.set(written.subarray(at, at + count) as never, first);
        at += count;
      });
      if (isNew) this.before.set(write, old);
      tensor.version++;
    }
    this.count(number, 1);
  }

  private backwards(number: number): void {
    this.count(number, -1);
    for (const write of [...this.reader.step(number).writes].reverse()) {
      const tensor = this.tensors[write.argument]!;
      const old = this.before.get(write);
      if (tensor.contents === null || old === undefined) continue;
      let at = 0;
      eachRun(this.reader.buffer, this.reader.data.places[write.places]!, (first, count) => {
        tensor.contents!.set(old.subarray(at, at + count) as never, first);
        at += count;
      });
      tensor.version++;
    }
  }

  private count(number: number, by: 1 | -1): void {
    for (const { argument, places, operation } of this.reader.step(number).accesses) {
      if (argument === null || places === null) continue;
      const tensor = this.tensors[argument]!;
      for (const counts of [operation === "store" ? null : tensor.reads, operation === "load" ? null : tensor.writes]) {
        if (counts === null || tensor.shown === null) continue;
        eachRun(this.reader.buffer, this.reader.data.places[places]!, (first, length) => {
          for (let at = first; at < first + length; at++) counts[tensor.cellOf(at)]! += by;
        });
      }
    }
  }
}
