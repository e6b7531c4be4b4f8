// Scrolling within a view: the notebook around it stays where it is.

/** Scroll each of these as little as brings something within it into sight. */
export function reveal(inside: Element, ...scrollers: readonly (Element | null)[]): void {
  for (const scroller of scrollers) {
    if (scroller === null || scroller.scrollHeight <= scroller.clientHeight) continue;
    const [box, around] = [inside.getBoundingClientRect(), scroller.getBoundingClientRect()];
    const above = box.top - around.top;
    const below = box.bottom - around.top - scroller.clientHeight;
    if (above < 0) scroller.scrollTop += above;
    else if (below > 0) scroller.scrollTop += Math.min(above, below);
  }
}
