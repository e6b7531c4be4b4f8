// What every view has around it: it can fill the screen, and leaves the wheel to the page until it has the focus.
import { button } from "./dom";
import { svg } from "./svg";

const FILLS = "kl-fills";

/** The button that lets a view fill the screen, and gives it back its place; where the browser refuses the screen, it fills the window. */
export function maximizer(container: HTMLElement): HTMLButtonElement {
  const leave = (event: KeyboardEvent): void => {
    if (event.key === "Escape") toggle();
  };
  const fill = (fills: boolean): void => {
    container.classList.toggle(FILLS, fills);
    if (fills) document.addEventListener("keydown", leave);
    else document.removeEventListener("keydown", leave);
  };
  const toggle = (): void => {
    const root = container.getRootNode() as Document | ShadowRoot;
    if (container.classList.contains(FILLS)) fill(false);
    else if (root.fullscreenElement === container) void document.exitFullscreen();
    else if (document.fullscreenEnabled) container.requestFullscreen().catch(() => fill(true));
    else fill(true);
  };
  const made = button("", "Fill the screen, or go back to the page (Esc)", toggle);
  made.classList.add("kl-maximize");
  made.setAttribute("aria-label", "Fill the screen");
  const corners = svg("path", {
    d: "M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.5,
  });
  made.append(
    svg("svg", { viewBox: "0 0 14 14", width: 13, height: 13, "aria-hidden": "true" }, corners),
  );
  return made;
}

/** Lines and pages of a wheel, in pixels. */
const UNITS = [1, 16, 400];

/** A wheel over a view scrolls what is around it, as if the view were a picture, until somebody clicks into it. */
export function leaveWheel(dom: HTMLElement, container: HTMLElement, signal: AbortSignal): void {
  const turned = (event: WheelEvent): void => {
    if (
      event.ctrlKey ||
      event.shiftKey ||
      Math.abs(event.deltaX) > Math.abs(event.deltaY) ||
      dom.matches(":focus-within")
    )
      return;
    const root = container.getRootNode() as Document | ShadowRoot;
    if (
      container.classList.contains(FILLS) ||
      root.fullscreenElement === container ||
      !isCaught(event, dom)
    )
      return;
    const around = scrollerAround(container);
    event.preventDefault();
    around?.scrollBy({ top: event.deltaY * (UNITS[event.deltaMode] ?? 1), behavior: "instant" });
  };
  dom.addEventListener("wheel", turned, { passive: false, signal });
}

function scrolls(one: Element): boolean {
  return one.scrollHeight > one.clientHeight && /auto|scroll/.test(getComputedStyle(one).overflowY);
}

/** Whether something inside of the view would scroll. */
function isCaught(event: WheelEvent, dom: HTMLElement): boolean {
  for (const one of event.composedPath()) {
    if (one instanceof Element && scrolls(one)) return true;
    if (one === dom) return false;
  }
  return false;
}

/** What scrolls around an element, out of shadow trees too. */
function scrollerAround(container: HTMLElement): Element | null {
  let at: Node | null = container.parentNode;
  while (at !== null) {
    if (
      at instanceof Element &&
      at !== document.body &&
      at !== document.documentElement &&
      scrolls(at)
    )
      return at;
    at = at instanceof ShadowRoot ? at.host : at.parentNode;
  }
  return document.scrollingElement;
}
