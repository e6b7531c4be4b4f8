// Which line of one text became which lines of another: what `kernellab.records.SourceMap` does, with the same answers.
import type { SourceMapData } from "./data";

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
  private readonly neighbours = new Map<string, string[]>();
  private readonly toOrigins = new Map<string, string[] | null>();
  private readonly places = new Map<string, Map<string, number[]>>();
  private readonly forward = new Map<string, Map<number, number[]>>();

  constructor(private readonly data: SourceMapData) {
    this.file = data.file;
    for (const pair of Object.keys(data.links)) {
      const [earlier, later] = pair.split(" ") as [string, string];
      this.neighbours.set(earlier, [...(this.neighbours.get(earlier) ?? []), later]);
      this.neighbours.set(later, [...(this.neighbours.get(later) ?? []), earlier]);
    }
    this.chains = data.chains.map((flat) => {
      const chain: Frame[] = [];
      for (let at = 0; at < flat.length; at += 3) {
        chain.push({ file: data.files[flat[at]!] ?? "", line: flat[at + 1]!, column: flat[at + 2]! });
      }
      return chain;
    });
  }

  /** Whether lines of this text can be followed at all. */
  knows(text: string): boolean {
    return text === "source" || text in this.data.origins || this.neighbours.has(text);
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
    const links = this.data.links[pair];
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
      for (const other of this.neighbours.get(last) ?? []) {
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
    const origins = this.data.origins[text];
    if (origins !== undefined) return unpacked(origins, line, -1);
    const way = this.wayToOrigins(text);
    if (way === null) return NONE;
    const nearest = this.data.origins[way[way.length - 1]!]!;
    return [...new Set(this.follow(way, [line]).flatMap((there) => unpacked(nearest, there, -1)))];
  }

  private linesFromSource(text: string, file: string, line: number): readonly number[] {
    const place = `${file}:${line}`;
    if (text in this.data.origins) return this.linesAt("any", text).get(place) ?? NONE;
    const way = this.wayToOrigins(text);
    if (way === null) return NONE;
    const here = this.linesAt("any", way[way.length - 1]!).get(place) ?? NONE;
    return ordered(here.flatMap((one) => this.follow([...way].reverse(), [one])));
  }

  /** Lines whose innermost place is the same line of the kernel: machine code names lines without columns and calls. */
  private linesBySource(from: string, to: string, line: number): readonly number[] {
    if (!(to in this.data.origins)) return NONE;
    const places = new Set(
      this.chain(from, line).flatMap((chain) => (chain[0] ? [`${chain[0].file}:${chain[0].line}`] : [])),
    );
    const table = this.linesAt("innermost", to);
    return ordered([...places].flatMap((place) => table.get(place) ?? NONE));
  }

  /** Of a text with locations of its own: place in the sources -> lines whose chains have it, in any frame or innermost. */
  private linesAt(frames: "any" | "innermost", text: string): ReadonlyMap<string, number[]> {
    const key = `${frames} ${text}`;
    let table = this.places.get(key);
    if (table === undefined) {
      table = new Map<string, number[]>();
      const origins = this.data.origins[text]!;
      for (let line = 1; line <= origins.length; line++) {
        const chains = unpacked(origins, line, -1).map((number) => this.chains[number] ?? []);
        const named = chains.flatMap((chain) => (frames === "any" ? chain : chain.slice(0, 1)));
        for (const place of new Set(named.map((frame) => `${frame.file}:${frame.line}`))) {
          const lines = table.get(place);
          if (lines === undefined) table.set(place, [line]);
          else lines.push(line);
        }
      }
      this.places.set(key, table);
    }
    return table;
  }
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
