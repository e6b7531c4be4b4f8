// The bundle's entry points, which a widget (anywidget's conventions) and a self-contained page call.
import "./style.css";
import "./graph.css";
import { CardView } from "./card";
import { hideStillInColab } from "./colab";
import type { Tab } from "./data";
import { element } from "./dom";
import { Explorer } from "./explorer";
import { leaveWheel } from "./frame";
import { LazyGraph } from "./lazy_graph";
import {
  type KernelRequest,
  requester,
  followKernel,
  type Holder,
  isGone,
  type Model,
} from "./kernel";
import { LayoutExplorer } from "./layout_view";
import { ProfileExplorer } from "./profile_view";
import { type Beside, TabGroup, type Seen } from "./tabs";
import { StepperExplorer } from "./stepper";
import { followTheme } from "./theme";
import type { Sources } from "./side";
import { TuningExplorer } from "./tuning_view";
import { unpack, type Unpacked } from "./unpack";

/** `request` sends a request to the notebook's kernel; null where there is none. */
function drawn(
  dom: HTMLElement,
  { data, part, bytes, numbers }: Unpacked,
  request: KernelRequest | null,
  beside: Beside,
  root: Document | ShadowRoot,
): Seen {
  switch (data.kind) {
    case "card":
      return new CardView(dom, data, request, beside);
    case "graph":
      return new LazyGraph(dom, data, part, beside, root);
    case "ir":
      return new Explorer(dom, data, { sources: { part, fetch: textsOf(request) }, root });
    case "layout":
      return new LayoutExplorer(dom, data);
    case "profile":
      return new ProfileExplorer(dom, data, bytes);
    case "steps":
      return new StepperExplorer(dom, data, numbers, request, beside);
    case "tuning":
      return new TuningExplorer(dom, data, { root, bytes, request });
  }
}

/** Draw a view into an element, below its bar; it goes when the signal aborts. */
function mount(
  el: HTMLElement,
  bar: HTMLElement,
  unpacked: Unpacked,
  request: KernelRequest | null,
  beside: Beside,
  signal: AbortSignal,
): { dom: HTMLElement; view: Seen } {
  const { kind, title } = unpacked.data;
  const dom = element("div", {
    class: `kl-root kl-${kind}`,
    role: "region",
    tabindex: "-1",
    "aria-label": title,
  });
  // A notebook's shortcuts ("d d" deletes the cell) are those of the element with the focus, whatever it is in: that element has to refuse them.
  dom.addEventListener("focusin", ({ target }) =>
    (target as Element).setAttribute("data-lm-suppress-shortcuts", "true"),
  );
  followTheme(dom, signal);
  leaveWheel(dom, el, signal);
  el.append(dom);
  dom.append(bar);
  const found = el.getRootNode();
  const view = drawn(
    dom,
    unpacked,
    request,
    beside,
    found instanceof ShadowRoot ? found : document,
  );
  dom.dataset["ready"] = "true";
  signal.addEventListener("abort", () => {
    view.destroy();
    dom.remove();
  });
  return { dom, view };
}

/** The source of the texts that the data left out: the kernel. */
function textsOf(request: KernelRequest | null): Sources["fetch"] {
  if (request === null) return () => Promise.reject(new Error("a page has no kernel"));
  return async (side, text) => String((await request("text", { side, text })).content["text"]);
}

// A self-contained page

/** The views of each launch in this page. */
const groups = new Map<string, TabGroup>();

/** Draw a view from the packed data of a page, which has every text; `prefix` begins the anchors of the views that `tabs` links. */
async function mountPacked(
  el: HTMLElement,
  bytes: Uint8Array,
  tabId = "",
  prefix = "",
  tabs: readonly Tab[] = [],
): Promise<void> {
  const unpacked = await unpack(bytes);
  const container = element("div", { class: "kl-container" });
  el.append(container);
  const never = new AbortController().signal;
  const group =
    (prefix === "" ? undefined : groups.get(prefix)) ??
    new TabGroup(container, tabs, `#${prefix}`, null, mount, never);
  if (prefix !== "") groups.set(prefix, group);
  group.add(tabId, 0, unpacked, null, container);
}

// A widget

/** A quiet line under the view while its kernel is another one. */
function sayWhenGone(dom: HTMLElement, holder: Holder | null, signal: AbortSignal): void {
  const line = element("div", { class: "kl-orphan kl-soft", role: "status" });
  const say = (): void => {
    line.textContent = isGone(holder)
      ? "The kernel that made this view is gone. All that was sent still works."
      : "";
    line.hidden = !isGone(holder);
  };
  dom.append(line);
  followKernel(holder, say, signal);
  say();
}

/** Draw a widget; the loader (loader.ts) calls this, with the model that holds the bundle. */
async function render(
  { model, el, signal }: { model: Model; el: HTMLElement; signal?: AbortSignal },
  holder: Holder | null,
): Promise<(() => void) | undefined> {
  const own = new AbortController();
  signal?.addEventListener("abort", () => own.abort());
  const packed = model.get("data") as DataView;
  const unpacked = await unpack(
    new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength),
  );
  const container = element("div", { class: "kl-container" });
  el.append(container);
  own.signal.addEventListener("abort", () => container.remove());
  const following: typeof mount = (...given) => {
    const made = mount(...given);
    sayWhenGone(made.dom, holder, given[5]);
    return made;
  };
  const request = requester(model, holder);
  const tabs = (model.get("tabs") ?? []) as readonly Tab[];
  const group = new TabGroup(container, tabs, "tabs", request, following, own.signal);
  hideStillInColab(
    group.add(
      String(model.get("tab_id") ?? ""),
      Number(model.get("number") ?? -1),
      unpacked,
      request,
    ),
  );
  return signal === undefined ? () => own.abort() : undefined;
}

export default { render, mountPacked };
