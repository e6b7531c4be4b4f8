// Elements, made in one call. Text always goes in as text: nothing here or elsewhere writes HTML.

type Attributes = Record<string, string | number | boolean | undefined | ((event: Event) => void)>;
export type Child = Node | string;

/** An element with attributes and children; `on...` takes a listener, `true` sets an attribute without a value. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children);
  return made;
}

/** Let an element have the focus while its content is wider, so that arrow keys scroll it. */
export function scrolledByKeys(box: HTMLElement): HTMLElement {
  new ResizeObserver(() => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }).observe(box);
  return box;
}

/** Where a view says what happens, aloud too. */
export const statusLine = (): HTMLElement =>
  element("div", { class: "kl-status", role: "status", "aria-live": "polite" });

/** Controls in a row, which has a name. */
export const toolbar = (label: string, ...controls: Child[]): HTMLElement =>
  element("div", { class: "kl-tools", role: "toolbar", "aria-label": label }, ...controls);

/** A button that looks like one of ours. */
export function button(words: string, title: string, onclick: () => void): HTMLButtonElement {
  return element("button", { type: "button", class: "kl-button", title, onclick }, words);
}

/** A choice of one among several values. */
export function choice(
  label: string,
  options: readonly { value: string; words: string; group?: string }[],
  chosen: string,
  onchange: (value: string) => void,
): HTMLSelectElement {
  const select = element("select", { class: "kl-select", "aria-label": label, title: label });
  const groups = new Map<string, HTMLOptGroupElement>();
  for (const { value, words, group } of options) {
    const option = element("option", { value, selected: value === chosen }, words);
    if (group === undefined) {
      select.append(option);
      continue;
    }
    let holder = groups.get(group);
    if (holder === undefined) {
      holder = element("optgroup", { label: group });
      groups.set(group, holder);
      select.append(holder);
    }
    holder.append(option);
  }
  select.addEventListener("change", () => onchange(select.value));
  return select;
}

/** Act on the keys of a view, but for those of its fields; `act` returns whether it used the key. A notebook in command mode gets none: there "d d" deletes the cell. */
export function onKeys(dom: HTMLElement, act: (event: KeyboardEvent) => boolean): void {
  dom.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    event.stopPropagation();
    const { target } = event;
    const isField =
      target instanceof Element && target.closest("input, select, textarea, .cm-panel") !== null;
    if (!isField && act(event)) event.preventDefault();
  });
}
