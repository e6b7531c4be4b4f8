// Types of values in a text of MLIR. The pretty form leaves most types out: what an operation's own format writes says what its results are.

/** The types of the results of the operation that begins on a line (from 1), as the text writes them; none where it does not say. */
export function resultTypes(lines: readonly string[], line: number): readonly string[] {
  const text = lines[line - 1]!;
  const [, names, operation, rest] = /^\s*(%.*?) = "?([\w.]+)"?(.*)$/.exec(text) ?? [];
  if (names === undefined || operation === undefined) return [];
  const known = KNOWN[operation];
  if (known !== undefined) return [known];
  const written = writtenTypes(endsLater(text) ? lastLine(lines, line) : rest!);
  if (written === null) return / = arith\.constant (?:true|false)\b/.test(text) ? ["i1"] : [];
  return ofOperation(operation, resultCount(names), written, rest!).map(withItsName);
}

/** The type of an argument of a function, a block or a loop, from the line that names it; "" where it does not say. */
export function argumentType(line: string, name: string): string {
  const declared = new RegExp(`${escaped(name)}: `).exec(line);
  if (declared !== null)
    return upToComma(line.slice(declared.index + declared[0].length))
      .replace(/ \{.*$/, "")
      .trim();
  const written = writtenTypes(line);
  if (new RegExp(`scf\\.for ${escaped(name)} = `).test(line))
    return written?.types.at(-1) ?? "index";
  const carried = [...line.slice(line.indexOf("iter_args(")).matchAll(/(%[\w$.-]+) = /g)].map(
    (found) => found[1],
  );
  return withItsName(loopTypes(line)[carried.indexOf(name)] ?? "");
}

const TOKEN = "!ttg.async.token";
/** Operations whose results have one type, which the text does not write, or writes another one in its place. */
const KNOWN: Readonly<Record<string, string>> = {
  "ttg.async_copy_global_to_local": TOKEN,
  "ttg.async_commit_group": TOKEN,
  "ttg.async_wait": TOKEN,
  "ttng.tc_gen5_mma": TOKEN,
  "ttng.tc_gen5_mma_scaled": TOKEN,
  "ttng.tmem_store": TOKEN,
  "ttg.warp_id": "i32",
  "nvg.cluster_id": "i32",
  "nvg.tensor_memory_base": "!llvm.ptr<6>",
};
const COMPARISONS = new Set(["arith.cmpi", "arith.cmpf", "llvm.icmp", "llvm.fcmp"]);
/** Operations that write the types of several operands, of which the result has the first. */
const AS_FIRST = new Set(["tt.addptr", "llvm.getelementptr"]);

/** What comes after the last colon: `types`, and whether an arrow or a "to" says that they are the results'. */
interface Written {
  readonly types: readonly string[];
  readonly ofResults: boolean;
}

function ofOperation(
  operation: string,
  count: number,
  { types, ofResults }: Written,
  rest: string,
): readonly string[] {
  if (operation === "scf.for") return loopTypes(rest);
  if (operation === "llvm.extractvalue") return [member(types[0]!, rest)];
  if (operation === "llvm.extractelement") return [elementOf(types[0]!)];
  if (operation === "llvm.cmpxchg") return [`!llvm.struct<(${types.at(-1)!}, i1)>`];
  if (AS_FIRST.has(operation)) return types.slice(0, 1);
  if (COMPARISONS.has(operation)) return [withElement(types.at(-1)!, "i1")];
  if (operation === "tt.load" && !ofResults) return [pointee(types[0]!)];
  if (operation === "ttng.tmem_load") return [types[0]!, TOKEN].slice(0, count);
  if (ofResults || count > 1) return types.slice(0, count);
  return types.slice(-1);
}

/** The types at the end of an operation; null where there are none. */
function writtenTypes(text: string): Written | null {
  const bare = text.replace(/ \{$/, "");
  const colon = lastOutside(bare, " : ");
  const tail = colon < 0 ? bare : bare.slice(colon + 3);
  const arrow = lastOutside(tail, " -> ");
  if (colon < 0 && arrow < 0) return null;
  if (arrow >= 0) return { types: listed(unwrapped(tail.slice(arrow + 4))), ofResults: true };
  const to = lastOutside(tail, " to ");
  return to >= 0
    ? { types: listed(tail.slice(to + 4)), ofResults: true }
    : { types: listed(tail), ofResults: false };
}

/** What a loop carries, which its results are: `-> (types)  : i32 {`. */
function loopTypes(line: string): readonly string[] {
  const bare = line.replace(/ \{$/, "");
  const arrow = lastOutside(bare, " -> ");
  if (arrow < 0) return [];
  const after = bare.slice(arrow + 4);
  const colon = lastOutside(after, " : ");
  return listed(unwrapped((colon < 0 ? after : after.slice(0, colon)).trim()));
}

/** Whether the operation has a region, after which its types come. */
function endsLater(line: string): boolean {
  return line.endsWith("({") || line.includes(" = ttg.warp_specialize(");
}

/** The line on which an operation with regions ends: with its indentation, and with its type. */
function lastLine(lines: readonly string[], line: number): string {
  const indentation = /^\s*/.exec(lines[line - 1]!)![0];
  return (
    lines
      .slice(line)
      .find((one) => one.startsWith(`${indentation}})`) || one.startsWith(`${indentation}} : (`)) ??
    ""
  );
}

function resultCount(names: string): number {
  return names.split(", ").reduce((sum, one) => sum + Number(/:(\d+)$/.exec(one)?.[1] ?? 1), 0);
}

/** `struct<(i32, array<2 x f16>)>` and "%x[1, 0]" -> "f16". */
function member(type: string, rest: string): string {
  const places = /\[([\d, ]+)\]/.exec(rest)?.[1]!.split(", ").map(Number) ?? [];
  return places.reduce((whole, place) => {
    const array = /^!llvm\.array<\d+ x (.*)>$/.exec(whole)?.[1];
    const members = /^!llvm\.struct<(?:packed )?\((.*)\)>$/.exec(whole)?.[1];
    const inside = array ?? listed(members ?? "")[place] ?? "";
    // Inside a type of LLVM the dialect's name is left out.
    return /^(?:ptr|struct|array)\b/.test(inside) ? `!llvm.${inside}` : inside;
  }, type);
}

function elementOf(type: string): string {
  return /^vector<(?:\d+x)+(.*)>$/.exec(type)?.[1] ?? "";
}

/** A tile, a vector or a scalar of the same shape, with other elements. */
function withElement(type: string, element: string): string {
  const shaped = /^(tensor|vector)<((?:\d+x)+)(.*)>$/.exec(type);
  if (shaped === null) return element;
  const [, kind, shape, inside] = shaped;
  return `${kind}<${shape}${[element, ...listed(inside!).slice(1)].join(", ")}>`;
}

/** What a pointer, or a tile of pointers, points to. */
function pointee(type: string): string {
  const tile = /^tensor<(?:\d+x)+(.*)>$/.exec(type);
  const pointer = tile === null ? type : listed(tile[1]!)[0]!;
  const inside = /^!tt\.ptr<(.*)>$/.exec(pointer)?.[1];
  return inside === undefined ? "" : withElement(type, listed(inside)[0]!);
}

/** Some formats leave the name of a type out: "<128x64xf16, #shared, #smem>" is a buffer, "<8>" a pointer, "<tensor<...>>" a descriptor. */
function withItsName(type: string): string {
  if (!type.startsWith("<")) return type;
  if (type.startsWith("<tensor")) return `!tt.tensordesc${type}`;
  return /^<\d+>$/.test(type) ? `!llvm.ptr${type}` : `!ttg.memdesc${type}`;
}

// Brackets

/** Where a word is last outside brackets; -1 where it does not. */
function lastOutside(text: string, word: string): number {
  let depth = 0;
  for (let at = text.length - 1; at >= 0; at--) {
    if (closes(text, at)) depth++;
    else if (depth === 0 && text.startsWith(word, at)) return at;
    else if ("<([{".includes(text[at]!)) depth--;
  }
  return -1;
}

/** "a<b, c>, d" -> ["a<b, c>", "d"]. */
export function listed(types: string): string[] {
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
    if (closes(text, at)) {
      if (depth === 0) return text.slice(0, at);
      depth--;
    } else if ("<([{".includes(text[at]!)) depth++;
    else if (text[at] === "," && depth === 0) return text.slice(0, at);
  }
  return text;
}

function closes(text: string, at: number): boolean {
  return ")]}".includes(text[at]!) || (text[at] === ">" && text[at - 1] !== "-");
}

function unwrapped(types: string): string {
  return types.startsWith("(") && types.endsWith(")") ? types.slice(1, -1) : types;
}

/** A text, as a regular expression that finds it. */
export function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
