// The views of one launch: a bar of doors above each of them, and the way from one to a place in another.
import type { Door } from "./data";
import { element } from "./dom";
import { maximiser } from "./frame";
import type { Ask } from "./kernel";
import { unpack, type Unpacked } from "./unpack";

/** What of a view is to be seen, by names that several views know: line, stage, pass, program, step, tile, finding. */
export type At = Readonly<Record<string, unknown>>;

/** A view that is drawn. */
export interface Seen {
  destroy(): void;
  /** Show a place; false where it is not in this view, and the kernel may have one that holds it. */
  turnTo?(at: At): boolean;
  /** The place that is looked at, as other views know it. */
  here?(): At;
}

/** What a view knows of those beside it. */
export interface Beside {
  /** Whether a kernel makes views that are not there yet. */
  readonly isLive: boolean;
  has(room: string): boolean;
  open(room: string, at: At): void;
}

/** Draws a view into an element, below its bar; it goes when the signal aborts. */
export type Mount = (el: HTMLElement, bar: HTMLElement, unpacked: Unpacked, ask: Ask | null, beside: Beside, signal: AbortSignal) => { dom: HTMLElement; view: Seen };

/** Where views stand: one at a time in a cell, one below the other in a page, where it is what the names of their places begin with. */
export type Manner = "tabs" | `#${string}`;

interface Shown {
  /** What the kernel knows the view by. */
  number: number;
  dom: HTMLElement;
  view: Seen;
  bar: Bar;
  gone: AbortController;
}

export class Rooms implements Beside {
  private readonly shown = new Map<string, Shown>();
  private current = "";
  /** Which wish is the latest: what comes late for an earlier one is dropped. */
  private asked = 0;

  constructor(
    private readonly house: HTMLElement, private readonly doors: readonly Door[], private readonly manner: Manner,
    private readonly ask: Ask | null, private readonly mount: Mount, private readonly signal: AbortSignal,
  ) {}

  get isLive(): boolean {
    return this.ask !== null;
  }

  has(room: string): boolean {
    return this.doors.some((door) => door.room === room);
  }

  /** Add the view of a room, below what is there or in the place of the one that is there. */
  add(room: string, number: number, unpacked: Unpacked, ask: Ask | null, el = this.house): HTMLElement {
    const old = this.shown.get(room);
    const gone = new AbortController();
    this.signal.addEventListener("abort", () => gone.abort());
    const bar = new Bar(this.doors, room, this.manner, el, (to) => this.open(to, this.here()));
    const { dom, view } = this.mount(el, bar.dom, unpacked, ask, this, gone.signal);
    this.shown.set(room, { number, dom, view, bar, gone });
    old?.gone.abort();
    if (this.current === "") this.current = room;
    return dom;
  }

  /** Go to a place of a room; a live kernel makes the view where it is not there. */
  open(room: string, at: At): void {
    const known = this.shown.get(room);
    this.asked++;
    if (known !== undefined) {
      const hasPlace = known.view.turnTo === undefined || this.isThere(known.view, room, at);
      if (hasPlace) return this.face(room);
    }
    if (this.ask !== null) void this.bring(room, at, this.ask);
  }

  /** Show a place of a view that is drawn: a hidden one has no size, and cannot scroll. */
  private isThere(view: Seen, room: string, at: At): boolean {
    const before = this.current;
    this.face(room);
    if (view.turnTo!(at)) return true;
    this.face(before);
    return false;
  }

  private here(): At {
    return this.shown.get(this.current)?.view.here?.() ?? {};
  }

  private async bring(room: string, at: At, ask: Ask): Promise<void> {
    const wish = this.asked;
    const bar = this.shown.get(this.current)!.bar;
    const words = this.doors.find((door) => door.room === room)?.words ?? room;
    bar.wait(`Asking the notebook's kernel for ${words}`);
    try {
      const wishes = { room, at, shown: this.shown.get(room)?.number ?? -1 };
      const { content, buffers } = await ask("open", wishes, () => wish === this.asked && bar.wait(`The notebook's kernel makes ${words}`));
      if (wish !== this.asked) return;
      const sent = buffers[0];
      if (sent !== undefined) {
        const unpacked = await unpack(new Uint8Array(sent.buffer, sent.byteOffset, sent.byteLength));
        this.add(room, Number(content["view"]), unpacked, (kind, asked, heard) => ask("within", { room, asked: { ...asked, kind } }, heard));
      }
      this.face(room);
      this.shown.get(room)?.view.turnTo?.(content["at"] as At);
      bar.say("");
    } catch (error) {
      if (wish === this.asked) bar.say(`${words} cannot be opened: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Bring a room's view into sight. */
  private face(room: string): void {
    const found = this.shown.get(room);
    if (found === undefined) return;
    const isOther = this.current !== room;
    this.current = room;
    if (this.manner !== "tabs") return isOther ? found.dom.scrollIntoView({ block: "nearest" }) : undefined;
    for (const [name, { dom }] of this.shown) dom.hidden = name !== room;
    if (!isOther) return;
    found.dom.focus({ preventScroll: true });
    if (found.dom.getBoundingClientRect().top < 0) found.dom.scrollIntoView({ block: "nearest" });
  }
}

/** The doors, what is going on, and the button that makes the view large. */
class Bar {
  readonly dom: HTMLElement;
  private readonly words = element("div", { class: "kl-door-words", role: "status", hidden: true });
  private ticking = 0;

  constructor(doors: readonly Door[], own: string, manner: Manner, house: HTMLElement, onopen: (room: string) => void) {
    const named = doors.filter((one) => one.is_listed || one.room === own);
    const made = named.length > 1 ? named.map(({ room, words, title }) => this.door(room, words, title, room === own, manner, onopen)) : [];
    const tools = element("div", { class: "kl-door-row" }, ...made, element("span", { class: "kl-space" }), maximiser(house));
    this.dom = element("nav", { class: "kl-doors", "aria-label": "Views of this launch" }, tools, this.words);
  }

  private door(room: string, words: string, title: string, isOwn: boolean, manner: Manner, onopen: (room: string) => void): HTMLElement {
    const onclick = (event: Event): void => {
      event.preventDefault();
      if (!isOwn) onopen(room);
    };
    const attributes = { class: "kl-door", title, "data-room": room, "aria-current": isOwn ? "page" : undefined, onclick };
    if (manner !== "tabs") return element("a", { ...attributes, href: `${manner}${room}` }, words);
    return element("button", { ...attributes, type: "button" }, words);
  }

  /** What is going on, with the seconds that it takes. */
  wait(words: string): void {
    clearInterval(this.ticking);
    const begin = performance.now();
    const show = (): void => this.write(`${words} … ${((performance.now() - begin) / 1000).toFixed(1)} s`);
    show();
    this.ticking = window.setInterval(show, 200);
  }

  say(words: string): void {
    clearInterval(this.ticking);
    this.write(words);
  }

  private write(words: string): void {
    this.words.textContent = words;
    this.words.hidden = words === "";
  }
}
