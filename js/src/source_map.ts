// Which line of one text became which lines of another: what `kernellab.records.SourceMap` does, with the same answers.
import type { SourceMapData } from "./data";
import { own } from "./records";

type Packed = readonly (number | readonly number[])[];

export interface Frame {
  file: string;
  line: number;
  column: number;
}

const NONE: readonly number[] = [];

export class SourceMap {
  readonly file: string;
  private readonly chains: Frame[][];
  private readonly ways = new Map<string, string[] | null>();
  private readonly neighbors = new Map<string, string[]>();
  private readonly toOrigins = new Map<string, string[] | null>();
  private readonly places = new Map<string, Map<string, number[]>>();
  private readonly forward = new Map<string, Map<number, number[]>>();
  private readonly byChain = new Map<string, Map<number, number[]>>();
  /** For each chain the numbers of those that name the same lines, up to the end of the shorter one. */
  private alike: readonly (readonly number[])[] | null = null;

  constructor(private readonly data: SourceMapData) {
    this.file = data.file;
    for (const pair of Object.keys(data.links)) {
      const [earlier, later] = pair.split(" ") as [string, string];
      this.neighbors.set(earlier, [...(this.neighbors.get(earlier) ?? []), later]);
      this.neighbors.set(later, [...(this.neighbors.get(later) ?? []), earlier]);
    }
    this.chains = data.chains.map((flat) => {
      const chain: Frame[] = [];
      for (let at = 0; at < flat.length; at += 3) {
        chain.push({
          file: data.files[flat[at]!] ?? "",
          line: flat[at + 1]!,
          column: flat[at + 2]!,
        });
      }
      return chain;
    });
  }

  /** Whether lines of this text can be followed at all. */
  knows(text: string): boolean {
    return text === "source" || Object.hasOwn(this.data.origins, text) || this.neighbors.has(text);
  }

  /** Whether the compiler's own line information leads from one text to the other; else both name the same kernel line. */
  isExact(from: string, to: string): boolean {
    return from === "source" || to === "source" || this.way(from, to) !== null;
  }

  /** The lines of `to` that are related to a line of `from`, in order. */
  lines(from: string, to: string, line: number): readonly number[] {
    if (from === to) return [line];
    if (!this.knows(from) || !this.knows(to)) return NONE;
    if (from === "source") return this.linesFromSource(to, this.file, line);
    if (to === "source") {
      const frames = this.chain(from, line).flat();
      return ordered(frames.filter((frame) => frame.file === this.file).map((frame) => frame.line));
    }
    const way = this.way(from, to);
    return way === null ? this.linesBySource(from, to, line) : this.follow(way, [line]);
  }

  /** The call chains that a line comes from, innermost frame first. */
  chain(text: string, line: number): Frame[][] {
    if (text === "source") return [[{ file: this.file, line, column: 0 }]];
    return this.chainNumbers(text, line).map((number) => this.chains[number] ?? []);
  }

  private follow(way: readonly string[], lines: readonly number[]): readonly number[] {
    let found = lines;
    for (let at = 1; at < way.length; at++) {
      found = ordered(found.flatMap((here) => this.step(way[at - 1]!, way[at]!, here)));
    }
    return found;
  }

  private step(from: string, to: string, line: number): readonly number[] {
    const pair = `${from} ${to}`;
    const links = own(this.data.links, pair);
    if (links === undefined) return unpacked(this.data.links[`${to} ${from}`]!, line, 0);
    let table = this.forward.get(pair);
    if (table === undefined) {
      table = new Map();
      for (let later = 1; later <= links.length; later++) {
        for (const earlier of unpacked(links, later, 0)) {
          const known = table.get(earlier);
          if (known === undefined) table.set(earlier, [later]);
          else known.push(later);
        }
      }
      this.forward.set(pair, table);
    }
    return table.get(line) ?? NONE;
  }

  /** The shortest way over the links, both ends included. */
  private way(from: string, to: string): string[] | null {
    const key = `${from} ${to}`;
    const known = this.ways.get(key);
    if (known !== undefined) return known;
    const ways: string[][] = [[from]];
    const seen = new Set([from]);
    let found: string[] | null = null;
    for (const way of ways) {
      const last = way[way.length - 1]!;
      if (last === to) {
        found = way;
        break;
      }
      for (const other of this.neighbors.get(last) ?? []) {
        if (seen.has(other)) continue;
        seen.add(other);
        ways.push([...way, other]);
      }
    }
    this.ways.set(key, found);
    return found;
  }

  /** The nearest text whose own locations name the kernel, and the way there. */
  private wayToOrigins(text: string): string[] | null {
    const known = this.toOrigins.get(text);
    if (known !== undefined) return known;
    let best: string[] | null = null;
    for (const other of Object.keys(this.data.origins)) {
      const way = this.way(text, other);
      if (way !== null && (best === null || way.length < best.length)) best = way;
    }
    this.toOrigins.set(text, best);
    return best;
  }

  private chainNumbers(text: string, line: number): readonly number[] {
    const origins = own(this.data.origins, text);
    if (origins !== undefined) return unpacked(origins, line, -1);
    const way = this.wayToOrigins(text);
    if (way === null) return NONE;
    const nearest = own(this.data.origins, way[way.length - 1]!)!;
    return [...new Set(this.follow(way, [line]).flatMap((there) => unpacked(nearest, there, -1)))];
  }

  private linesFromSource(text: string, file: string, line: number): readonly number[] {
    const place = `${file}:${line}`;
    if (Object.hasOwn(this.data.origins, text)) return this.linesAt(text).get(place) ?? NONE;
    const way = this.wayToOrigins(text);
    if (way === null) return NONE;
    const here = this.linesAt(way[way.length - 1]!).get(place) ?? NONE;
    return ordered(here.flatMap((one) => this.follow([...way].reverse(), [one])));
  }

  /** Lines that name the same innermost place, called from the same lines as far as both say; machine code may name no calls. */
  private linesBySource(from: string, to: string, line: number): readonly number[] {
    const origins = own(this.data.origins, to);
    if (origins === undefined) return NONE;
    this.alike ??= alikeChains(this.chains);
    const wanted = this.chainNumbers(from, line).flatMap((number) => this.alike![number]!);
    const table = this.linesOfChains(to, origins);
    return ordered([...new Set(wanted)].flatMap((number) => table.get(number) ?? NONE));
  }

  /** Of a text with its own locations: the number of a chain -> the lines that have it. */
  private linesOfChains(text: string, origins: Packed): ReadonlyMap<number, number[]> {
    let table = this.byChain.get(text);
    if (table === undefined) {
      table = new Map<number, number[]>();
      for (let line = 1; line <= origins.length; line++) {
        for (const number of unpacked(origins, line, -1)) {
          const lines = table.get(number);
          if (lines === undefined) table.set(number, [line]);
          else lines.push(line);
        }
      }
      this.byChain.set(text, table);
    }
    return table;
  }

  /** Of a text with its own locations: place in the sources -> lines whose chains have it, in any frame. */
  private linesAt(text: string): ReadonlyMap<string, number[]> {
    let table = this.places.get(text);
    if (table === undefined) {
      table = new Map<string, number[]>();
      const origins = own(this.data.origins, text)!;
      for (let line = 1; line <= origins.length; line++) {
        const frames = unpacked(origins, line, -1).flatMap((number) => this.chains[number] ?? []);
        for (const place of new Set(frames.map((frame) => `${frame.file}:${frame.line}`))) {
          const lines = table.get(place);
          if (lines === undefined) table.set(place, [line]);
          else lines.push(line);
        }
      }
      this.places.set(text, table);
    }
    return table;
  }
}

/** For each chain the numbers of those with the same lines, innermost first, up to the end of the shorter one. */
function alikeChains(chains: readonly (readonly Frame[])[]): number[][] {
  const places = chains.map((chain) => chain.map((frame) => `${frame.file}:${frame.line}`));
  const byInnermost = new Map<string, number[]>();
  places.forEach(([innermost], number) => {
    if (innermost !== undefined)
      byInnermost.set(innermost, [...(byInnermost.get(innermost) ?? []), number]);
  });
  return places.map((place) =>
    (byInnermost.get(place[0] ?? "") ?? []).filter((other) =>
      place.every((one, at) => at >= places[other]!.length || one === places[other]![at]),
    ),
  );
}

/** The numbers of one line: `to_json` writes one number as itself, none as 0, several as a list. */
function unpacked(table: Packed, line: number, offset: number): readonly number[] {
  const entry = table[line - 1];
  if (entry === undefined || entry === 0) return NONE;
  if (typeof entry === "number") return [entry + offset];
  return offset === 0 ? entry : entry.map((number) => number + offset);
}

function ordered(lines: readonly number[]): readonly number[] {
  return lines.length < 2 ? lines : [...new Set(lines)].sort((a, b) => a - b);
}
