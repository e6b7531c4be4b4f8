// The bundle's door: what a widget (anywidget's conventions) and a self-contained page call.
import "./style.css";
import "./graph.css";
import { CardView } from "./card";
import { hideStillInColab } from "./colab";
import type { Door } from "./data";
import { element } from "./dom";
import { Explorer } from "./explorer";
import { leaveWheel } from "./frame";
import { GraphDoor } from "./graph_door";
import { type Ask, asking, followKernel, type Holder, isGone, type Model } from "./kernel";
import { LayoutExplorer } from "./layout_view";
import { type Beside, Rooms, type Seen } from "./rooms";
import { StepperExplorer } from "./stepper";
import { followTheme } from "./theme";
import type { Sources } from "./side";
import { TuningExplorer } from "./tuning_view";
import { unpack, type Unpacked } from "./unpack";

/** `ask` asks the notebook's kernel; null where there is none. */
function drawn(dom: HTMLElement, { data, part, bytes, numbers }: Unpacked, ask: Ask | null, beside: Beside, root: Document | ShadowRoot): Seen {
  switch (data.kind) {
    case "card": return new CardView(dom, data, beside);
    case "graph": return new GraphDoor(dom, data, part, beside, root);
    case "ir": return new Explorer(dom, data, { sources: { part, fetch: textsOf(ask) }, root });
    case "layout": return new LayoutExplorer(dom, data);
    case "steps": return new StepperExplorer(dom, data, numbers, ask, beside);
    case "tuning": return new TuningExplorer(dom, data, { root, bytes, ask });
  }
}

/** Draw a view into an element, below its bar; it goes when the signal aborts. */
function mount(el: HTMLElement, bar: HTMLElement, unpacked: Unpacked, ask: Ask | null, beside: Beside, signal: AbortSignal): { dom: HTMLElement; view: Seen } {
  const { kind, title } = unpacked.data;
  const dom = element("div", { class: `kl-root kl-${kind}`, role: "region", tabindex: "-1", "aria-label": title });
  // A notebook's shortcuts ("d d" deletes the cell) are those of the element with the focus, whatever it is in: that element has to refuse them.
  dom.addEventListener("focusin", ({ target }) => (target as Element).setAttribute("data-lm-suppress-shortcuts", "true"));
  followTheme(dom, signal);
  leaveWheel(dom, el, signal);
  el.append(dom);
  dom.append(bar);
  const found = el.getRootNode();
  const view = drawn(dom, unpacked, ask, beside, found instanceof ShadowRoot ? found : document);
  dom.dataset["ready"] = "true";
  signal.addEventListener("abort", () => {
    view.destroy();
    dom.remove();
  });
  return { dom, view };
}

/** The source of the texts that the data left out: the kernel. */
function textsOf(ask: Ask | null): Sources["fetch"] {
  if (ask === null) return () => Promise.reject(new Error("a page has no kernel"));
  return async (side, text) => String((await ask("text", { side, text })).content["text"]);
}

// A self-contained page

/** The views of each launch in this page. */
const groups = new Map<string, Rooms>();

/** Draw a view from the packed data of a page, which has every text; `group` is how the places of those begin that lead to each other by `doors`. */
async function mountPacked(el: HTMLElement, bytes: Uint8Array, room = "", group = "", doors: readonly Door[] = []): Promise<void> {
  const unpacked = await unpack(bytes);
  const house = element("div", { class: "kl-house" });
  el.append(house);
  const never = new AbortController().signal;
  const rooms = (group === "" ? undefined : groups.get(group)) ?? new Rooms(house, doors, `#${group}`, null, mount, never);
  if (group !== "") groups.set(group, rooms);
  rooms.add(room, 0, unpacked, null, house);
}

// A widget

/** A quiet line under the view while its kernel is another one. */
function sayWhenGone(dom: HTMLElement, holder: Holder | null, signal: AbortSignal): void {
  const line = element("div", { class: "kl-orphan kl-soft", role: "status" });
  const say = (): void => {
    line.textContent = isGone(holder) ? "The kernel that made this view is gone. All that was sent still works." : "";
    line.hidden = !isGone(holder);
  };
  dom.append(line);
  followKernel(holder, say, signal);
  say();
}

/** Draw a widget; the loader (loader.ts) calls this, with the model that holds the bundle. */
async function render(
  { model, el, signal }: { model: Model; el: HTMLElement; signal?: AbortSignal }, holder: Holder | null,
): Promise<(() => void) | undefined> {
  const own = new AbortController();
  signal?.addEventListener("abort", () => own.abort());
  const packed = model.get("data") as DataView;
  const unpacked = await unpack(new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength));
  const house = element("div", { class: "kl-house" });
  el.append(house);
  own.signal.addEventListener("abort", () => house.remove());
  const following: typeof mount = (...given) => {
    const made = mount(...given);
    sayWhenGone(made.dom, holder, given[5]);
    return made;
  };
  const ask = asking(model, holder);
  const doors = (model.get("doors") ?? []) as readonly Door[];
  const rooms = new Rooms(house, doors, "tabs", ask, following, own.signal);
  hideStillInColab(rooms.add(String(model.get("room") ?? ""), Number(model.get("number") ?? -1), unpacked, ask));
  return signal === undefined ? () => own.abort() : undefined;
}

export default { render, mountPacked };
