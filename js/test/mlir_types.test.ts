import assert from "node:assert/strict";
import { test } from "node:test";
import { argumentType, resultTypes } from "../src/mlir_types";
import { factsOf } from "../src/names";
// Made by tools/result_types.py: lines of the pretty form, and the types that MLIR's generic form writes for the same operations.
import CASES from "./result_types.json";

test("results have the types that MLIR says they have", () => {
  assert.ok(CASES.length > 100);
  for (const [lines, types] of CASES as [string[], string[]][])
    assert.deepEqual(resultTypes(lines, 1), types, lines.join());
});

test("one of several results has its own type, and their name those of all", () => {
  const lines = [
    "%a, %b:2 = scf.if %c -> (f32, i32, tensor<8xi1>) {",
    "  scf.yield",
    "}",
    "%d = arith.addi %b#0, %b#0 : i32",
  ];
  assert.deepEqual(factsOf("mlir", lines, "%a", 1).types, ["f32"]);
  assert.deepEqual(factsOf("mlir", lines, "%b#0", 4).types, ["i32"]);
  assert.deepEqual(factsOf("mlir", lines, "%b#1", 4).types, ["tensor<8xi1>"]);
  assert.deepEqual(factsOf("mlir", lines, "%b", 1).types, ["i32", "tensor<8xi1>"]);
  assert.equal(factsOf("mlir", lines, "%b#0", 4).definition, 1);
});

test("arguments of loops, blocks and functions", () => {
  const loop =
    "scf.for %i = %c0 to %n step %c1 iter_args(%x = %y, %p = %q) -> (tensor<8xf32, #blocked>, !tt.ptr<f32>)  : i32 {";
  assert.deepEqual(
    ["%i", "%x", "%p"].map((name) => argumentType(loop, name)),
    ["i32", "tensor<8xf32, #blocked>", "!tt.ptr<f32>"],
  );
  assert.equal(argumentType("scf.for %i = %c0 to %n step %c1  : i32 {", "%i"), "i32");
  assert.equal(argumentType("^bb0(%a: f32, %b: i32):", "%b"), "i32");
  assert.equal(
    argumentType(
      "tt.func public @f(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) {",
      "%p",
    ),
    "!tt.ptr<f16>",
  );
});

test("nothing is said of an operation that does not say it", () => {
  assert.deepEqual(resultTypes(["%a = other.op %b"], 1), []);
});
