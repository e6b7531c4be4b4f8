// Which steps there are to see at a place of the track: one after the other, as they were recorded, or the k-th of every program at once.
import type { Bar, Lane, Row, Span, Tick } from "./parts/track";
import type { TraceReader } from "./stepper_trace";

export class Clock {
  /** The first and the last place. */
  readonly first: number;
  readonly last: number;
  /** The steps in the order in which they happen. */
  readonly order: readonly number[];
  /** Of each lane its steps. */
  private readonly runs: readonly (readonly number[])[];
  private readonly names: readonly string[];
  /** Of each place how many steps of `order` have happened after it. */
  private readonly happened: readonly number[];
  /** The lane and the place of each step. */
  private readonly at = new Map<number, readonly [number, number]>();

  constructor(
    private readonly reader: TraceReader,
    readonly isTogether: boolean,
  ) {
    const all = reader.data.steps.map((_, place) => reader.first + place);
    const programs = new Map<string, number[]>();
    for (const number of all) {
      const name = reader.frame(number).program.join(", ");
      const known = programs.get(name);
      if (known === undefined) programs.set(name, [number]);
      else known.push(number);
    }
    this.runs = isTogether ? [...programs.values()] : [all];
    this.names = isTogether ? [...programs.keys()] : [""];
    this.first = isTogether ? 0 : reader.first;
    this.runs.forEach((run, lane) =>
      run.forEach((step, number) => this.at.set(step, [lane, this.first + number])),
    );
    const longest = this.runs.reduce((most, { length }) => Math.max(most, length), 0);
    this.last = this.first + longest - 1;
    const order: number[] = [];
    const happened: number[] = [];
    for (let turn = 0; turn < longest; turn++) {
      for (const run of this.runs) if (turn < run.length) order.push(run[turn]!);
      happened.push(order.length);
    }
    this.order = order;
    this.happened = happened;
  }

  /** The lane in which a step is. */
  laneOf(step: number): number {
    return this.at.get(step)?.[0] ?? 0;
  }

  placeOf(step: number): number {
    return this.at.get(step)?.[1] ?? step;
  }

  /** The step of a lane at a place: after its end, its last. */
  stepAt(lane: number, place: number): number {
    const run = this.runs[lane]!;
    return run[Math.min(Math.max(0, place - this.first), run.length - 1)]!;
  }

  /** The steps that happen at a place, at most one of each lane. */
  steps(place: number): number[] {
    return this.runs.flatMap((run) => run[place - this.first] ?? []);
  }

  /** How many steps have happened after a place. */
  count(place: number): number {
    return this.happened[place - this.first]!;
  }

  /** What the track shows. */
  lanes(): Lane[] {
    const { fault_step: fault } = this.reader.data;
    return this.runs.map((run, lane) => ({
      name: this.names[lane]!,
      spans: spansOf(this.reader, run, this.first),
      ticks: ticksOf(this.reader, run, this.first),
      flags: fault !== null && run.includes(fault) ? [this.first + run.indexOf(fault)] : [],
    }));
  }
}

/** The most rows of programs that are stepped together. */
const MOST_ROWS = 40;

/** When each group of warps runs, and what is in flight, buffer by buffer, at the clock's places;
 * programs that are stepped together have rows of their own. */
export function rowsOf(reader: TraceReader, clock: Clock): Row[] {
  const { steps, flights } = reader.data;
  const rows = new Map<string, Bar[]>();
  const barsOf = (name: string, program: string): Bar[] => {
    const row = clock.isTogether ? `${name} (${program})` : name;
    const known = rows.get(row) ?? [];
    rows.set(row, known);
    return known;
  };
  const ends = new Map<string, [number, number]>();
  steps.forEach(({ frame }, number) => {
    const { partition, program: ids } = reader.data.frames[frame]!;
    const [step, program] = [reader.first + number, ids.join(", ")];
    ends.set(program, [ends.get(program)?.[0] ?? step, step]);
    if (partition === "") return;
    const bars = barsOf(partition, program);
    const [last, at] = [bars.at(-1), clock.placeOf(step)];
    if (last?.to === at - 1) last.to = at;
    else bars.push({ from: at, to: at, color: "other", words: `${partition} of (${program})` });
  });
  for (const { stands_for, words, issued, completed, program: ids, rows: names } of flights) {
    const program = ids.join(", ");
    const [first, last] = ends.get(program) ?? [reader.first, reader.last];
    const from = clock.placeOf(Math.max(issued, first));
    const to = clock.placeOf(Math.min(completed ?? last, last));
    const end = completed === null ? "; it never completes" : ` to ${completed}`;
    const bar = { from, to, color: stands_for, words: `${words}: step ${issued}${end}` };
    for (const name of names) barsOf(name, program).push(bar);
  }
  const all = [...rows].map(([name, bars]) => ({ name, bars }));
  const more = clock.isTogether ? all.length - MOST_ROWS : 0;
  return more > 0 ? [...all.slice(0, MOST_ROWS), { name: `and ${more} more`, bars: [] }] : all;
}

/** What is in flight at a step, in words that begin with its state, and the step that issued it. */
export function inFlight(reader: TraceReader, step: number): { words: string; issued: number }[] {
  const program = String(reader.frame(step).program);
  return reader.data.flights
    .filter(
      (one) =>
        String(one.program) === program &&
        one.issued <= step &&
        (one.completed === null || one.completed >= step),
    )
    .map(({ words, issued, completed }) => {
      const state = completed === step ? "complete" : issued === step ? "issued" : "pending";
      return { words: `${state}: ${words}`, issued };
    });
}

/** The turns of loops as spans of places, the outer ones first. */
export function spansOf(reader: TraceReader, run: readonly number[], first: number): Span[] {
  const found: Span[] = [];
  const open: { key: string; span: Span }[] = [];
  run.forEach((number, at) => {
    const { program } = reader.frame(number);
    const turns = reader.step(number).turns.filter((turn) => turn.startsWith("iteration "));
    turns.forEach((_, depth) => {
      const key = `${program.join()} ${turns.slice(0, depth + 1).join("\n")}`;
      const known = open[depth];
      if (known?.key === key && known.span.to === first + at - 1) known.span.to = first + at;
      else {
        const span = { from: first + at, to: first + at, depth };
        open[depth] = { key, span };
        found.push(span);
      }
    });
  });
  return found;
}

function ticksOf(reader: TraceReader, run: readonly number[], first: number): Tick[] {
  return run.flatMap((number, at) => {
    const { accesses } = reader.step(number);
    if (accesses.length === 0) return [];
    const isWritten = accesses.some(({ operation }) => operation !== "load");
    return [{ at: first + at, color: isWritten ? "written" : "read" } as const];
  });
}
