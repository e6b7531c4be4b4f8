// Colab: what a view has to know of it. Its page is not public; these are what its makers publish for authors of outputs.

declare global {
  /** What Colab gives the page of a cell's outputs. */
  var google: { colab?: object } | undefined;
}

export function inColab(): boolean {
  return globalThis.google?.colab !== undefined;
}

/**
 * Hide the still that a widget represents: a notebook has it right before the widget (viz/kit/view.py).
 * Where the elements around an output are known, the style sheet does it. In Colab a page holds the outputs of one cell, so it is the last one before the widget.
 */
export function hideStillInColab(widget: HTMLElement): void {
  if (!inColab()) return;
  const stills = [...document.querySelectorAll<HTMLElement>(".kl-still")];
  const before = stills.filter(
    (still) => still.compareDocumentPosition(widget) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  before.at(-1)?.setAttribute("hidden", "");
}
