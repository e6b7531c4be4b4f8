// A place too narrow for texts side by side: a style sheet puts them below each other.

/** Pixels. */
const NARROW = 760;

/** Keeps the class "kl-narrow" of an element, from now on until the observer is disconnected. */
export function followWidth(dom: HTMLElement): ResizeObserver {
  const notify = (): void =>
    void dom.classList.toggle("kl-narrow", dom.clientWidth > 0 && dom.clientWidth < NARROW);
  const observer = new ResizeObserver(notify);
  observer.observe(dom);
  notify(); // what is drawn next is scrolled by its height
  return observer;
}
