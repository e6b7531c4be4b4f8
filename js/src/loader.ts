// What every widget brings along, so that the bundle need not: it finds the bundle, which a kernel sends once, and lets it draw.
import { requester, type Holder, holderOf, type Model } from "./kernel";

interface Place {
  model: Model;
  el: HTMLElement;
  signal?: AbortSignal;
}

interface Loaded {
  views: { render(place: Place, holder: Holder | null): Promise<(() => void) | undefined> };
  style: string;
}

declare global {
  /** The bundles of this page, by digest: a second view imports nothing. */
  var kernellabViews: Map<string, Promise<Loaded>> | undefined;
}

/** The bundle, from the model that holds it, else from the kernel itself. */
async function load(model: Model, holder: Holder | null): Promise<Loaded> {
  const held = typeof holder?.get("source") === "string" ? holder : null;
  const answer = held === null ? await requester(model, holder)("bundle", {}) : null;
  const part = (name: string): string =>
    String(answer === null ? held?.get(name) : answer.content[name]);
  const address = URL.createObjectURL(new Blob([part("source")], { type: "text/javascript" }));
  try {
    return {
      views: ((await import(address)) as { default: Loaded["views"] }).default,
      style: part("style"),
    };
  } finally {
    URL.revokeObjectURL(address);
  }
}

function addStyle(el: HTMLElement, digest: string, text: string): void {
  const root = el.getRootNode();
  const place = root instanceof ShadowRoot ? root : document.head;
  const id = `kernellab-${digest}`;
  if (place.querySelector(`#${id}`) !== null) return;
  const style = document.createElement("style");
  style.id = id;
  style.textContent = text;
  place.append(style);
}

async function render(place: Place): Promise<(() => void) | undefined> {
  const { model, el } = place;
  const bundles = (globalThis.kernellabViews ??= new Map());
  const digest = String(model.get("digest"));
  const holder = await holderOf(model);
  let loaded = bundles.get(digest);
  if (loaded === undefined) {
    loaded = load(model, holder);
    bundles.set(digest, loaded);
    loaded.catch(() => bundles.delete(digest));
  }
  const { views, style } = await loaded;
  addStyle(el, digest, style);
  return views.render(place, holder);
}

export default { render };
