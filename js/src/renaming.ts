// Which values of two texts correspond: a printer numbers values anew when one comes or goes before them.
import type { Work } from "./slices";

const VALUE = /%[\w$.-]+/g;

/** A line without the names of its values, and without its indentation. */
export function nameless(line: string): string {
  return line.replace(VALUE, "%").trim();
}

/** The lines of a text and their forms, which are the lines without names; each is made once. */
export class Lines {
  private readonly forms: string[] = [];

  constructor(readonly all: readonly string[]) {}

  form(at: number): string {
    return (this.forms[at] ??= nameless(this.all[at]!));
  }

  /** The values that a line names, from left to right. */
  names(at: number): readonly string[] {
    return this.all[at]!.match(VALUE) ?? [];
  }
}

/** A line that begins a function, whose values have separate names. */
const FUNCTION = /\b(?:tt|llvm|func)\.func\b|^define\b|^\s*\.(?:visible|func|entry|weak)\b/;

/** An instruction of PTX that writes to no register. */
const WRITES_NONE = /^\s*(?:@!?%\w+\s+)?(?:st|red|bra|bar|ret|cp)\b/;

/** Lines that are read between two places where the work can be interrupted. */
const LINES_A_STEP = 1000;

/** The values of one function. */
interface Names {
  /** Of the one text -> of the other. */
  readonly right: Map<string, string>;
  /** The other way round. */
  readonly left: Map<string, string>;
}

/** Pairs of names: the definitions of one text that are where those of another do. */
export class Renaming {
  /** Line of the one text -> the number of its function; 0 before the first. */
  private readonly functions: Int32Array;
  private readonly names: Names[] = [];
  /** A line without names -> which of its names it defines. */
  private readonly defined = new Map<string, readonly number[]>();

  private constructor(
    private readonly a: Lines,
    private readonly b: Lines,
  ) {
    this.functions = new Int32Array(a.all.length);
  }

  static *of(a: Lines, b: Lines): Work<Renaming> {
    const made = new Renaming(a, b);
    let number = 0;
    for (const [at, line] of a.all.entries()) {
      if (FUNCTION.test(line)) number++;
      made.functions[at] = number;
      if (at % LINES_A_STEP === 0) yield;
    }
    for (let at = 0; at <= number; at++) made.names.push({ right: new Map(), left: new Map() });
    return made;
  }

  /** Read two lines that correspond, before any other: what they define corresponds too. */
  define(lineA: number, lineB: number): void {
    if (this.a.form(lineA) !== this.b.form(lineB)) return;
    const places = this.definitions(lineA);
    if (places.length === 0) return;
    const { right, left } = this.names[this.functions[lineA]!]!;
    const [ours, theirs] = [this.a.names(lineA), this.b.names(lineB)];
    for (const place of places) {
      const [name, partner] = [ours[place]!, theirs[place]!];
      if (right.has(name) || left.has(partner)) continue;
      right.set(name, partner);
      left.set(partner, name);
    }
  }

  /** Whether two lines differ in the names of values alone that correspond. */
  explains(lineA: number, lineB: number): boolean {
    if (this.a.form(lineA) !== this.b.form(lineB)) return false;
    const { right, left } = this.names[this.functions[lineA]!]!;
    const theirs = this.b.names(lineB);
    return this.a.names(lineA).every((name, at) => {
      const partner = right.get(name);
      return partner === undefined
        ? name === theirs[at] && !left.has(name)
        : partner === theirs[at];
    });
  }

  /** Which names of a line it defines; lines of one form define the same. */
  private definitions(line: number): readonly number[] {
    const form = this.a.form(line);
    let found = this.defined.get(form);
    if (found === undefined) this.defined.set(form, (found = definitionsIn(this.a.all[line]!)));
    return found;
  }
}

/** Which names a line defines, by their places among all of it: those before its "=", arguments of functions, blocks and loops, the register that an instruction of PTX writes. */
function definitionsIn(line: string): number[] {
  const names = [...line.matchAll(VALUE)];
  if (/^define\b/.test(line)) return names.map((_, place) => place);
  const places = (starts: ReadonlySet<number>): number[] =>
    names.flatMap((name, place) => (starts.has(name.index) ? [place] : []));
  const defined = line.matchAll(/%[\w$.-]+(?=(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)* = |: )/g);
  const found = places(new Set(Array.from(defined, (match) => match.index)));
  if (found.length > 0 || line.includes("=") || WRITES_NONE.test(line)) return found;
  const written = /^(\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+\{?)%[a-z]+\d+\b/.exec(line);
  return written === null ? [] : places(new Set([written[1]!.length]));
}
