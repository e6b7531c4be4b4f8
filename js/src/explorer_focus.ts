// Where an explorer begins: at the hottest line that was measured, else at the first operation that a pass changed.
import { firstOperation } from "./differences";
import { compared } from "./diff_pane";
import type { Shown } from "./explorer_columns";
import type { Chosen } from "./linked_lines";
import { isMeasured } from "./metrics";
import type { Side, Text } from "./side";

/** The kernel's line with the most of a metric that a run gave; null where there is none. */
export function hottestLine(side: Side, name: string): Chosen | null {
  const metric = side.data.metrics.find((one) => one.name === name);
  if (metric === undefined || !isMeasured(metric)) return null;
  const lines = [...side.metric(name, "source")];
  if (lines.length === 0) return null;
  const [line] = lines.reduce((most, one) => (one[1] > most[1] ? one : most));
  return { side, place: "source", line };
}

/** In texts with more lines no one waits for it. */
const MOST_LINES = 5000;

/** The first operation that a pass changed, where one of the kernel's lines made it if there is such a one; null where nothing is to be seen, or much. What takes long is taken up again by `again` while it is wanted. */
export function changedOperation(
  before: Text,
  after: Shown,
  isWanted: () => boolean,
  again: () => void,
): Chosen | null {
  if (before.lines.length + after.text.lines.length > MOST_LINES) return null;
  const comparing = compared(before, after.text);
  if (!comparing.slice()) {
    void comparing.finish(isWanted).then(() => isWanted() && again());
    return null;
  }
  const { side, place, text } = after;
  const line = firstOperation(
    comparing.result!,
    text.lines,
    (shown) => side.map.lines(place, "source", text.number(shown)).length > 0,
  );
  return line === 0 ? null : { side, place, line: text.number(line) };
}
