// Layouts say here what they say in Python: js/test/layouts.json has Python's answers.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { TileData } from "../src/data";
import { moves, runs, TileLayout } from "../src/layout_math";
import { inkOn, sequential } from "../src/palette";

interface Fixture {
  layouts: { tile: TileData; replication: number; holders: Record<string, number[][]> }[];
  moved: Record<string, number>;
}

const fixture = JSON.parse(
  readFileSync(new URL("../../test/layouts.json", import.meta.url), "utf8"),
) as Fixture;
const made = fixture.layouts.map(({ tile }) => new TileLayout(tile, 2));

const INPUTS: Record<TileData["memory"], readonly string[]> = {
  registers: ["register", "lane", "warp", "block"],
  "shared memory": ["offset", "block"],
  "tensor memory": ["row", "column"],
};

test("every element has the holders that Python names", () => {
  fixture.layouts.forEach(({ tile, replication, holders }, at) => {
    const layout = made[at]!;
    assert.equal(layout.replication, replication, tile.name);
    for (const [index, expected] of Object.entries(holders)) {
      const number = index
        .split(",")
        .reduce((sum, position, dim) => sum * tile.shape[dim]! + Number(position), 0);
      assert.deepEqual(layout.index(number).join(","), index);
      const found = [...layout.holders(number)].map((holder) =>
        INPUTS[tile.memory].map((input) =>
          input === "offset" ? layout.offset(holder) : layout.part(holder, input),
        ),
      );
      assert.deepEqual(found, expected, `${tile.name} ${index}`);
    }
  });
});

test("the hardware's picture has one cell for each holder", () => {
  for (const layout of made) {
    const size = layout.hardwareSize;
    const cells = new Set<string>();
    layout.elements.forEach((_, number) => {
      const { x, y } = layout.place(number);
      assert.ok(
        x >= 0 && x < size.x && y >= 0 && y < size.y,
        `${layout.data.name} ${x},${y} of ${size.x},${size.y}`,
      );
      cells.add(`${x},${y}`);
      assert.equal(layout.at({ x, y }), number);
    });
    assert.equal(cells.size, layout.elements.length, layout.data.name);
  }
});

test("banks are four bytes wide and follow the padding", () => {
  const padded = made[5]!;
  const at = (row: number): number => padded.bank(padded.holders(row * 16)[0]!);
  // Rows of 16 elements of 2 bytes, then 4 elements free: 40 bytes a row, ten banks.
  assert.deepEqual([0, 1, 2, 3, 4].map(at), [0, 10, 20, 30, 8]);
});

test("what a conversion moves, counted by holder", () => {
  const counts: Record<string, number> = { stays: 0, register: 0, lane: 0, warp: 0, block: 0 };
  for (const move of moves(made[0]!, made[1]!)) counts[move]!++;
  assert.deepEqual(counts, fixture.moved);
});

test("a layout moves nothing to itself", () => {
  assert.ok(moves(made[0]!, made[0]!).every((move) => move === "stays"));
});

test("runs are the PTX manual's pairs: T0 has c0 and c1 at (0,0..1), c2 and c3 at (8,0..1)", () => {
  const found = runs(made[0]!, 0, 16, 16);
  assert.deepEqual(found[0], { row: 0, column: 0, length: 2, thread: 0, register: 0 });
  assert.deepEqual(
    found.find((run) => run.row === 8 && run.column === 0),
    { row: 8, column: 0, length: 2, thread: 0, register: 2 },
  );
  assert.equal(
    found.reduce((sum, run) => sum + run.length, 0),
    256,
  );
});

test("a scale runs from dark to light, and its ink is legible at both ends", () => {
  assert.equal(inkOn(sequential(0)), "#ffffff");
  assert.equal(inkOn(sequential(1)), "#000000");
  assert.equal(inkOn("#f0e442"), "#000000");
});
