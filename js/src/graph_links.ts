// What belongs together across levels: from chosen elements up to what they were made of, and down to what was made of them.
import type { GraphChain, GraphLevel, GraphView } from "./data";

/** Level -> its elements that are lit, in order. */
export type Lit = ReadonlyMap<number, readonly number[]>;

/** Elements of a level. */
export interface Chosen {
  level: number;
  elements: readonly number[];
}

export class Links {
  /** Of each level, by elements of the one above: those that are made of them. */
  private readonly below = new Map<number, readonly (readonly number[])[]>();

  constructor(private readonly data: GraphView) {}

  private level(number: number): GraphLevel {
    return this.data.levels[number]!;
  }

  /** Everything of a graph that belongs to what is chosen. Up goes by origins, and by the line of the model where there are none; down only from what lies above, so that siblings stay dark. */
  lit(chain: GraphChain, chosen: Chosen): Lit {
    const found = new Map<number, Set<number>>([[chosen.level, new Set(chosen.elements)]]);
    this.climb(chosen.level, found);
    for (const number of chain.levels) {
      if (found.has(number)) continue;
      const level = this.level(number);
      const lit = new Set<number>();
      for (const one of found.get(level.above) ?? [])
        for (const made of this.madeOf(number)[one] ?? []) lit.add(made);
      found.set(number, lit);
    }
    return new Map([...found].map(([number, lit]) => [number, [...lit].sort((a, b) => a - b)]));
  }

  private climb(from: number, found: Map<number, Set<number>>): void {
    const source = new Set<number>();
    for (let number = from; ;) {
      const level = this.level(number);
      const above = new Set<number>();
      for (const one of found.get(number)!) {
        for (const origin of level.origins[one] ?? []) above.add(origin);
        const line = level.lines[one] ?? -1;
        if (line >= 0) source.add(line);
      }
      if (level.above < 0) break;
      number = level.above;
      if (this.level(number).above < 0) for (const line of source) above.add(line);
      found.set(number, above);
    }
  }

  private madeOf(number: number): readonly (readonly number[])[] {
    let made = this.below.get(number);
    if (made === undefined) {
      const found: number[][] = [];
      this.level(number).origins.forEach((origins, element) => {
        for (const one of origins) (found[one] ??= []).push(element);
      });
      this.below.set(number, (made = found));
    }
    return made;
  }
}

/** The lines of a text that represent elements, and the other way round. */
export class Lines {
  private readonly spans = new Map<number, [number, number][]>();

  constructor(private readonly flat: readonly number[]) {
    for (let at = 0; at < flat.length; at += 3) {
      const element = flat[at + 2]!;
      const known = this.spans.get(element);
      if (known === undefined) this.spans.set(element, [[flat[at]!, flat[at + 1]!]]);
      else known.push([flat[at]!, flat[at + 1]!]);
    }
  }

  /** The lines of some elements, in order. */
  of(elements: readonly number[]): number[] {
    const found = new Set<number>();
    for (const one of elements)
      for (const [first, last] of this.spans.get(one) ?? [])
        for (let line = first; line <= last; line++) found.add(line);
    return [...found].sort((a, b) => a - b);
  }

  /** The first line of each element. */
  firsts(): number[] {
    return [...this.spans.values()].map(([first]) => first![0]);
  }

  /** The elements of a line. */
  at(line: number): number[] {
    const found: number[] = [];
    for (let at = 0; at < this.flat.length; at += 3)
      if (this.flat[at]! <= line && line <= this.flat[at + 1]!) found.push(this.flat[at + 2]!);
    return [...new Set(found)];
  }
}

/** Where the provenance of what is chosen ends, in words; "" where it reaches the model and the kernels. */
export function endWords(data: GraphView, chain: GraphChain, chosen: Chosen, lit: Lit): string {
  const level = data.levels[chosen.level]!;
  const has = (name: string): boolean =>
    chain.levels.some(
      (number) => data.levels[number]!.name === name && (lit.get(number) ?? []).length > 0,
    );
  const words: string[] = [];
  if (level.above >= 0 && !has("source")) {
    const input = chosen.elements.every(
      (one) => level.labels[one] === "placeholder" || level.labels[one] === "output",
    );
    words.push(
      input
        ? "an input or the output of the graph, of which torch keeps no line"
        : "torch kept no line of the model for it",
    );
  }
  const calls = chain.levels.find((number) => data.levels[number]!.name === "launches");
  if (calls !== undefined && data.levels[calls]!.names.length > 0 && !has("launches"))
    words.push("no kernel names it: it was removed, folded into another node, or is a view");
  return words.join("; ");
}
