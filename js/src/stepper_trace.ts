// Questions about recorded steps, answered from the data alone. Steps have the numbers of the whole trace.
import type { ElementsData, PlacesData, StepData, StepFrame, StepperView, StepValue } from "./data";

export type Numbers =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

type Maker = new (buffer: ArrayBuffer, at: number, count: number) => Numbers;

const MAKERS: Readonly<Record<string, Maker>> = {
  float32: Float32Array,
  float64: Float64Array,
  bool: Uint8Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
};

/** Elements, without a copy. */
export function numbersOf(buffer: ArrayBuffer, dtype: string, at: number, count: number): Numbers {
  const maker = MAKERS[dtype];
  if (maker === undefined) throw new Error(`no such elements: ${dtype}`);
  return new maker(buffer, at, count);
}

const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, extent) => product * extent, 1);

/** How many elements are kept: those of the value, or of the small picture that represents them. */
export function countOf(elements: ElementsData, shape: readonly number[]): number {
  return elements.averaged ? elements.rows * elements.columns : sizeOf(shape);
}

/** The index of an element along each dimension, from its number in reading order. */
export function indexOf(shape: readonly number[], number: number): number[] {
  const index: number[] = [];
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    index.unshift(number % shape[axis]!);
    number = Math.floor(number / shape[axis]!);
  }
  return index;
}

/** The number of an element in reading order; null where there is no such element. */
export function numberOf(shape: readonly number[], index: readonly number[]): number | null {
  if (index.length !== shape.length) return null;
  let number = 0;
  for (let axis = 0; axis < shape.length; axis++) {
    const extent = shape[axis]!;
    const place = index[axis]! < 0 ? index[axis]! + extent : index[axis]!;
    if (!(place >= 0 && place < extent)) return null;
    number = number * extent + place;
  }
  return number;
}

/** An element in as few digits as say exactly which number it is. */
export function numberText(value: number | bigint, dtype: string): string {
  if (dtype === "bool") return value ? "True" : "False";
  if (typeof value === "bigint" || dtype !== "float32") return numberWords(value);
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Object.is(Math.fround(short), value)) return numberWords(short);
  }
  return numberWords(value);
}

function numberWords(value: number | bigint): string {
  if (Object.is(value, -0)) return "-0";
  if (typeof value === "number" && !Number.isFinite(value))
    return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞";
  return String(value);
}

/** Calls `each` with every run of neighbors among places. */
export function eachRun(
  buffer: ArrayBuffer,
  places: PlacesData,
  each: (first: number, count: number) => void,
): void {
  const runs = new Int32Array(buffer, places.at, 2 * places.runs);
  for (let at = 0; at < runs.length; at += 2) each(runs[at]!, runs[at + 1]!);
}

interface History {
  steps: number[];
  values: number[];
}

/** A name in the watch list: of a variable, or of one of its elements: `acc[3, 0]`. */
export interface Watched {
  name: string;
  index: number[] | null;
}

/** What somebody wrote into the watch list; null where it is not a name. */
export function readWatched(text: string): Watched | null {
  const match = /^\s*([\p{L}_][\p{L}\p{N}_]*)\s*(?:\[([-\d\s,]*)\])?\s*$/u.exec(text);
  if (match === null) return null;
  if (match[2] === undefined) return { name: match[1]!, index: null };
  const index = match[2].split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
  return index.every(Number.isInteger) ? { name: match[1]!, index } : null;
}

export class TraceReader {
  readonly first: number;
  readonly last: number;
  /** Elements that the data left out and a kernel sent, by numbers of values. */
  private readonly filled = new Map<StepValue, { elements: ElementsData; buffer: ArrayBuffer }>();
  /** Of each frame the variables, in the order in which they first had a value. */
  private readonly histories: Map<string, History>[];
  /** Of each frame how many calls led to it. */
  readonly depths: number[] = [];

  constructor(
    readonly data: StepperView,
    readonly buffer: ArrayBuffer,
  ) {
    this.first = data.first;
    this.last = data.first + data.steps.length - 1;
    this.histories = data.frames.map(
      ({ given }) =>
        new Map(
          Object.entries(given).map(([name, value]) => [name, { steps: [-1], values: [value] }]),
        ),
    );
    for (const { caller } of data.frames)
      this.depths.push(caller === null ? 0 : this.depths[caller]! + 1);
    data.steps.forEach((step, place) => {
      const known = this.histories[step.frame]!;
      for (const [name, value] of Object.entries(step.changed)) {
        let history = known.get(name);
        if (history === undefined) known.set(name, (history = { steps: [], values: [] }));
        history.steps.push(this.first + place);
        history.values.push(value);
      }
    });
  }

  get isEmpty(): boolean {
    return this.data.steps.length === 0;
  }

  step(number: number): StepData {
    return this.data.steps[number - this.first]!;
  }

  frame(number: number): StepFrame {
    return this.data.frames[this.step(number).frame]!;
  }

  /** The lines of the calls that led to a frame, the innermost first. */
  calls(frame: number): string[] {
    const found: string[] = [];
    for (let at = this.data.frames[frame]!; at.caller !== null; at = this.data.frames[at.caller]!)
      found.push(at.called_from);
    return found;
  }

  /** The variables of a frame in the order in which they first get a value, but for constants: name -> number of its first value. */
  slots(frame: number): Map<string, number> {
    const slots = [...this.histories[frame]!].filter(([name]) => !this.isConstant(frame, name));
    return new Map(slots.map(([name, { values }]) => [name, values[0]!]));
  }

  /** The step at which a variable of a frame first has a value. */
  firstStep(frame: number, name: string): number {
    return this.histories[frame]!.get(name)!.steps[0]!;
  }

  /** What a call begins with and never changes, and has no elements, with its value. */
  constants(frame: number): string[] {
    return [...this.histories[frame]!]
      .filter(([name]) => this.isConstant(frame, name))
      .map(([name, { values }]) => `${name} = ${this.data.values[values[0]!]!.words}`);
  }

  private isConstant(frame: number, name: string): boolean {
    const { steps, values } = this.histories[frame]!.get(name)!;
    return (
      steps.length === 1 && steps[0] === -1 && this.data.values[values[0]!]!.shape.length === 0
    );
  }

  /** The variables that a frame has after a step: name -> number of the value. */
  variables(frame: number, number: number): Map<string, number> {
    const found = new Map<string, number>();
    for (const [name, history] of this.histories[frame]!) {
      const at = upTo(history.steps, number);
      if (at >= 0) found.set(name, history.values[at]!);
    }
    return found;
  }

  /** The number of the value that a name has after a step, in the function of the step or in one that called it. */
  valueNumber(name: string, number: number): number | null {
    for (
      let frame: number | null = this.step(number).frame;
      frame !== null;
      frame = this.data.frames[frame]!.caller
    ) {
      const history = this.histories[frame]!.get(name);
      const at = history === undefined ? -1 : upTo(history.steps, number);
      if (at >= 0) return history!.values[at]!;
    }
    return null;
  }

  value(name: string, number: number): StepValue | null {
    const found = this.valueNumber(name, number);
    return found === null ? null : this.data.values[found]!;
  }

  /** Names of variables that get a value at some step. */
  names(): string[] {
    return [...new Set(this.data.steps.flatMap((step) => Object.keys(step.changed)))];
  }

  /** Names of all variables, those too that a call begins with. */
  allNames(): string[] {
    return [...new Set(this.histories.flatMap((names) => [...names.keys()]))];
  }

  /** The elements of a value as far as they are here: its own, or those of a small picture. */
  elements(value: StepValue): ElementsData | null {
    return this.filled.get(value)?.elements ?? value.elements;
  }

  numbers(value: StepValue): Numbers | null {
    const elements = this.elements(value);
    return elements === null
      ? null
      : numbersOf(
          this.filled.get(value)?.buffer ?? this.buffer,
          elements.dtype,
          elements.at,
          countOf(elements, value.shape),
        );
  }

  isFilled(number: number): boolean {
    return this.filled.has(this.data.values[number]!);
  }

  /** A kernel sent the elements of a value. */
  fill(number: number, elements: ElementsData, buffer: ArrayBuffer): void {
    this.filled.set(this.data.values[number]!, { elements, buffer });
  }

  /** What a watched name is after a step, in words. */
  watchedText(watched: Watched, number: number): string {
    const value = this.value(watched.name, number);
    if (value === null) return "not here";
    if (watched.index === null) return value.words;
    const place = numberOf(value.shape, watched.index);
    if (place === null) return `no such element: it is ${value.type}`;
    const numbers = this.numbers(value);
    const elements = this.elements(value);
    if (numbers === null || elements === null || elements.averaged)
      return `not in this view: trace.at(${number})["${watched.name}"] has it`;
    return numberText(numbers[place]!, elements.dtype);
  }

  /** The next step, or backwards the last one before, of which something holds; null where there is none. */
  find(
    from: number,
    forwards: boolean,
    holds: (step: StepData, number: number) => boolean,
  ): number | null {
    const by = forwards ? 1 : -1;
    for (let number = from + by; number >= this.first && number <= this.last; number += by) {
      if (holds(this.step(number), number)) return number;
    }
    return null;
  }

  /** Whether a step runs a line of a source. */
  isAt(step: StepData, source: number, line: number): boolean {
    return step.line === line && this.data.frames[step.frame]!.source === source;
  }

  /** The first step of a program; null where it was not traced, or its steps are not here. */
  firstOf(program: readonly number[]): number | null {
    return this.find(
      this.first - 1,
      true,
      (step) => String(this.data.frames[step.frame]!.program) === String(program),
    );
  }
}

/** The place of the last number up to a limit in an ascending list; -1 where there is none. */
function upTo(numbers: readonly number[], limit: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
