import assert from "node:assert/strict";
import { test } from "node:test";
import { differences } from "../src/differences";
import { atOnce } from "../src/slices";

/** The parts of both texts that are marked. */
function marked(a: readonly string[], b: readonly string[]): [string, string][] {
  const [one, other] = [a.join("\n"), b.join("\n")];
  return atOnce(differences(a, b)).changes.map((change) => [
    one.slice(change.fromA, change.toA),
    other.slice(change.fromB, change.toB),
  ]);
}

test("values that only got another number are no change", () => {
  const before = [
    "%0 = a",
    "%1 = b %0",
    "%2:2 = c %1",
    "scf.for %i = %0 to %1 iter_args(%acc = %0)",
    "use %2#1, %acc, %i",
  ];
  const after = [
    "%0 = new",
    "%1 = a",
    "%2 = b %1",
    "%3:2 = c %2",
    "scf.for %j = %1 to %2 iter_args(%acc_4 = %1)",
    "use %3#1, %acc_4, %j",
  ];
  assert.deepEqual(marked(before, after), [["", "%0 = new\n"]]);
});

test("another operand is a change, also where both are renamed", () => {
  const before = ["%0 = a", "%1 = b", "%2 = sub %0, %1"];
  const after = ["%5 = a", "%6 = b", "%7 = sub %6, %5"];
  const [[first] = []] = marked(before, after);
  assert.ok(first !== undefined);
  assert.equal(marked(before, ["%5 = a", "%6 = b", "%7 = sub %5, %6"]).length, 0);
});

test("the value of another operation has not just another name", () => {
  const before = ["%0 = a", "%1 = old", "keep", "use %1"];
  const after = ["%0 = a", "%9 = new", "%8 = newer", "keep", "use %9"];
  assert.ok(marked(before, after).some(([one, other]) => one === "1" && other === "9"));
});

test("a value that is used before its definition is known too", () => {
  const before = ["%1 = phi %2", "%2 = add %1"];
  assert.deepEqual(marked(before, ["%5 = phi %6", "%6 = add %5"]), []);
});

test("each function has its own names", () => {
  const a = ["tt.func @f(%x: i32) {", "use %x", "}", "tt.func @g(%x: i32) {", "use %x", "}"];
  const b = ["tt.func @f(%y: i32) {", "use %y", "}", "tt.func @g(%z: i32) {", "use %z", "}"];
  assert.deepEqual(marked(a, b), []);
});

test("so has a function that begins with the same line in both", () => {
  const a = [
    "tt.func @f(%x: i32) {",
    "%0 = f %x",
    "use %0",
    "}",
    "tt.func @g(%x: i32) {",
    "%0 = g %x",
    "use %0",
    "}",
  ];
  const b = [
    "tt.func @f(%x: i32) {",
    "%1 = f %x",
    "use %1",
    "}",
    "tt.func @g(%x: i32) {",
    "%2 = g %x",
    "use %2",
    "}",
  ];
  assert.deepEqual(marked(a, b), []);
});

test("registers of PTX are renamed, and special ones are not", () => {
  assert.deepEqual(
    marked(
      ["mov.u32 %r1, %tid.x;", "st.b32 [%rd1], %r1;"],
      ["mov.u32 %r2, %tid.x;", "st.b32 [%rd1], %r2;"],
    ),
    [],
  );
  assert.notEqual(marked(["mov.u32 %r1, %tid.x;"], ["mov.u32 %r2, %ctaid.x;"]).length, 0);
});
