// The watch list: variables and elements that stay in sight wherever the step is.
import { button, element } from "./dom";
import { readWatched, type TraceReader, type Watched } from "./stepper_trace";

interface Entry {
  watched: Watched;
  dom: HTMLElement;
  words: HTMLElement;
}

/** Names that are listed where one is unknown. */
const MOST_NAMED = 20;

export class WatchList {
  readonly dom = element("div", { class: "kl-watched", role: "group", "aria-label": "Watch list" });
  /** What adds to the list. */
  readonly head: HTMLElement;
  private readonly input = element("input", {
    class: "kl-input",
    type: "text",
    placeholder: "watch: acc, or acc[0, 3]",
    "aria-label": "Watch a variable or an element",
    spellcheck: "false",
  });
  private readonly stops = element("input", { type: "checkbox" });
  private readonly entries = new Map<string, Entry>();

  constructor(
    private readonly reader: TraceReader,
    private readonly onchange: () => void,
    private readonly say: (words: string) => void,
  ) {
    const stops = element(
      "label",
      { class: "kl-soft", title: "Running stops where a watched value changes" },
      this.stops,
      " stop at changes",
    );
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.add(this.input.value);
    });
    this.head = element(
      "span",
      { class: "kl-group" },
      this.input,
      button("Watch", "Add to the watch list", () => this.add(this.input.value)),
      stops,
    );
  }

  /** Watch what is written there. */
  add(text: string): void {
    const watched = readWatched(text);
    if (watched === null) {
      this.say(`“${text}” is neither a variable nor one of its elements, such as acc[0, 3].`);
      return;
    }
    const names = this.reader.allNames();
    if (!names.includes(watched.name)) {
      this.say(
        `No variable is called ${watched.name}. There are: ${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? ", ..." : ""}.`,
      );
      return;
    }
    const key =
      watched.index === null ? watched.name : `${watched.name}[${watched.index.join(", ")}]`;
    this.input.value = "";
    if (this.entries.has(key)) return;
    const words = element("span");
    const dom = element(
      "div",
      { "data-watch": key },
      element("code", {}, key),
      words,
      button("×", `Stop watching ${key}`, () => {
        this.entries.delete(key);
        dom.remove();
      }),
    );
    this.entries.set(key, { watched, dom, words });
    this.dom.append(dom);
    this.onchange();
  }

  show(number: number): void {
    for (const { watched, dom, words } of this.entries.values()) {
      const text = this.reader.watchedText(watched, number);
      if (words.textContent !== text) words.textContent = text;
      dom.classList.toggle("kl-new", this.changes(watched, number));
    }
  }

  /** The numbers of the values that watched names have. */
  inSight(number: number): number[] {
    return [...this.entries.values()]
      .map(({ watched }) => this.reader.valueNumber(watched.name, number))
      .filter((found) => found !== null);
  }

  /** Whether running has to stop at a step because a watched value is another one after it. */
  isStop(number: number): boolean {
    return (
      this.stops.checked &&
      [...this.entries.values()].some(({ watched }) => this.changes(watched, number))
    );
  }

  private changes(watched: Watched, number: number): boolean {
    // A step that gives the name no value cannot change it; nor does coming back from a helper.
    if (!Object.hasOwn(this.reader.step(number).changed, watched.name)) return false;
    return (
      number === this.reader.first ||
      this.reader.watchedText(watched, number) !== this.reader.watchedText(watched, number - 1) ||
      watched.index === null
    );
  }
}
