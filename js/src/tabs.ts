// The views of one launch, with a bar of tabs above each, and links from one view to a place in another.
import type { Tab } from "./data";
import { element } from "./dom";
import { maximizer } from "./frame";
import type { KernelRequest } from "./kernel";
import { saveMenu } from "./parts/save";
import { unpack, type Unpacked } from "./unpack";

/** A place in a view, by names that several views share: line, stage, pass, program, step, tile, finding. */
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
  has(tabId: string): boolean;
  open(tabId: string, at: At): void;
}

/** Draw a view into an element, below its bar. The view is removed when the signal aborts. */
export type Mount = (
  el: HTMLElement,
  bar: HTMLElement,
  unpacked: Unpacked,
  request: KernelRequest | null,
  beside: Beside,
  signal: AbortSignal,
) => { dom: HTMLElement; view: Seen };

/** How views are arranged: as tabs in a cell, or one below the other in a page, whose anchors begin with this prefix. */
export type Manner = "tabs" | `#${string}`;

interface Shown {
  /** The number that identifies the view in the notebook's kernel. */
  number: number;
  dom: HTMLElement;
  view: Seen;
  bar: Bar;
  gone: AbortController;
}

export class TabGroup implements Beside {
  private readonly shown = new Map<string, Shown>();
  private current = "";
  /** The number of the latest request; replies to earlier ones are dropped. */
  private latest = 0;

  constructor(
    private readonly container: HTMLElement,
    private readonly tabs: readonly Tab[],
    private readonly manner: Manner,
    private readonly request: KernelRequest | null,
    private readonly mount: Mount,
    private readonly signal: AbortSignal,
  ) {}

  get isLive(): boolean {
    return this.request !== null;
  }

  has(tabId: string): boolean {
    return this.tabs.some((tab) => tab.id === tabId);
  }

  /** Add the view of a tab, below the views that are drawn, or in place of the tab's earlier view. */
  add(
    tabId: string,
    number: number,
    unpacked: Unpacked,
    request: KernelRequest | null,
    el = this.container,
  ): HTMLElement {
    const old = this.shown.get(tabId);
    const gone = new AbortController();
    this.signal.addEventListener("abort", () => gone.abort());
    const tools = [...saveMenu(request), maximizer(el)];
    const bar = new Bar(this.tabs, tabId, this.manner, tools, (to) => this.open(to, this.here()));
    const { dom, view } = this.mount(el, bar.dom, unpacked, request, this, gone.signal);
    this.shown.set(tabId, { number, dom, view, bar, gone });
    old?.gone.abort();
    if (this.current === "") this.current = tabId;
    return dom;
  }

  /** Go to a place in a tab's view. A live kernel makes the view if it does not exist yet. */
  open(tabId: string, at: At): void {
    const known = this.shown.get(tabId);
    this.latest++;
    if (known !== undefined) {
      const hasPlace = known.view.turnTo === undefined || this.turnedTo(known.view, tabId, at);
      known.bar.saying(at);
      if (hasPlace) return this.face(tabId);
    }
    if (this.request !== null) void this.bring(tabId, at, this.request);
  }

  /** Show a place in a drawn view, and return whether it has the place. A hidden view has no size and cannot scroll. */
  private turnedTo(view: Seen, tabId: string, at: At): boolean {
    const before = this.current;
    this.face(tabId);
    if (view.turnTo!(at)) return true;
    this.face(before);
    return false;
  }

  private here(): At {
    return this.shown.get(this.current)?.view.here?.() ?? {};
  }

  private async bring(tabId: string, at: At, request: KernelRequest): Promise<void> {
    const turn = this.latest;
    const bar = this.shown.get(this.current)!.bar;
    const words = this.tabs.find((tab) => tab.id === tabId)?.words ?? tabId;
    bar.wait(`Waiting for the notebook's kernel: ${words}`);
    try {
      const message = { tab: tabId, at, shown: this.shown.get(tabId)?.number ?? -1 };
      const { content, buffers } = await request(
        "open",
        message,
        () => turn === this.latest && bar.wait(`The notebook's kernel is making ${words}`),
      );
      if (turn !== this.latest) return;
      const sent = buffers[0];
      if (sent !== undefined) {
        const unpacked = await unpack(
          new Uint8Array(sent.buffer, sent.byteOffset, sent.byteLength),
        );
        this.add(tabId, Number(content["view"]), unpacked, (kind, requested, heard) =>
          request("within", { tab: tabId, inner: { ...requested, kind } }, heard),
        );
      }
      this.face(tabId);
      const opened = this.shown.get(tabId);
      opened?.view.turnTo?.(content["at"] as At);
      opened?.bar.saying(at);
      bar.say("");
    } catch (error) {
      if (turn === this.latest)
        bar.say(
          `${words} cannot be opened: ${error instanceof Error ? error.message : String(error)}`,
        );
    }
  }

  /** Show the view of a tab. */
  private face(tabId: string): void {
    const shown = this.shown.get(tabId);
    if (shown === undefined) return;
    const isOther = this.current !== tabId;
    this.current = tabId;
    if (this.manner !== "tabs")
      return isOther ? shown.dom.scrollIntoView({ block: "nearest" }) : undefined;
    for (const [name, { dom }] of this.shown) dom.hidden = name !== tabId;
    if (!isOther) return;
    shown.dom.focus({ preventScroll: true });
    if (shown.dom.getBoundingClientRect().top < 0) shown.dom.scrollIntoView({ block: "nearest" });
  }
}

/** The tabs, what saves and maximizes the view, and a status line. */
class Bar {
  readonly dom: HTMLElement;
  private readonly status = element("div", {
    class: "kl-tab-status",
    role: "status",
    hidden: true,
  });
  /** What the link said that led here: a finding. */
  private readonly said = element("div", { class: "kl-said", role: "note", hidden: true });
  private ticking = 0;

  constructor(
    tabs: readonly Tab[],
    own: string,
    manner: Manner,
    tools: readonly HTMLElement[],
    onopen: (tabId: string) => void,
  ) {
    const listed = tabs.filter((tab) => tab.is_listed || tab.id === own);
    const drawn =
      listed.length > 1 ? listed.map((tab) => this.tab(tab, tab.id === own, manner, onopen)) : [];
    const row = element(
      "div",
      { class: "kl-tab-row" },
      ...drawn,
      element("span", { class: "kl-space" }),
      ...tools,
    );
    this.dom = element(
      "nav",
      { class: "kl-tabs", "aria-label": "Views of this launch" },
      row,
      this.status,
      this.said,
    );
  }

  /** Show the finding whose link led here; any other way here shows none. */
  saying({ said }: At): void {
    this.said.textContent = typeof said === "string" ? said : "";
    this.said.hidden = this.said.textContent === "";
  }

  private tab(
    { id, words, title, why_not }: Tab,
    isOwn: boolean,
    manner: Manner,
    onopen: (tabId: string) => void,
  ): HTMLElement {
    const onclick = (event: Event): void => {
      event.preventDefault();
      if (!isOwn) onopen(id);
    };
    const attributes = {
      class: "kl-tab",
      title: why_not || title,
      "data-tab": id,
      "aria-current": isOwn ? "page" : undefined,
      onclick,
    };
    if (manner !== "tabs") return element("a", { ...attributes, href: `${manner}${id}` }, words);
    return element("button", { ...attributes, type: "button", disabled: why_not !== "" }, words);
  }

  /** Show what is in progress, with the seconds it has taken. */
  wait(words: string): void {
    clearInterval(this.ticking);
    const begin = performance.now();
    const show = (): void =>
      this.write(`${words} … ${((performance.now() - begin) / 1000).toFixed(1)} s`);
    show();
    this.ticking = window.setInterval(show, 200);
  }

  say(words: string): void {
    clearInterval(this.ticking);
    this.write(words);
  }

  private write(words: string): void {
    this.status.textContent = words;
    this.status.hidden = words === "";
  }
}
