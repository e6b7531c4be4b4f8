// What the toolbars of views have in common: buttons that copy, and buttons of which one is on.
import { button, element } from "../dom";

/** The list of a view's keys, and the button that shows it. */
export class KeyHelp {
  readonly button = button("?", "Keys (?)", () => this.toggle());
  readonly dom: HTMLElement;

  /** Keys that do the same are apart by a space. */
  constructor(keys: readonly (readonly [string, string])[]) {
    const rows = keys.map(([names, words]) =>
      element("div", {}, ...names.split(" ").map((name) => element("kbd", {}, name)), words),
    );
    this.dom = element("div", { class: "kl-help", hidden: true, role: "note" }, ...rows);
    this.button.setAttribute("aria-label", "Keys");
    this.button.setAttribute("aria-expanded", "false");
  }

  toggle(): void {
    this.dom.hidden = !this.dom.hidden;
    this.button.setAttribute("aria-expanded", String(!this.dom.hidden));
  }
}

/** How long a button says that it has copied, in milliseconds. */
const SAID = 1600;

/** A button that copies a text, and says so. */
export function copyButton(words: string, title: string, text: () => string): HTMLButtonElement {
  const made = button(words, title, () => {
    void copy(text()).then((done) => {
      made.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (made.textContent = words), SAID);
    });
  });
  return made;
}

/** Copy a text; a page that may not use the clipboard selects it and asks the browser. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.cssText = "position:fixed;opacity:0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Buttons of which one is on, `turnOn` says which; arrow keys go from one to the next. */
export function radios<Value extends string>(
  label: string,
  choices: readonly { value: Value; words: string; title: string }[],
  onchoose: (value: Value) => void,
): HTMLElement {
  const made = element("span", { class: "kl-modes", role: "radiogroup", "aria-label": label });
  for (const { value, words, title } of choices) {
    const one = button(words, title, () => onchoose(value));
    one.setAttribute("role", "radio");
    one.dataset["value"] = value;
    made.append(one);
  }
  made.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by === undefined) return;
    const all = [...made.children] as HTMLElement[];
    const around = made.closest(".kl-root")!;
    all[(all.indexOf(event.target as HTMLElement) + by + all.length) % all.length]!.click();
    // The click may have drawn the buttons anew.
    const on = `[role="radiogroup"][aria-label="${label}"] > [aria-checked="true"]`;
    around.querySelector<HTMLElement>(on)?.focus();
    event.preventDefault();
    event.stopPropagation();
  });
  return made;
}

/** Turn one of these buttons on, and the others off. */
export function turnOn(group: HTMLElement, value: string): void {
  for (const one of group.children as HTMLCollectionOf<HTMLElement>) {
    const isOn = one.dataset["value"] === value;
    one.setAttribute("aria-checked", String(isOn));
    one.tabIndex = isOn ? 0 : -1;
  }
}
