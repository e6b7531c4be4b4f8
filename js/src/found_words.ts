// How many places a search finds, in words beside its field: a search that finds nothing says so.
import { getSearchQuery, searchPanelOpen, SearchQuery } from "@codemirror/search";
import type { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { element } from "./dom";

/** Places that are counted; a text of many megabytes may have more than anybody wants to know. */
const MOST = 10_000;

/** The words for the search of a state; "" where nothing is looked for. */
function wordsOf(state: EditorState): string {
  const query = getSearchQuery(state);
  if (query.search === "") return "";
  if (!query.valid) return "no valid expression";
  const places = query.getCursor(state);
  let count = 0;
  while (count < MOST && !places.next().done) count++;
  if (count === 0) return "nothing found";
  return count === MOST
    ? `${MOST.toLocaleString("en")} places or more`
    : `${count.toLocaleString("en")} ${count === 1 ? "place" : "places"}`;
}

function show(view: EditorView): void {
  const panel = view.dom.querySelector(".cm-search");
  if (panel === null) return;
  let box = panel.querySelector(".kl-found");
  if (box === null) {
    box = element("span", { class: "kl-found", role: "status" });
    panel.querySelector("input[name=search]")?.after(box);
  }
  box.textContent = wordsOf(view.state);
}

/** Says it whenever the panel opens, or something else is looked for. */
export const foundWords = EditorView.updateListener.of((update) => {
  if (!searchPanelOpen(update.state)) return;
  const [before, now] = [getSearchQuery(update.startState), getSearchQuery(update.state)];
  if (!searchPanelOpen(update.startState) || !isSame(before, now)) show(update.view);
});

function isSame(before: SearchQuery, now: SearchQuery): boolean {
  return before === now || before.eq(now);
}
