// A place too narrow for texts side by side: a style sheet puts them below each other.

/** Pixels. */
export const NARROW = 760;

/** Keeps the class "kl-narrow" of an element, from now on until the observer is disconnected. `changed` is called after each change of its width, also where it comes back to a page that had taken it out. */
export function followWidth(dom: HTMLElement, changed?: () => void): ResizeObserver {
  let width = 0;
  const notify = (): void => {
    if (dom.clientWidth === width) return;
    width = dom.clientWidth;
    dom.classList.toggle("kl-narrow", width > 0 && width < NARROW);
    if (width > 0) changed?.();
  };
  const observer = new ResizeObserver(notify);
  observer.observe(dom);
  notify(); // what is drawn next is scrolled by its height
  return observer;
}
