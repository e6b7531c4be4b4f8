import assert from "node:assert/strict";
import { test } from "node:test";
import { factsOf, layoutOf, nameAt } from "../src/names";
import { controlWords } from "../src/text_pane";

const MODULE = `\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @first(%q: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) {
    %rows = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #ttg.slice<{dim = 1, parent = #mma}>>
    %rows_1 = tt.expand_dims %rows {axis = 1 : i32} : tensor<128xi32, #ttg.slice<{dim = 1, parent = #mma}>> -> tensor<128x1xi32, #mma>
    %sum:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %cst, %top = %rows) -> (tensor<128x64xf32, #mma>, tensor<128xi32>)  : i32 {
      %b = arith.addf %acc, %acc : tensor<128x64xf32, #mma>
      scf.yield %b, %top : tensor<128x64xf32, #mma>, tensor<128xi32>
    }
    tt.store %q, %sum#0 : tensor<128x64x!tt.ptr<f16>, #blocked>
    tt.return
  }
  tt.func private @second(%q: i32) {
    tt.return
  }
}`.split("\n");

const facts = (name: string, line: number) => factsOf("mlir", MODULE, name, line);

test("a name is found under the pointer, and nothing beside it", () => {
  assert.deepEqual(nameAt("mlir", "    %rows_1 = tt.expand_dims %rows", 6), {
    name: "%rows_1",
    from: 4,
  });
  assert.equal(nameAt("mlir", "    tt.return", 6), null);
  assert.equal(nameAt("python", "x = 1", 0), null);
});

test("a result: its definition, its uses, its type", () => {
  assert.deepEqual(facts("%rows_1", 6), {
    name: "%rows_1",
    definition: 6,
    uses: [],
    types: ["tensor<128x1xi32, #mma>"],
  });
  assert.deepEqual(facts("%rows", 6).uses, [6, 7]);
  assert.deepEqual(facts("%rows", 6).types, [
    "tensor<128xi32, #ttg.slice<{dim = 1, parent = #mma}>>",
  ]);
  assert.deepEqual(facts("%b", 9).types, ["tensor<128x64xf32, #mma>"]);
});

test("arguments of functions and of loops are definitions", () => {
  assert.equal(facts("%q", 11).definition, 4);
  assert.deepEqual(facts("%q", 11).types, ["!tt.ptr<f16>"]);
  assert.equal(facts("%acc", 8).definition, 7);
  assert.deepEqual(facts("%acc", 8).types, ["tensor<128x64xf32, #mma>"]);
  assert.deepEqual(facts("%top", 9).types, ["tensor<128xi32>"]);
});

test("the same name in another function is another value", () => {
  assert.equal(facts("%q", 14).definition, 14);
  assert.deepEqual(facts("%q", 14).uses, []);
  assert.deepEqual(facts("%q", 4).uses, [11]);
});

test("a name that is the beginning of another one is not that one", () => {
  assert.deepEqual(facts("%rows", 5).uses, [6, 7]);
});

test("a layout has its aliases spelled out", () => {
  assert.deepEqual(layoutOf("tensor<128xi32, #ttg.slice<{dim = 1, parent = #mma}>>", MODULE), {
    shape: "128",
    encoding:
      "#ttg.slice<{dim = 1, parent = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>}>",
  });
  assert.equal(layoutOf("tensor<128xi32>", MODULE), null);
  assert.equal(layoutOf("i32", MODULE), null);
});

test("LLVM IR, PTX and SASS", () => {
  const llvm = [
    "define void @k(ptr %0) {",
    "  %1 = load i32, ptr %0",
    "  %12 = add i32 %1, 1",
    "}",
  ];
  assert.deepEqual(factsOf("llvm", llvm, "%1", 3), {
    name: "%1",
    definition: 2,
    uses: [3],
    types: [],
  });
  const ptx = [
    "\tmov.u32 \t%r1, %ctaid.x;",
    "\tadd.s32 \t%r2, %r1, 1;",
    "\tst.global.b32 [ %rd1 + 0 ], { %r2 };",
  ];
  assert.equal(factsOf("ptx", ptx, "%r2", 3).definition, 2);
  const sass = [
    "  /*0010*/  S2R R20, SR_TID.X ;",
    "  /*0040*/  LOP3.LUT R18, R20, 0x78, RZ, 0xc0, !PT ;",
  ];
  assert.deepEqual(factsOf("sass", sass, "R20", 2), {
    name: "R20",
    definition: 1,
    uses: [2],
    types: [],
  });
});

test("control codes in words", () => {
  assert.equal(
    controlWords("B01----:R2:W-:Y:S04"),
    "waits until scoreboard 0 and 1 is clear; sets scoreboard 2 until its operands are read; lets another warp go first; the warp's next instruction follows after 4 cycles",
  );
  assert.equal(
    controlWords("B------:R-:W-:-:S01"),
    "the warp's next instruction follows after 1 cycle",
  );
});
