// The bundle of the view of graphs, which its data brings along: no other view needs a layout.
import type { GraphView } from "./data";
import type { Kit } from "./graph_texts";
import { GraphExplorer } from "./graph_view";
import type { Beside, Seen } from "./tabs";

export type Draw = (
  dom: HTMLElement,
  data: GraphView,
  kit: Kit,
  part: (number: number) => Promise<string>,
  beside: Beside,
  root: Document | ShadowRoot,
) => Seen;

const draw: Draw = (...given) => new GraphExplorer(...given);

export default draw;
