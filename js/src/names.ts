// What can be said of a name in a text: where it is defined and used, its type, and its layout.

import { argumentType, escaped, listed, resultTypes } from "./mlir_types";

export interface NameFacts {
  name: string;
  /** Lines from 1, as they are in the shown text; 0 where it has no definition there. */
  definition: number;
  uses: number[];
  /** The type, as the text writes it; those of all its results where the name represents several; none where it is not found. */
  types: readonly string[];
}

const NAME: Record<string, RegExp> = {
  mlir: /%[\w$.-]+(?:#\d+)?/g,
  llvm: /%[\w$.-]+/g,
  ptx: /%\w+(?:\.\w+)?/g,
  sass: /\b(?:U?R|U?P)\d+\b/g,
  amdgcn: /\b[sva]\d+\b/g,
};

/** The name at a column (from 0) of a line; null where none does. */
export function nameAt(
  language: string,
  line: string,
  column: number,
): { name: string; from: number } | null {
  const pattern = NAME[language];
  if (pattern === undefined) return null;
  for (const match of line.matchAll(pattern)) {
    if (match.index <= column && column <= match.index + match[0].length) {
      return { name: match[0].replace(/\.$/, ""), from: match.index };
    }
  }
  return null;
}

/** The first name of a line: as a rule the value that it defines. */
export function firstName(language: string, line: string): { name: string; from: number } | null {
  const at = NAME[language] === undefined ? -1 : line.search(NAME[language]);
  return at < 0 ? null : nameAt(language, line, at);
}

/** What a text says of a name, seen from a line (from 1) that holds it; "%a#1" is one of several results. Names repeat from function to function. */
export function factsOf(
  language: string,
  lines: readonly string[],
  shown: string,
  at: number,
): NameFacts {
  const [name, place] = language === "mlir" ? (shown.split("#") as [string, string?]) : [shown];
  const [first, last] = scopeAround(language, lines, at);
  const holding: number[] = [];
  const pattern = new RegExp(`${escaped(name)}(?![\\w$-]|\\.\\w)`);
  for (let line = first; line <= last; line++) {
    const text = lines[line - 1]!;
    if (text.includes(name) && pattern.test(text)) holding.push(line);
  }
  const defining = holding.filter((line) => defines(language, lines[line - 1]!, name));
  const definition = defining.filter((line) => line <= at).at(-1) ?? defining[0] ?? 0;
  const types =
    language === "mlir" && definition > 0
      ? mlirTypes(lines, definition, name, place === undefined ? null : Number(place))
      : [];
  return { name: shown, definition, uses: holding.filter((line) => line !== definition), types };
}

/** The function that a line is in: its first and last line; of a text without functions all of it. */
function scopeAround(language: string, lines: readonly string[], at: number): [number, number] {
  const starts =
    language === "mlir"
      ? /\b(?:tt|llvm|func|gpu)\.func\b/
      : language === "llvm"
        ? /^define\b/
        : language === "ptx"
          ? /^\s*\.(?:visible|entry|func|weak)\b/
          : null;
  if (starts === null) return [1, lines.length];
  let first = at;
  while (first > 1 && !starts.test(lines[first - 1]!)) first--;
  let last = Math.max(at, first + 1);
  while (last < lines.length && !starts.test(lines[last]!)) last++;
  return [first, last];
}

function defines(language: string, line: string, name: string): boolean {
  const word = escaped(name);
  switch (language) {
    case "mlir":
      // %a = ..., %a:3 = ..., %b, %a = ...; an argument of a function, a loop or a block.
      return (
        new RegExp(`^\\s*(?:%[\\w$.:-]+, )*${word}(?::\\d+)?(?:, %[\\w$.:-]+)* = `).test(line) ||
        new RegExp(`(?:func\\b.*|\\^bb\\d+.*|^\\s*)[(,] ?${word}: |\\^bb\\d+\\(.*${word}: `).test(
          line,
        ) ||
        new RegExp(`(?:scf\\.for |iter_args\\(.*|scf\\.while.*\\()${word} = `).test(line)
      );
    case "llvm":
      return (
        new RegExp(`^\\s*${word} = `).test(line) || (/^define\b/.test(line) && line.includes(name))
      );
    case "ptx":
      return (
        new RegExp(`^\\s*(?:@!?%\\w+\\s+)?[a-z][\\w.:]*\\s+\\{?(?:%\\w+, )*${word}\\b`).test(
          line,
        ) && !/^\s*(?:@!?%\w+\s+)?(?:st|bra|red|bar)\b/.test(line)
      );
    case "sass":
      return new RegExp(
        `^(?:[^A-Z@]*)(?:@!?U?P\\w+ )?[A-Z][\\w.]* (?:P\\d, |PT, )*${word}\\b`,
      ).test(line);
    default:
      return new RegExp(`^\\s*\\w+\\s+${word}\\b`).test(line);
  }
}

/** The types of a result or an argument, from the line that defines it. */
function mlirTypes(
  lines: readonly string[],
  definition: number,
  name: string,
  place: number | null,
): readonly string[] {
  const line = lines[definition - 1]!;
  if (!new RegExp(`^\\s*(?:%[\\w$.:-]+, )*${escaped(name)}(?::\\d+)?(?:,| = )`).test(line)) {
    return [argumentType(line, name)].filter((type) => type !== "");
  }
  const types = resultTypes(lines, definition);
  const [first, count] = placesOf(line, name);
  return place === null
    ? types.slice(first, first + count)
    : types.slice(first + place, first + place + 1);
}

/** Which results of its operation a name represents: the first, from 0, and how many. */
function placesOf(line: string, name: string): [number, number] {
  let first = 0;
  for (const one of line.slice(0, line.indexOf(" = ")).trim().split(", ")) {
    const [known, many] = one.split(":");
    const count = Number(many ?? 1);
    if (known === name) return [first, count];
    first += count;
  }
  return [0, 1];
}

/** The shape and the encoding of a tile's type, aliases of the text spelled out; null for what has no layout. */
export function layoutOf(
  type: string,
  lines: readonly string[],
): { shape: string; encoding: string } | null {
  const match = /^(?:tensor|!ttg\.memdesc)<((?:\d+x)+)/.exec(type);
  const alias = /, (#[\s\S]*)>$/.exec(type);
  if (match === null || alias === null) return null;
  const encoding = listed(alias[1]!)[0]!;
  return { shape: match[1]!.slice(0, -1), encoding: spelledOut(encoding, lines) };
}

function spelledOut(encoding: string, lines: readonly string[]): string {
  const aliases = new Map<string, string>();
  for (const line of lines) {
    const found = /^(#\w+) = (.*)$/.exec(line);
    if (found !== null) aliases.set(found[1]!, found[2]!);
    else if (aliases.size > 0 && !line.startsWith("#")) break;
  }
  let text = encoding;
  for (let depth = 0; depth < 8; depth++) {
    const next = text.replace(/#\w+(?![\w.])/g, (word) => aliases.get(word) ?? word);
    if (next === text) break;
    text = next;
  }
  return text;
}
