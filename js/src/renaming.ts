// Which values of two texts stand for each other: a printer numbers values anew when one comes or goes before them.

const VALUE = /%[\w$.-]+/g;

/** A line without the names of its values. */
export function nameless(line: string): string {
  return line.replace(VALUE, "%");
}

/** A line that begins a function, whose values have names of their own. */
const FUNCTION = /\b(?:tt|llvm|func)\.func\b|^define\b|^\s*\.(?:visible|func|entry|weak)\b/;

/** An instruction of PTX that writes to no register. */
const WRITES_NONE = /^\s*(?:@!?%\w+\s+)?(?:st|red|bra|bar|ret|cp)\b/;

/** Pairs of names: the definitions of one text that stand where those of another do. */
export class Renaming {
  private readonly right = new Map<string, string>();
  private readonly left = new Map<string, string>();
  private scope = 0;

  /** Read two lines that stand for each other, before any is asked about: what they define stands for each other too. */
  define(one: string, other: string): void {
    this.enter(one);
    if (nameless(one).trim() !== nameless(other).trim()) return;
    const theirs = definedIn(other);
    definedIn(one).forEach((name, at) => {
      const [ours, partner] = [`${this.scope} ${name}`, `${this.scope} ${theirs[at]}`];
      if (this.right.has(ours) || this.left.has(partner)) return;
      this.right.set(ours, partner);
      this.left.set(partner, ours);
    });
  }

  /** From here on the lines are the first ones again. */
  restart(): void {
    this.scope = 0;
  }

  /** Whether two lines differ in the names of values alone that stand for each other. */
  explains(one: string, other: string): boolean {
    this.enter(one);
    const [ours, theirs] = [one.match(VALUE) ?? [], other.match(VALUE) ?? []];
    if (ours.length !== theirs.length || nameless(one).trim() !== nameless(other).trim()) return false;
    return ours.every((name, at) => this.same(name, theirs[at]!));
  }

  private same(name: string, theirs: string): boolean {
    const [ours, partner] = [`${this.scope} ${name}`, `${this.scope} ${theirs}`];
    const [right, left] = [this.right.get(ours), this.left.get(partner)];
    if (right === undefined && left === undefined) return name === theirs;
    return right === partner && left === ours;
  }

  private enter(line: string): void {
    if (FUNCTION.test(line)) this.scope++;
  }
}

/** The names that a line defines: before its "=", arguments of functions, blocks and loops, the register that an instruction of PTX writes. */
function definedIn(line: string): string[] {
  if (/^define\b/.test(line)) return line.match(VALUE) ?? [];
  const found = [...line.matchAll(/(%[\w$.-]+)(?=(?::\d+)?(?:, %[\w$.-]+(?::\d+)?)* = |: )/g)].map((match) => match[1]!);
  if (found.length > 0 || line.includes("=") || WRITES_NONE.test(line)) return found;
  const written = /^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+\{?(%[a-z]+\d+)\b/.exec(line)?.[1];
  return written === undefined ? [] : [written];
}
