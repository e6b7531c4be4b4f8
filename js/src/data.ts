// Made by tools/view_types.py from the data classes of kernellab/viz, which explain the fields; change those classes.

/** A text as it is shown: without what says where it came from. */
export interface TextData {
  readonly language: string;
  readonly content: string | null;
  readonly part: number;
  readonly line_count: number;
  readonly skipped: readonly number[];
}

/** One stage with a text. */
export interface StageData {
  readonly name: string;
  readonly text: number;
}

/** One pass, and the text after it. */
export interface PassData {
  readonly label: string;
  readonly stage: string;
  readonly name: string;
  readonly arguments: string;
  readonly effect: "changed" | "locations" | "unchanged" | "failed";
  readonly seconds: number;
  readonly ops_before: number;
  readonly ops_after: number;
  readonly op_changes: Readonly<Record<string, number>>;
  readonly text: number;
  readonly place: string;
}

/** `SourceMap.to_json`, with the text after each pass as a further stage. */
export interface SourceMapData {
  readonly file: string;
  readonly files: readonly string[];
  readonly chains: readonly (readonly number[])[];
  readonly origins: Readonly<Record<string, readonly (number | readonly number[])[]>>;
  readonly links: Readonly<Record<string, readonly (number | readonly number[])[]>>;
}

/** Something said about a line of the kernel: a remark of the compiler, a finding, an error. */
export interface MarginNote {
  readonly severity: "error" | "warning" | "remark" | "note";
  readonly words: string;
  readonly origin: string;
  readonly line: number;
  readonly advice: string;
  readonly said: string;
}

/** The control codes of one instruction. */
export interface ControlData {
  readonly line: number;
  readonly codes: string;
}

/** A number for lines of one stage; the view carries it to the lines of every other text. */
export interface MetricData {
  readonly name: string;
  readonly unit: string;
  readonly stage: string;
  readonly values: Readonly<Record<number, number>>;
  readonly origin: string;
}

/** A layout in words. */
export interface LayoutWords {
  readonly shape: string;
  readonly encoding: string;
  readonly words: string;
}

/** One compilation. */
export interface IrSide {
  readonly name: string;
  readonly kernel: string;
  readonly target: string;
  readonly facts: readonly (readonly [string, string])[];
  readonly failure: string;
  readonly failure_line: number;
  readonly notice: string;
  readonly texts: readonly TextData[];
  readonly stages: readonly StageData[];
  readonly passes: readonly PassData[];
  readonly map: SourceMapData;
  readonly notes: readonly MarginNote[];
  readonly controls: readonly ControlData[];
  readonly metrics: readonly MetricData[];
  readonly layouts: readonly LayoutWords[];
}

/** A pass of either side: its number in `IrSide.passes`, None if it did not run. */
export interface PassPairData {
  readonly label: string;
  readonly left: number | null;
  readonly right: number | null;
  readonly equal: boolean;
}

/** What the IR explorer draws. */
export interface IrView {
  readonly kind: "ir";
  readonly title: string;
  readonly sides: readonly IrSide[];
  readonly pairs: readonly PassPairData[];
  readonly pass_notes: Readonly<Record<string, string>>;
  readonly metric: string;
}

/** A text, and which elements of its level its lines stand for. */
export interface LinkedText {
  readonly level: number;
  readonly words: string;
  readonly text: TextData;
  readonly spans: readonly number[];
}

/** Elements that are drawn as one while it is closed: a module's, a kernel's. */
export interface GroupData {
  readonly name: string;
  readonly of: string;
  readonly parent: number;
}

/** One level: nodes of a graph, buffers, launches, lines. Lists have an entry an element. */
export interface GraphLevel {
  readonly name: string;
  readonly words: string;
  readonly remark: string;
  readonly above: number;
  readonly is_drawn: boolean;
  readonly names: readonly string[];
  readonly labels: readonly string[];
  readonly facts: readonly string[];
  readonly bytes: readonly number[];
  readonly inputs: readonly (readonly number[])[];
  readonly origins: readonly (readonly number[])[];
  readonly lines: readonly number[];
  readonly groups: readonly number[];
  readonly all_groups: readonly GroupData[];
  readonly tab_ids: readonly string[];
  readonly places: readonly number[];
}

/** A pair that the scheduler considered. */
export interface FusionRow {
  readonly first: string;
  readonly second: string;
  readonly pair: string;
  readonly elements: readonly number[];
  readonly fused: boolean;
  readonly reason: string;
  readonly saved_bytes: number;
}

/** One compiled graph, from the source to kernels. */
export interface GraphChain {
  readonly name: string;
  readonly remark: string;
  readonly levels: readonly number[];
  readonly fusions: readonly FusionRow[];
}

/** The view's data; its script travels first, since no other view lays out graphs. */
export interface GraphView {
  readonly kind: "graph";
  readonly title: string;
  readonly subtitle: string;
  readonly notes: readonly string[];
  readonly texts: readonly LinkedText[];
  readonly levels: readonly GraphLevel[];
  readonly chains: readonly GraphChain[];
}

/** Leads from a row of a table to a place in another view of the same launch. */
export interface Link {
  readonly row: number;
  readonly words: string;
  readonly title: string;
  readonly tab_id: string;
  readonly at: Readonly<Record<string, number | string | readonly number[]>>;
}

/** A tab of a view's bar: it leads to another view of the same launch. */
export interface Tab {
  readonly id: string;
  readonly words: string;
  readonly title: string;
  readonly is_listed: boolean;
  readonly why_not: string;
}

/** One answer of a card: a few of them are side by side at its top. */
export interface Tile {
  readonly name: string;
  readonly value: string;
  readonly detail: string;
  readonly tone: "" | "pass" | "warn" | "fail";
  readonly share: number | null;
  readonly link: Link | null;
  readonly cell: string;
}

/** One element, or several at once, of a strip. */
export interface StripCell {
  readonly words: string;
  readonly tone: "" | "pass" | "warn" | "fail";
}

/** A picture of a few elements in a row, with those at fault in red. */
export interface Strip {
  readonly title: string;
  readonly cells: readonly StripCell[];
}

/** A change of a source that was tried: `kernellab.errors.Change`. */
export interface Edit {
  readonly line: number;
  readonly old: string;
  readonly new: string;
}

/** A part of a bar. */
export interface BarPart {
  readonly stands_for: "wait" | "copy" | "dot" | "other" | "used" | "lost";
  readonly share: number;
}

/** A table of a card. */
export interface TableData {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly numbers: readonly number[];
  readonly is_listing: boolean;
  readonly links: readonly Link[];
  readonly code: readonly number[];
  readonly is_wide: boolean;
  readonly tone: "" | "pass" | "warn" | "fail";
  readonly strip: Strip | null;
  readonly edits: readonly Edit[];
  readonly is_folded: boolean;
  readonly tiles: readonly Tile[];
  readonly bars: Readonly<Record<number, readonly (readonly BarPart[])[]>>;
  readonly title_bar: readonly BarPart[];
}

/** A card whose rows lead elsewhere. */
export interface CardData {
  readonly kind: "card";
  readonly title: string;
  readonly subtitle: string;
  readonly notes: readonly string[];
  readonly tables: readonly TableData[];
  readonly tone: "" | "pass" | "warn" | "fail";
  readonly tiles: readonly Tile[];
  readonly lead: string;
  readonly lead_links: readonly Link[];
  readonly later: readonly string[];
  readonly footnotes: readonly string[];
  readonly legend: readonly (readonly ["wait" | "copy" | "dot" | "other" | "used" | "lost", string])[];
}

/** One input of a linear layout. */
export interface LayoutInput {
  readonly name: string;
  readonly bases: readonly number[];
}

/** A tile and where its elements are. */
export interface TileData {
  readonly name: string;
  readonly shape: readonly number[];
  readonly memory: "registers" | "shared memory" | "tensor memory";
  readonly element_bits: number;
  readonly encoding: string;
  readonly inputs: readonly LayoutInput[];
  readonly paddings: readonly (readonly [number, number])[];
  readonly fragment: string;
  readonly words: string;
}

/** What the layout view draws. */
export interface LayoutView {
  readonly kind: "layout";
  readonly title: string;
  readonly tiles: readonly TileData[];
  readonly left: number;
  readonly right: number | null;
  readonly conversion: string;
  readonly colors: string;
}

/** What one operation of a line took. */
export interface LineCost {
  readonly words: string;
  readonly stands_for: "wait" | "copy" | "dot" | "other" | "used" | "lost";
  readonly shares: readonly number[];
  readonly facts: string;
  readonly scope: number;
}

/** A line of a source, and what it took: nothing, for most lines. */
export interface CostLine {
  readonly number: number;
  readonly text: string;
  readonly costs: readonly LineCost[];
}

/** A kernel's lines in its source's order, apart from those of helpers in other files. */
export interface KernelCosts {
  readonly name: string;
  readonly words: string;
  readonly lines: readonly CostLine[];
}

/** The events of a warp. */
export interface TimelineRow {
  readonly program: number;
  readonly warp: number;
  readonly events: number;
}

/** Events over time. */
export interface TimelineData {
  readonly names: readonly string[];
  readonly kinds: readonly ("wait" | "copy" | "dot" | "other" | "used" | "lost")[];
  readonly unit: "cycles" | "ns";
  readonly rows: readonly TimelineRow[];
  readonly left_out: string;
  readonly events: null;
}

/** What the view of a profile draws. */
export interface ProfileView {
  readonly kind: "profile";
  readonly title: string;
  readonly answer: string;
  readonly origin: string;
  readonly is_of_gpu: boolean;
  readonly measures: readonly string[];
  readonly kernels: readonly KernelCosts[];
  readonly scopes: TableData | null;
  readonly timeline: TimelineData | null;
  readonly notes: readonly string[];
  readonly text: string;
}

/** Elements in the bytes of a `StepperView`. */
export interface ElementsData {
  readonly dtype: string;
  readonly at: number;
  readonly averaged: boolean;
  readonly rows: number;
  readonly columns: number;
}

/** A value of variables; equal values are stored once. */
export interface StepValue {
  readonly type: string;
  readonly words: string;
  readonly shape: readonly number[];
  readonly kept: "constant" | "exact" | "summary";
  readonly elements: ElementsData | null;
  readonly left_out: string;
  readonly in_kernel: boolean;
}

/** A function that ran. */
export interface StepSource {
  readonly place: string;
  readonly first_line: number;
  readonly lines: readonly string[];
}

/** A call: of the kernel by a program, or of a helper. */
export interface StepFrame {
  readonly function: string;
  readonly place: string;
  readonly source: number | null;
  readonly program: readonly [number, number, number];
  readonly partition: string;
  readonly caller: number | null;
  readonly called_from: string;
  readonly given: Readonly<Record<string, number>>;
}

/** Which elements of an argument, or cells of its picture: ascending, in reading order. */
export interface PlacesData {
  readonly at: number;
  readonly runs: number;
  readonly count: number;
}

/** An access to memory. */
export interface StepAccess {
  readonly operation: "load" | "store" | "atomic";
  readonly argument: number | null;
  readonly places: number | null;
  readonly words: string;
}

/** What elements of an argument, or cells of its picture, are after a step. */
export interface StepWrite {
  readonly argument: number;
  readonly places: number;
  readonly at: number;
}

/** One step. */
export interface StepData {
  readonly frame: number;
  readonly line: number;
  readonly turns: readonly string[];
  readonly operation: string;
  readonly changed: Readonly<Record<string, number>>;
  readonly accesses: readonly StepAccess[];
  readonly writes: readonly StepWrite[];
}

/** An asynchronous operation. */
export interface FlightData {
  readonly program: readonly [number, number, number];
  readonly stands_for: "copy" | "dot";
  readonly words: string;
  readonly rows: readonly string[];
  readonly issued: number;
  readonly completed: number | null;
}

/** A tensor of the launch. */
export interface ArgumentData {
  readonly name: string;
  readonly type: string;
  readonly words: string;
  readonly shape: readonly number[];
  readonly elements: ElementsData | null;
  readonly left_out: string;
  readonly in_kernel: boolean;
}

/** The first element of a tensor that does not have the expected value after the launch. */
export interface WrongData {
  readonly argument: number;
  readonly element: number;
  readonly name: string;
  readonly expected: string;
  readonly actual: string;
}

/** What one step does to one tensor. */
export interface ArgumentStep {
  readonly places: readonly (number | null)[];
  readonly writes: readonly StepWrite[];
}

/** A tensor with every element, which the view left out; its numbers are separate bytes. */
export interface TensorPart {
  readonly elements: ElementsData;
  readonly places: readonly PlacesData[];
  readonly steps: Readonly<Record<number, ArgumentStep>>;
}

/** What the stepper draws. */
export interface StepperView {
  readonly kind: "steps";
  readonly title: string;
  readonly kernel: string;
  readonly heading: string;
  readonly target: string;
  readonly unit: "step" | "operation";
  readonly grid: readonly [number, number, number];
  readonly programs: readonly (readonly [number, number, number])[];
  readonly notes: readonly string[];
  readonly fault: string;
  readonly fault_step: number | null;
  readonly first: number;
  readonly step_count: number;
  readonly focus: number;
  readonly sources: readonly StepSource[];
  readonly frames: readonly StepFrame[];
  readonly values: readonly StepValue[];
  readonly places: readonly PlacesData[];
  readonly arguments: readonly ArgumentData[];
  readonly steps: readonly StepData[];
  readonly flights: readonly FlightData[];
  readonly wrong: WrongData | null;
  readonly numbers: null;
}

/** One config of a sweep, and all that is known about it; times in microseconds or None. */
export interface ConfigData {
  readonly sweep: number;
  readonly number: number;
  readonly values: readonly (number | string | null)[];
  readonly standing: "best" | "tied" | "behind" | "candidate" | "untimed" | "dropped";
  readonly us: number | null;
  readonly lower: number | null;
  readonly upper: number | null;
  readonly runs: number;
  readonly gb_per_s: number | null;
  readonly tflop_per_s: number | null;
  readonly estimate: number | null;
  readonly registers: number | null;
  readonly spills: number | null;
  readonly shared: number | null;
  readonly occupancy: number | null;
  readonly limited_by: string;
  readonly matrix: string;
  readonly checked: string;
  readonly unchecked: string;
  readonly dropped: string;
  readonly why: string;
  readonly untimed_rank: number;
}

/** What the configs of one sweep share. */
export interface SweepData {
  readonly kernel: string;
  readonly name: string;
  readonly machine: string;
  readonly launch: string;
  readonly answer: string;
  readonly words: readonly string[];
  readonly parameters: readonly string[];
  readonly varying: readonly string[];
  readonly baselines: Readonly<Record<string, number>>;
  readonly knows_kernel: boolean;
  readonly how_to_open: string;
  readonly space: string;
}

/** The fastest config of a sweep, or a baseline, at one value of the key. */
export interface SizePoint {
  readonly x: number;
  readonly y: number;
  readonly lower: number;
  readonly upper: number;
  readonly warm: boolean;
  readonly config: number | null;
}

/** A kernel, or a baseline, over the key. */
export interface SizeLine {
  readonly name: string;
  readonly is_baseline: boolean;
  readonly points: readonly SizePoint[];
}

/** Several sweeps against their key, in one unit. */
export interface SizesData {
  readonly key: string;
  readonly unit: string;
  readonly lines: readonly SizeLine[];
}

/** A config whose IR explorer is here. */
export interface OpenedConfig {
  readonly config: number;
  readonly part: number;
  readonly explorer: null;
}

/** What a comparison of two opened configs needs besides their explorers. */
export interface ConfigPair {
  readonly left: number;
  readonly right: number;
  readonly pairs: readonly PassPairData[];
}

/** What the view of sweeps draws. */
export interface TuningView {
  readonly kind: "tuning";
  readonly title: string;
  readonly plot: string;
  readonly sweeps: readonly SweepData[];
  readonly configs: readonly ConfigData[];
  readonly sizes: readonly SizesData[];
  readonly notes: readonly string[];
  readonly estimate_error: number;
  readonly opened: readonly OpenedConfig[];
  readonly pairs: readonly ConfigPair[];
}

/** What a view can draw. */
export type ViewData = IrView | GraphView | CardData | LayoutView | ProfileView | StepperView | TuningView;
