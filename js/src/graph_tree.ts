// A level's graph as a tree of groups: what is drawn of it while some are open, and which edges run between.
import type { GraphLevel } from "./data";

/** Something that is drawn: an element, or a group. */
export interface Item {
  /** The element; -1 for a group. */
  element: number;
  /** The group; -1 for an element. */
  group: number;
}

/** An edge between two items of one group, by their places in it. */
export interface Edge {
  from: number;
  to: number;
  /** How many edges between elements it represents, and how many bytes go along it. */
  count: number;
  bytes: number;
}

/** A group's items, and the edges between them. */
export interface Inside {
  items: readonly Item[];
  edges: readonly Edge[];
}

/** Items on the screen at first. */
const AT_FIRST = 70;

export class Tree {
  /** Elements of each group, those of groups within it too; the root's are under -1. */
  private readonly members = new Map<number, number[]>();
  private readonly items = new Map<number, Item[]>();
  private edges: Map<number, Map<string, Edge>> | null = null;

  constructor(readonly level: GraphLevel) {
    const order = new Set<number>();
    level.groups.forEach((group, element) => {
      for (let at = group; ; at = level.all_groups[at]!.parent) {
        push(this.members, at, element);
        if (at < 0) break;
        if (order.has(at)) continue;
        order.add(at);
        push(this.items, level.all_groups[at]!.parent, { element: -1, group: at });
      }
      push(this.items, group, { element, group: -1 });
    });
  }

  /** The elements in a group, -1 for all. */
  elements(group: number): readonly number[] {
    return this.members.get(group) ?? [];
  }

  /** The groups that a group or an element is in, the innermost first. */
  around(group: number): number[] {
    const found: number[] = [];
    for (let at = group; at >= 0; at = this.level.all_groups[at]!.parent) found.push(at);
    return found;
  }

  inside(group: number): Inside {
    this.edges ??= this.allEdges();
    return {
      items: this.items.get(group) ?? [],
      edges: [...(this.edges.get(group)?.values() ?? [])],
    };
  }

  /** The groups that are open at first: as many as fit, the outermost first. */
  openAtFirst(most = AT_FIRST): Set<number> {
    const open = new Set<number>();
    let shown = this.items.get(-1)?.length ?? 0;
    let next = this.groupsIn(-1);
    while (next.length > 0) {
      const deeper: number[] = [];
      for (const group of next) {
        const more = this.items.get(group)?.length ?? 0;
        if (shown + more > most) continue;
        shown += more;
        open.add(group);
        deeper.push(...this.groupsIn(group));
      }
      next = deeper;
    }
    return open;
  }

  private groupsIn(group: number): number[] {
    return (this.items.get(group) ?? []).flatMap((item) => (item.group >= 0 ? [item.group] : []));
  }

  /** An edge belongs to the innermost group that holds both of its ends, between the items that they are or are in. */
  private allEdges(): Map<number, Map<string, Edge>> {
    const { level } = this;
    const places = new Map<string, number>();
    for (const [, items] of this.items)
      items.forEach((item, place) => places.set(`${item.group} ${item.element}`, place));
    const paths = level.groups.map((group) => this.around(group).reverse());
    const found = new Map<number, Map<string, Edge>>();
    /** What each edge has carried already: a value that many use goes along it once. */
    const carried = new Set<string>();
    level.inputs.forEach((inputs, user) => {
      for (const taken of inputs) {
        const [one, other] = [paths[taken]!, paths[user]!];
        let depth = 0;
        while (depth < one.length && depth < other.length && one[depth] === other[depth]) depth++;
        const where = depth === 0 ? -1 : one[depth - 1]!;
        const from = places.get(depth < one.length ? `${one[depth]} -1` : `-1 ${taken}`)!;
        const to = places.get(depth < other.length ? `${other[depth]} -1` : `-1 ${user}`)!;
        let edges = found.get(where);
        if (edges === undefined) found.set(where, (edges = new Map()));
        const key = `${from} ${to}`;
        const known = edges.get(key);
        const value = `${where} ${key} ${taken}`;
        const bytes = carried.has(value) ? 0 : (level.bytes[taken] ?? 0);
        carried.add(value);
        if (known === undefined) edges.set(key, { from, to, count: 1, bytes });
        else {
          known.count++;
          known.bytes += bytes;
        }
      }
    });
    return found;
  }
}

function push<Key, Value>(map: Map<Key, Value[]>, key: Key, value: Value): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}
