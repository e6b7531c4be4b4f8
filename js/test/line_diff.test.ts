import assert from "node:assert/strict";
import { test } from "node:test";
import { differences, firstOperation } from "../src/differences";
import { type Hunk, lineDiff } from "../src/line_diff";
import { nameless } from "../src/renaming";
import { atOnce } from "../src/slices";

const hunksOf = (a: readonly string[], b: readonly string[]): Hunk[] => atOnce(lineDiff(a, b));
const changes = (a: string, b: string) => atOnce(differences(a.split("\n"), b.split("\n"))).changes;

/** Numbers that look random and are the same in every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

function applied(a: readonly string[], b: readonly string[]): string[] {
  const out: string[] = [];
  let at = 0;
  for (const hunk of hunksOf(a, b)) {
    out.push(...a.slice(at, hunk.fromA), ...b.slice(hunk.fromB, hunk.toB));
    at = hunk.toA;
  }
  return [...out, ...a.slice(at)];
}

/** Lines of the longest common subsequence, by the textbook's table. */
function commonLines(a: readonly string[], b: readonly string[]): number {
  let row = new Array<number>(b.length + 1).fill(0);
  for (const line of a) {
    const next = [0];
    b.forEach((other, at) =>
      next.push(line === other ? row[at]! + 1 : Math.max(row[at + 1]!, next[at]!)),
    );
    row = next;
  }
  return row[b.length]!;
}

test("the hunks lead from one text to the other", () => {
  const random = numbers(7);
  for (let round = 0; round < 300; round++) {
    const letters = 1 + Math.floor(random() * 12);
    const text = (): string[] =>
      Array.from(
        { length: Math.floor(random() * 40) },
        () => `line ${Math.floor(random() * letters)}`,
      );
    const [a, b] = [text(), text()];
    assert.deepEqual(applied(a, b), b);
  }
});

test("where no line is unique the script is the shortest", () => {
  const random = numbers(11);
  for (let round = 0; round < 200; round++) {
    const text = (): string[] =>
      Array.from({ length: 6 + Math.floor(random() * 14) }, () => "ab"[Math.floor(random() * 2)]!);
    const [a, b] = [text(), text()];
    const edits = hunksOf(a, b).reduce(
      (sum, hunk) => sum + hunk.toA - hunk.fromA + hunk.toB - hunk.fromB,
      0,
    );
    assert.equal(edits, a.length + b.length - 2 * commonLines(a, b));
  }
});

test("equal texts have no hunks, and indentation is no difference", () => {
  assert.deepEqual(hunksOf(["a", "b"], ["a", "b"]), []);
  assert.deepEqual(hunksOf(["a", "  b"], ["a", "b"]), []);
  assert.deepEqual(hunksOf([], ["a"]), [{ fromA: 0, toA: 0, fromB: 0, toB: 1 }]);
});

test("ten thousand lines with one inserted have one hunk", () => {
  const a = Array.from({ length: 10_000 }, (_, at) => `%${at} = llvm.insertvalue %${at - 1}`);
  const b = [...a.slice(0, 5000), "a new line", ...a.slice(5000)];
  assert.deepEqual(hunksOf(a, b), [{ fromA: 5000, toA: 5000, fromB: 5000, toB: 5001 }]);
});

test("blocks that share nothing are one hunk, however large", () => {
  const a = Array.from({ length: 3000 }, (_, at) => `a${at % 1000}`);
  const b = Array.from({ length: 3000 }, (_, at) => `b${at % 1000}`);
  assert.deepEqual(hunksOf(a, b), [{ fromA: 0, toA: 3000, fromB: 0, toB: 3000 }]);
});

/** The second text, rebuilt from the first and the changes. */
function rebuilt(a: string, b: string): string {
  let out = "";
  let last = 0;
  for (const change of changes(a, b)) {
    assert.ok(
      change.fromA >= last && change.toA <= a.length && change.toB <= b.length,
      "in order, inside the texts",
    );
    out += a.slice(last, change.fromA) + b.slice(change.fromB, change.toB);
    last = change.toA;
  }
  return out + a.slice(last);
}

test("after a value that is new, those that it renumbers are not marked", () => {
  const a = "%a = tt.load %p\n%b_62 = arith.cmpi slt, %a, %n\n%c_63 = tt.splat %b_62\ntt.return";
  const b =
    "%a = tt.load %p\n%new = tt.splat %a\n%b_63 = arith.cmpi slt, %a, %n\n%c_64 = tt.splat %b_63\ntt.return";
  const [change, ...more] = changes(a, b);
  assert.deepEqual(more, []);
  assert.equal(b.slice(change!.fromB, change!.toB), "%new = tt.splat %a\n");
});

function withoutNames(text: string): string[] {
  return text.split("\n").map(nameless);
}

test("changes lead from one text to the other, but for the names of values", () => {
  const random = numbers(23);
  for (let round = 0; round < 300; round++) {
    const text = (): string =>
      Array.from(
        { length: Math.floor(random() * 20) },
        () => `%v${Math.floor(random() * 4)} = op${Math.floor(random() * 4)}`,
      ).join("\n");
    const [a, b] = [text(), text()];
    assert.deepEqual(withoutNames(rebuilt(a, b)), withoutNames(b));
  }
});

test("changes by characters stay inside the texts, in order", () => {
  const a = "module {\n  %0 = tt.load %p\n  tt.return\n}";
  const b = "module {\n  %0 = tt.load %q\n  %1 = tt.splat %0\n  tt.return\n}\nend";
  let [lastA, lastB] = [0, 0];
  let rebuilt = "";
  for (const change of changes(a, b)) {
    assert.ok(
      change.fromA >= lastA &&
        change.fromB >= lastB &&
        change.toA <= a.length &&
        change.toB <= b.length,
    );
    rebuilt += a.slice(lastA, change.fromA) + b.slice(change.fromB, change.toB);
    [lastA, lastB] = [change.toA, change.toB];
  }
  assert.equal(rebuilt + a.slice(lastA), b);
});

test("of too many changes those near each other are one, but none goes on for ever", () => {
  const a = Array.from({ length: 12_000 }, (_, at) => `${at % 2 === 1 ? "old" : "keep"} ${at}`);
  const b = a.map((line) => line.replace("old", "new"));
  const found = atOnce(differences(a, b));
  assert.ok(found.coarse);
  const [one, other] = [a.join("\n"), b.join("\n")];
  assert.equal(rebuilt(one, other), other);
  const lines = found.changes.map(
    (change) => one.slice(change.fromA, change.toA).split("\n").length,
  );
  assert.ok(lines.length < 100 && Math.max(...lines) < 320, `${lines}`);
});

test("the first operation that differs is no name of a layout and no attribute", () => {
  const head = ["#blocked = #ttg.blocked<{}>", 'module attributes {"ttg.target" = "cuda:80"} {'];
  const left = [...head, "  tt.func public @f() {", "    %a = tt.load %p", "    tt.return", "}"];
  const right = left.map((line) => line.replace("80", "90").replace("blocked<{}>", "blocked<1>"));
  right.splice(4, 0, "    %b = ttg.local_alloc %a");
  const found = atOnce(differences(left, right));
  assert.equal(firstOperation(found, right), 5);
  assert.equal(firstOperation(atOnce(differences(left, left)), left), 0);
  const fits = (line: number): boolean => line === 1;
  assert.equal(firstOperation(found, right, fits), 5, "the first where none fits");
});
