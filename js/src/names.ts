// What can be said of a name in a text: where it is defined and used, its type, and its layout.

export interface NameFacts {
  name: string;
  /** Lines from 1, as they stand in the shown text; 0 where it has no definition there. */
  definition: number;
  uses: number[];
  /** The type as the text writes it; "" where it is not found. */
  type: string;
}

const NAME: Record<string, RegExp> = {
  mlir: /%[\w$.-]+/g,
  llvm: /%[\w$.-]+/g,
  ptx: /%\w+(?:\.\w+)?/g,
  sass: /\b(?:U?R|U?P)\d+\b/g,
  amdgcn: /\b[sva]\d+\b/g,
};

/** The name that stands at a column (from 0) of a line; null where none does. */
export function nameAt(language: string, line: string, column: number): { name: string; from: number } | null {
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

/** What a text says of a name, seen from a line (from 1) that holds it. Names repeat from function to function. */
export function factsOf(language: string, lines: readonly string[], name: string, at: number): NameFacts {
  const [first, last] = scopeAround(language, lines, at);
  const holding: number[] = [];
  const pattern = new RegExp(`${escaped(name)}(?![\\w$-]|\\.\\w)`);
  for (let line = first; line <= last; line++) {
    const text = lines[line - 1]!;
    if (text.includes(name) && pattern.test(text)) holding.push(line);
  }
  const defining = holding.filter((line) => defines(language, lines[line - 1]!, name));
  const definition = defining.filter((line) => line <= at).at(-1) ?? defining[0] ?? 0;
  const type = language === "mlir" && definition > 0 ? mlirType(lines, definition, name) : "";
  return { name, definition, uses: holding.filter((line) => line !== definition), type };
}

/** The function that a line stands in: its first and last line; of a text without functions all of it. */
function scopeAround(language: string, lines: readonly string[], at: number): [number, number] {
  const starts =
    language === "mlir" ? /\b(?:tt|llvm|func|gpu)\.func\b/
    : language === "llvm" ? /^define\b/
    : language === "ptx" ? /^\s*\.(?:visible|entry|func|weak)\b/
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
        new RegExp(`(?:func\\b.*|\\^bb\\d+.*|^\\s*)[(,] ?${word}: |\\^bb\\d+\\(.*${word}: `).test(line) ||
        new RegExp(`(?:scf\\.for |iter_args\\(.*|scf\\.while.*\\()${word} = `).test(line)
      );
    case "llvm":
      return new RegExp(`^\\s*${word} = `).test(line) || (/^define\b/.test(line) && line.includes(name));
    case "ptx":
      return new RegExp(`^\\s*(?:@!?%\\w+\\s+)?[a-z][\\w.:]*\\s+\\{?(?:%\\w+, )*${word}\\b`).test(line) && !/^\s*(?:@!?%\w+\s+)?(?:st|bra|red|bar)\b/.test(line);
    case "sass":
      return new RegExp(`^(?:[^A-Z@]*)(?:@!?U?P\\w+ )?[A-Z][\\w.]* (?:P\\d, |PT, )*${word}\\b`).test(line);
    default:
      return new RegExp(`^\\s*\\w+\\s+${word}\\b`).test(line);
  }
}

/** The type of a result or an argument, from the line that defines it. */
function mlirType(lines: readonly string[], definition: number, name: string): string {
  const line = lines[definition - 1]!;
  const argument = line.indexOf(`${name}: `);
  if (argument >= 0) return upToComma(line.slice(argument + name.length + 2)).replace(/ \{.*$/, "");
  if (line.includes("iter_args(") && line.includes(`${name} = `) && !line.trimStart().startsWith(name)) {
    const names = [...line.slice(line.indexOf("iter_args(")).matchAll(/(%[\w$.-]+) = /g)].map((found) => found[1]);
    const types = listed(line.match(/\) -> \((.*)\)\s+: /)?.[1] ?? line.match(/\) -> (.*?)\s+: /)?.[1] ?? "");
    return types[names.indexOf(name)] ?? "";
  }
  const arrow = line.lastIndexOf(" -> ");
  if (arrow >= 0) return line.slice(arrow + 4).replace(/ : \S+ \{$| \{$/, "").trim();
  const colon = topLevelColon(line);
  return colon < 0 ? "" : lastType(line.slice(colon + 2).trim());
}

/** Of "T1, T2 -> T3" forms only one type is left here; several operands share the last one. */
function lastType(types: string): string {
  const all = listed(types);
  return all[all.length - 1] ?? types;
}

/** The last " : " outside brackets. */
function topLevelColon(line: string): number {
  let depth = 0;
  for (let at = line.length - 1; at > 0; at--) {
    const letter = line[at]!;
    if (letter === ">" && line[at - 1] !== "-") depth++;
    else if (")]}".includes(letter)) depth++;
    else if ("<([{".includes(letter)) depth--;
    else if (letter === ":" && depth === 0 && line[at - 1] === " ") return at;
  }
  return -1;
}

/** "a<b, c>, d" -> ["a<b, c>", "d"]. */
function listed(types: string): string[] {
  const found: string[] = [];
  let rest = types;
  while (rest.trim() !== "") {
    const one = upToComma(rest);
    found.push(one.trim());
    rest = rest.slice(one.length + 1);
  }
  return found;
}

function upToComma(text: string): string {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at]!;
    if ("<([{".includes(letter)) depth++;
    else if (")]}".includes(letter) || (letter === ">" && text[at - 1] !== "-")) {
      if (depth === 0) return text.slice(0, at);
      depth--;
    } else if (letter === "," && depth === 0) return text.slice(0, at);
  }
  return text;
}

/** The shape and the encoding of a tile's type, aliases of the text spelt out; null for what has no layout. */
export function layoutOf(type: string, lines: readonly string[]): { shape: string; encoding: string } | null {
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

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
