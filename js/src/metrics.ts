// Bars beside the lines: which numbers there are, where they come from, and what they are for the lines of another text.
import type { IrView, MetricData } from "./data";
import { choice, element } from "./dom";
import type { Side } from "./side";

/** The numbers that a text has beside its lines, and what they are in words. */
export interface Bars {
  values: ReadonlyMap<number, number>;
  unit: string;
}

export const NO_BARS: Bars = { values: new Map(), unit: "" };

/** What the compiler makes, in its order. */
const ORDER = ["source", "ttir", "ttgir", "llir", "ptx", "amdgcn", "sass"];

/** Origins of numbers that are a property of the code, and of no run. */
const OF_THE_CODE = ["compiler", "machine code"];

/** Whether a run gave the numbers. */
export function isMeasured({ origin }: MetricData): boolean {
  return !OF_THE_CODE.includes(origin);
}

/** The metrics of all sides; one of each name. */
export function metricsOf(view: IrView): readonly MetricData[] {
  const found = new Map<string, MetricData>();
  for (const side of view.sides)
    for (const metric of side.metrics) if (!found.has(metric.name)) found.set(metric.name, metric);
  return [...found.values()];
}

/** The list to choose from, grouped by where numbers come from, and where the chosen ones do; null where there is nothing to choose. */
export function metricChoice(
  view: IrView,
  chosen: string,
  onchange: (name: string) => void,
): HTMLElement | null {
  const metrics = metricsOf(view);
  if (metrics.length === 0) return null;
  const origin = element("span", { class: "kl-soft kl-origin" });
  const notify = (name: string) =>
    (origin.textContent = metrics.find((one) => one.name === name)?.origin ?? "");
  const options = metrics.map((one) => ({ value: one.name, words: one.name, group: one.origin }));
  const select = choice(
    "Bars beside the lines",
    [{ value: "", words: "no bars" }, ...options],
    chosen,
    (name) => {
      notify(name);
      onchange(name);
    },
  );
  notify(chosen);
  for (const option of select.options) {
    const metric = metrics.find((one) => one.name === option.value);
    if (metric !== undefined) option.title = metric.unit;
  }
  return element("span", { class: "kl-group" }, select, origin);
}

/** The bars of a metric beside a text; none where every line that has one has the same by itself. */
export function barsOf(side: Side, name: string, place: string): Bars {
  const metric = side.data.metrics.find((one) => one.name === name);
  if (metric === undefined) return NO_BARS;
  const values = side.metric(name, place);
  if (
    place === metric.stage &&
    metric.origin === "machine code" &&
    new Set(values.values()).size < 2
  )
    return NO_BARS;
  const scope = isMadeFrom(place, metric.stage) ? ", of all that its operation became" : "";
  const origin = isMeasured(metric) ? ` (${metric.origin})` : "";
  return { values, unit: `${metric.unit}${scope}${origin}` };
}

/** Whether a text is a later one than a stage: then several of its lines may have the number of one line there. */
function isMadeFrom(place: string, stage: string): boolean {
  const at = ORDER.indexOf(place.split(".")[0]!);
  return at > ORDER.indexOf(stage);
}

/** The number of one line in words; "" where it has none. */
export function barWords(bars: Bars, line: number): string {
  const value = bars.values.get(line);
  return value === undefined ? "" : `${shortNumber(value)} ${bars.unit}`;
}

export function shortNumber(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(3);
}
