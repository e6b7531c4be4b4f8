// The view of a profile: the answer, the source with a bar for what each line took, and the events of warps over time, linked with the lines.
import "./profile.css";
import { footnotes } from "./card";
import type { CostLine, KernelCosts, LineCost, ProfileView } from "./data";
import { button, element } from "./dom";
import { coloredLine } from "./highlight";
import { bar, type BarKind, percentWords, stacked, swatch } from "./parts/bar";
import { cardTable } from "./parts/table";
import { slicesOf, Timeline } from "./parts/timeline";
import { copyButton, radios, turnOn } from "./parts/toolbar";
import type { Seen } from "./tabs";

/** What each name of the timeline took in its selection. */
type Sums = ReadonlyMap<number, number>;

export class ProfileExplorer implements Seen {
  private timeline: Timeline | null = null;
  private readonly listings: LineListing[];
  private readonly legend = element("div", { class: "kl-totals" });
  /** The number of the measure that bars show. */
  private measure = 0;
  private sums: Sums | null = null;
  private line: CostLine | null = null;
  private readonly chosen = element("div", { class: "kl-cost-words", role: "status" });
  private readonly costsDom = element("div", { class: "kl-costs" });

  constructor(
    dom: HTMLElement,
    private readonly data: ProfileView,
    bytes: (part: number) => Promise<ArrayBuffer>,
  ) {
    this.listings = data.kernels.map(
      (kernel) => new LineListing(kernel, data.kernels.length > 1, (line) => this.choose(line)),
    );
    this.costsDom.append(...this.listings.map(({ dom: one }) => one));
    const hottest = this.hottest();
    const hasLines = data.kernels.length > 0;
    const scopes =
      data.scopes === null
        ? []
        : [
            element(
              "details",
              { open: !hasLines },
              element("summary", {}, "Scopes"),
              element(
                "div",
                { class: "kl-scopes", tabindex: "0", role: "region", "aria-label": "Scopes" },
                cardTable({ ...data.scopes, title: "" }),
              ),
            ),
          ];
    dom.append(
      this.head(hottest),
      ...(hasLines ? [this.legend] : []),
      this.costsDom,
      ...(hasLines ? [this.chosen] : []),
    );
    if (data.timeline !== null) void this.drawTimeline(dom, bytes);
    dom.append(...scopes, footnotes(data.notes));
    this.show(null);
    this.choose(null);
    for (const listing of this.listings) listing.reveal(hottest);
  }

  destroy(): void {
    this.timeline?.destroy();
  }

  // The answer

  private head(hottest: CostLine | null): HTMLElement {
    const { title, answer, origin, is_of_gpu, text } = this.data;
    const words =
      hottest === null
        ? []
        : [
            button(`Show line ${hottest.number}`, "Light the line and its events", () =>
              this.pick(hottest),
            ),
          ];
    return element(
      "div",
      { class: "kl-profile-head" },
      element(
        "div",
        { class: "kl-answer", hidden: answer === "" },
        answer.replaceAll(" %", "\u00a0%"),
      ),
      element(
        "div",
        { class: "kl-tools" },
        element("b", {}, title),
        element("span", { class: is_of_gpu ? "kl-soft" : "kl-not-measured" }, origin),
        element("span", { class: "kl-space" }),
        ...words,
        copyButton("Copy as text", "Copy all of it as text", () => text),
      ),
    );
  }

  /** The line of the first kernel with the operation that took most: the one that the answer names. */
  private hottest(): CostLine | null {
    const most = (line: CostLine): number =>
      Math.max(0, ...line.costs.map(({ shares }) => shares[0]!));
    return (this.data.kernels[0]?.lines ?? []).reduce<CostLine | null>(
      (best, line) => (most(line) > (best === null ? 0 : most(best)) ? line : best),
      null,
    );
  }

  // Lines

  private pick(line: CostLine): void {
    for (const listing of this.listings) listing.choose(line);
    this.choose(line);
  }

  /** Say what a line took, and light its events; null for no line. */
  private choose(line: CostLine | null): void {
    this.line = line;
    for (const listing of this.listings) listing.light(line);
    const scopes = new Set((line?.costs ?? []).map(({ scope }) => scope));
    scopes.delete(-1);
    this.timeline?.light(scopes.size > 0 ? scopes : null);
    this.chosen.replaceChildren(
      ...(line === null || line.costs.length === 0
        ? [element("span", { class: "kl-soft" }, invitation(line, this.data.timeline !== null))]
        : [element("b", {}, `Line ${line.number}`), ...this.costs(line)]),
    );
  }

  /** The share of a cost: of the selected part of the timeline where there is one. */
  private share({ scope, shares }: LineCost): number {
    if (this.sums === null) return shares[this.measure]!;
    const whole = [...this.sums.values()].reduce((all, one) => all + one, 0);
    return (this.sums.get(scope) ?? 0) / (whole || 1);
  }

  /** What a line took, the most first; without what took nothing of the measure, if something did. */
  private costs({ costs }: CostLine): HTMLElement[] {
    const all = costs.map((cost) => ({ cost, share: this.share(cost) }));
    const some = all.filter(({ share }) => share > 0);
    const shown = (some.length > 0 ? some : all).sort((one, other) => other.share - one.share);
    return shown.map(({ cost, share }) => costWords(cost, share));
  }

  /** Draw the bars for a part of the timeline; null for all of the profile. */
  private show(sums: Sums | null): void {
    this.sums = sums;
    for (const listing of this.listings) listing.draw((cost) => this.share(cost));
    const parts = this.listings.slice(0, 1).flatMap((listing) => listing.parts);
    const whole = parts.reduce((sum, { share }) => sum + share, 0) || 1;
    const total = stacked(parts, whole);
    this.legend.replaceChildren(
      ...this.measures(),
      bar(total),
      ...total.map(({ stands_for, share }) =>
        swatch(stands_for, `${stands_for} ${percentWords(share)}`),
      ),
    );
    this.costsDom.classList.toggle("kl-of-selection", sums !== null);
  }

  /** The measures to choose from; none where there is one. */
  private measures(): HTMLElement[] {
    const { measures } = this.data;
    if (measures.length < 2) return [];
    const choices = measures.map((name, at) => ({
      value: String(at),
      words: name,
      title: `Show shares of the ${name}`,
    }));
    const made = radios("Bars", choices, (at) => {
      this.measure = Number(at);
      this.show(null);
      this.choose(null);
      this.legend.querySelector<HTMLElement>("[aria-checked=true]")?.focus();
    });
    turnOn(made, String(this.measure));
    return [made];
  }

  // The timeline

  private async drawTimeline(
    dom: HTMLElement,
    bytes: (part: number) => Promise<ArrayBuffer>,
  ): Promise<void> {
    const place = element("div");
    dom.append(place);
    const data = this.data.timeline!;
    this.timeline = new Timeline(data, slicesOf(await bytes(1)), {
      select: (sums) => {
        this.show(sums);
        this.choose(this.line);
      },
      click: (scope) => {
        const all = this.data.kernels.flatMap(({ lines }) => lines);
        const line = all.find(({ costs }) => costs.some((cost) => cost.scope === scope));
        if (line !== undefined) this.pick(line);
      },
    });
    place.replaceWith(this.timeline.dom);
  }
}

function invitation(line: CostLine | null, hasTimeline: boolean): string {
  if (line !== null) return `Line ${line.number} took nothing.`;
  return `Click a line for what it took${hasTimeline ? " and when" : ""}.`;
}

function costWords({ stands_for, words, facts }: LineCost, share: number): HTMLElement {
  const name = `${words || "all of it"} ${percentWords(share)}`;
  return element(
    "span",
    {},
    swatch(stands_for, name),
    element("span", { class: "kl-soft" }, facts === "" ? "" : ` ${facts}`),
  );
}

/** The lines of a kernel, each with its bar. */
class LineListing {
  readonly dom: HTMLElement;
  /** What the bars add up to. */
  parts: { stands_for: BarKind; share: number }[] = [];
  private readonly list: HTMLElement;
  private readonly rows: HTMLElement[];
  private at: number | null = null;

  constructor(
    private readonly kernel: KernelCosts,
    isNamed: boolean,
    private readonly chosen: (line: CostLine | null) => void,
  ) {
    this.rows = kernel.lines.map(({ number, text }, at) =>
      element(
        "li",
        {
          role: "option",
          id: `kl-line-${ids++}`,
          "aria-selected": "false",
          "data-line": number,
          onclick: () => this.turn(this.at === at ? null : at),
        },
        element("span", { class: "kl-line-number" }, String(number)),
        element("span", { class: "kl-line-bar" }),
        element("span", { class: "kl-line-share" }),
        element("code", {}, ...coloredLine("python", text)),
      ),
    );
    this.list = element(
      "ul",
      {
        class: "kl-lines",
        role: "listbox",
        tabindex: "0",
        "aria-label": `Lines of ${kernel.name}`,
        onkeydown: (event) => this.key(event as KeyboardEvent),
      },
      ...this.rows,
    );
    this.dom = element(
      "section",
      {},
      ...(isNamed
        ? [
            element(
              "div",
              { class: "kl-lines-head" },
              element("b", {}, kernel.name),
              ` ${kernel.words}`,
            ),
          ]
        : []),
      this.list,
    );
  }

  /** Draw the bars of what each cost has a share of. */
  draw(of: (cost: LineCost) => number): void {
    const lines = this.kernel.lines.map(({ costs }) =>
      costs.map((cost) => ({ stands_for: cost.stands_for, share: of(cost) })),
    );
    const total = (parts: readonly { share: number }[]): number =>
      parts.reduce((sum, { share }) => sum + share, 0);
    const most = Math.max(...lines.map(total)) || 1;
    this.parts = lines.flat();
    this.rows.forEach((row, at) => {
      const parts = lines[at]!;
      const share = total(parts);
      row
        .querySelector(".kl-line-bar")!
        .replaceChildren(...(share > 0 ? [bar(stacked(parts, most))] : []));
      row.querySelector(".kl-line-share")!.textContent = share > 0 ? percentWords(share) : "";
      row.classList.toggle("kl-hottest", share > 0 && share === most);
    });
  }

  /** Have a line in sight without moving the page. */
  reveal(line: CostLine | null): void {
    const at = line === null ? -1 : this.kernel.lines.indexOf(line);
    if (at < 0) return;
    requestAnimationFrame(() => {
      const { offsetTop, offsetHeight } = this.rows[at]!;
      const below = offsetTop + offsetHeight - this.list.clientHeight;
      if (below > 0) this.list.scrollTop = below + this.list.clientHeight / 3;
    });
  }

  /** Choose a line if it is one of these. */
  choose(line: CostLine): void {
    const at = this.kernel.lines.indexOf(line);
    if (at < 0) return;
    this.at = at;
    this.rows[at]!.scrollIntoView({ block: "nearest" });
  }

  /** Mark the chosen line, or none. */
  light(line: CostLine | null): void {
    const at = line === null ? -1 : this.kernel.lines.indexOf(line);
    if (at < 0) this.at = null;
    this.rows.forEach((row, place) => row.setAttribute("aria-selected", String(place === at)));
    if (at < 0) this.list.removeAttribute("aria-activedescendant");
    else this.list.setAttribute("aria-activedescendant", this.rows[at]!.id);
  }

  private turn(at: number | null): void {
    this.at = at;
    this.chosen(at === null ? null : this.kernel.lines[at]!);
    if (at !== null) this.rows[at]!.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    const last = this.rows.length - 1;
    const at = this.at ?? -1;
    const next = {
      ArrowUp: Math.max(0, at - 1),
      ArrowDown: Math.min(last, at + 1),
      Home: 0,
      End: last,
    }[event.key];
    if (next !== undefined) this.turn(next);
    else if (event.key === "Escape" && this.at !== null) this.turn(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

let ids = 0;
