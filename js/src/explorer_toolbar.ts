// The explorer's row of controls, and the list of its keys.
import type { IrView } from "./data";
import { button, element } from "./dom";
import type { Mode } from "./explorer_columns";
import { metricChoice } from "./metrics";
import { KeyHelp, radios, turnOn } from "./parts/toolbar";

/** What the controls call. */
export interface ToolbarListener {
  setMode(mode: Mode): void;
  /** One pane more, or one fewer. */
  resize(by: 1 | -1): void;
  goToChange(forward: boolean): void;
  chooseMetric(name: string): void;
  toggleCodes(): void;
  toggleWrap(): void;
  find(): void;
}

const MODES: readonly { value: Mode; words: string; title: string }[] = [
  {
    value: "pass",
    words: "After a pass",
    title: "The module after the selected pass, beside the source",
  },
  { value: "diff", words: "Before | after", title: "What the selected pass changed" },
  { value: "stages", words: "Stages", title: "Two to four texts side by side" },
];

const BETWEEN_TWO = {
  value: "diff" as const,
  words: "Differences",
  title: "What differs between the two",
};

const KEYS: readonly (readonly [string, string])[] = [
  ["[ ]", "previous, next pass"],
  ["{ }", "previous, next pass that changed something"],
  ["p n", "previous, next change (Before | after)"],
  ["m M", "next, previous remark or finding"],
  [", .", "previous, next lit line, in every other pane"],
  ["i d", "in a pane: what the name at the cursor is; where it is defined"],
  ["w", "wrap long lines"],
  ["/", "find in the pane with the focus; Enter for the next place"],
  ["1 2 3", "After a pass, Before | after, Stages"],
  ["?", "these keys"],
];

export class Toolbar {
  readonly dom: HTMLElement;
  readonly help = new KeyHelp(KEYS);
  private readonly modes: HTMLElement;
  private readonly paneCount: HTMLElement;
  private readonly change: HTMLElement;
  private readonly codes: HTMLButtonElement;
  private readonly wrap: HTMLButtonElement;

  constructor(data: IrView, modes: readonly Mode[], metric: string, listener: ToolbarListener) {
    const offered = MODES.filter(({ value }) => modes.includes(value)).map((one) =>
      data.sides.length === 2 && one.value === "diff" ? BETWEEN_TWO : one,
    );
    this.modes = radios("What to show", offered, (mode) => listener.setMode(mode));
    this.paneCount = group(
      "panes",
      button("−", "One pane fewer", () => listener.resize(-1)),
      button("+", "One pane more", () => listener.resize(1)),
    );
    this.change = group(
      "change",
      button("▲", "Previous change (p)", () => listener.goToChange(false)),
      button("▼", "Next change (n)", () => listener.goToChange(true)),
    );
    this.codes = button("Codes", "Control codes beside each instruction of SASS", () =>
      listener.toggleCodes(),
    );
    this.wrap = button("Wrap", "Wrap long lines (w)", () => listener.toggleWrap());
    const bars = metricChoice(data, metric, (name) => listener.chooseMetric(name));
    this.dom = element(
      "div",
      { class: "kl-tools", role: "group", "aria-label": "View" },
      this.modes,
      this.change,
      this.paneCount,
      ...(bars === null ? [] : [bars]),
      element("span", { class: "kl-space" }),
      this.codes,
      this.wrap,
      button("Find", "Find in a text (/)", () => listener.find()),
      this.help.button,
    );
  }

  /** Show which mode is on, whether long lines are wrapped, and whether control codes are shown; null where there are none to show. */
  show(mode: Mode, wraps: boolean, codes: boolean | null): void {
    turnOn(this.modes, mode);
    this.paneCount.hidden = mode === "diff";
    this.change.hidden = mode !== "diff";
    this.wrap.setAttribute("aria-pressed", String(wraps));
    this.codes.hidden = codes === null;
    this.codes.setAttribute("aria-pressed", String(codes === true));
  }
}

/** Two buttons, and a word for what they change. */
function group(word: string, ...buttons: readonly HTMLElement[]): HTMLElement {
  return element(
    "span",
    { class: "kl-group" },
    ...buttons,
    element("span", { class: "kl-word" }, word),
  );
}
