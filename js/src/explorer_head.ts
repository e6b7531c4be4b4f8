// What is above the panes: the compilations and what is known of them, and the facts of the selected pass.
import type { IrSide, IrView, PassData } from "./data";
import { element } from "./dom";
import { worded } from "./parts/table";
import { changeWords, milliseconds, type Row } from "./pass_list";
import type { Side } from "./side";

/** Operations whose numbers changed that are named one by one. */
const MOST_OPERATIONS = 12;

/** The title with the facts of each side, failures and notices. */
export function headOf({ title, sides }: IrView): HTMLElement[] {
  const facts = sides.length === 2 ? deltas(sides[0]!, sides[1]!) : factsOf(sides[0]!);
  const failures = sides.filter((side) => side.failure).map((side) => failureBox(side.failure));
  const notices = sides
    .filter((side) => side.notice)
    .map((side) =>
      element(
        "div",
        { class: "kl-notice", role: "note" },
        `${sides.length === 2 ? `${side.name}: ` : ""}${side.notice}`,
      ),
    );
  return [
    element("div", { class: "kl-head" }, element("b", {}, title), ...facts),
    ...failures,
    ...notices,
  ];
}

function factsOf({ facts }: IrSide): HTMLElement[] {
  const words = facts.map(([name, value]) => `${name} ${value}`).join(" · ");
  return words ? [element("span", { class: "kl-soft" }, words)] : [];
}

/** What is another number on the right than on the left, and in small what is the same. */
function deltas(left: IrSide, right: IrSide): HTMLElement[] {
  const there = new Map(right.facts);
  const pairs = left.facts.flatMap(([name, value]) => {
    const other = there.get(name);
    return other === undefined ? [] : [{ name, value, other }];
  });
  const changed = pairs.filter(({ value, other }) => value !== other);
  const same = pairs.filter(({ value, other }) => value === other);
  if (pairs.length === 0) return [];
  const words = changed.map(({ name, value, other }) =>
    element("span", { class: "kl-delta" }, `${name} `, element("strong", {}, fromTo(value, other))),
  );
  return [
    element(
      "div",
      { class: "kl-deltas" },
      element("span", { class: "kl-soft" }, `${left.name} to ${right.name}:`),
      ...(words.length > 0 ? words : [element("span", {}, "the same resources")]),
      ...(same.length > 0
        ? [
            element(
              "span",
              { class: "kl-soft" },
              `same ${same.map(({ name, value }) => `${name} ${value}`).join(", ")}`,
            ),
          ]
        : []),
    ),
  ];
}

/** "156 to 109", "40 to 56 KB"; words as "4 bytes → nothing". */
export function fromTo(left: string, right: string): string {
  const [from, to] = [left, right].map((one) => /^([\d,]+)( bytes)?$/.exec(one));
  if (from == null || to == null) return `${left} → ${right}`;
  if (from[2] === undefined || to[2] === undefined) return `${left} to ${right}`;
  const sizes = [from, to].map((one) => Number(one[1]!.replaceAll(",", "")));
  if (Math.max(...sizes) < 1024) return `${sizes.join(" to ")} bytes`;
  return `${sizes.map((size) => Number((size / 1024).toFixed(1))).join(" to ")} KB`;
}

/** What failed, and below it the line of the kernel with a caret under the place. */
function failureBox(failure: string): HTMLElement {
  const [words, ...place] = failure.split("\n");
  const excerpt =
    place.length > 0 ? [element("pre", { class: "kl-excerpt" }, place.join("\n"))] : [];
  return element("div", { class: "kl-failure", role: "alert" }, words!, ...excerpt);
}

/** What the pass of a row cost and changed, and what it does where that is known. */
export function passFacts(
  row: Row,
  sides: readonly Side[],
  note: string | undefined,
): HTMLElement[] {
  const ops = Object.entries(row.pass.op_changes).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const words = ops
    .slice(0, MOST_OPERATIONS)
    .map(([name, change]) => `${name} ${change > 0 ? "+" : "−"}${Math.abs(change)}`);
  if (ops.length > MOST_OPERATIONS)
    words.push(`and ${ops.length - MOST_OPERATIONS} other operations`);
  return [
    element(
      "div",
      {},
      element("b", {}, row.label),
      ...passesOf(row, sides).map(({ name, pass }) =>
        element(
          "span",
          { class: "kl-soft kl-cost" },
          `${name ? `${name}: ` : ""}${costWords(pass)}${pass.arguments ? `, called with ${pass.arguments}` : ""}`,
        ),
      ),
    ),
    ...(words.length > 0 ? [element("div", { class: "kl-op-changes" }, words.join(" · "))] : []),
    ...(note
      ? [element("details", {}, element("summary", {}, "What this pass does"), ...worded(note))]
      : []),
  ];
}

/** The pass of one side, or of both sides with their names. */
function passesOf(row: Row, sides: readonly Side[]): { name: string; pass: PassData }[] {
  if (sides.length < 2) return [{ name: "", pass: row.pass }];
  const found = [sides[0]!.pass(row.left ?? -1), sides[1]!.pass(row.right ?? -1)];
  return found.flatMap((pass, side) =>
    pass === null ? [] : [{ name: sides[side]!.data.name, pass }],
  );
}

function costWords(pass: PassData): string {
  if (pass.effect === "failed") return "failed";
  const size =
    pass.ops_after > 0
      ? ` · ${pass.ops_after.toLocaleString("en")} operations ${changeWords(pass)}`
      : "";
  return `${milliseconds(pass.seconds)} ms${size}`;
}
