// The bundle's door: what a widget (anywidget's conventions) and a self-contained page call.
import "./style.css";
import { hideStillInColab } from "./colab";
import { element } from "./dom";
import { Explorer } from "./explorer";
import { type Ask, asking, followKernel, type Holder, isGone, type Model } from "./kernel";
import { LayoutExplorer } from "./layout_view";
import { StepperExplorer } from "./stepper";
import { followTheme } from "./theme";
import type { Sources } from "./side";
import { TuningExplorer } from "./tuning_view";
import { unpack, type Unpacked } from "./unpack";

interface Drawn {
  destroy(): void;
}

/** `ask` asks the notebook's kernel; null where there is none. */
function drawn(dom: HTMLElement, { data, part, bytes, numbers }: Unpacked, ask: Ask | null, root: Document | ShadowRoot): Drawn {
  switch (data.kind) {
    case "ir": return new Explorer(dom, data, { sources: { part, fetch: textsOf(ask) }, root });
    case "layout": return new LayoutExplorer(dom, data);
    case "steps": return new StepperExplorer(dom, data, numbers, ask);
    case "tuning": return new TuningExplorer(dom, data, { root, bytes, ask });
  }
}

/** Draw a view into an element; it goes when the signal aborts. */
function mount(el: HTMLElement, unpacked: Unpacked, ask: Ask | null, signal: AbortSignal): HTMLElement {
  const { kind, title } = unpacked.data;
  const dom = element("div", { class: `kl-root kl-${kind}`, role: "region", tabindex: "-1", "aria-label": title });
  // A notebook's shortcuts ("d d" deletes the cell) are those of the element with the focus, whatever it is in: that element has to refuse them.
  dom.addEventListener("focusin", ({ target }) => (target as Element).setAttribute("data-lm-suppress-shortcuts", "true"));
  followTheme(dom, signal);
  el.append(dom);
  const found = el.getRootNode();
  const view = drawn(dom, unpacked, ask, found instanceof ShadowRoot ? found : document);
  dom.dataset["ready"] = "true";
  signal.addEventListener("abort", () => {
    view.destroy();
    dom.remove();
  });
  return dom;
}

/** The source of the texts that the data left out: the kernel. */
function textsOf(ask: Ask | null): Sources["fetch"] {
  if (ask === null) return () => Promise.reject(new Error("a page has no kernel"));
  return async (side, text) => String((await ask("text", { side, text })).content["text"]);
}

// A self-contained page

/** Draw a view from the packed data of a page, which has every text. */
async function mountPacked(el: HTMLElement, bytes: Uint8Array): Promise<void> {
  mount(el, await unpack(bytes), null, new AbortController().signal);
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
  const dom = mount(el, unpacked, asking(model, holder), own.signal);
  hideStillInColab(dom);
  sayWhenGone(dom, holder, own.signal);
  return signal === undefined ? () => own.abort() : undefined;
}

export default { render, mountPacked };
