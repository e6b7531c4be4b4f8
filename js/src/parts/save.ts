// The menu that saves a view: as a page, its tables as CSV, its picture as PNG.
import { button, element } from "../dom";
import type { KernelRequest } from "../kernel";
import { copyButton } from "./toolbar";

/** A button, and beside it what it opens; `request` is null where no kernel can write the page. */
export function saveMenu(request: KernelRequest | null): readonly HTMLElement[] {
  const items = element("div", { class: "kl-save-items", hidden: true });
  const toggle = button("Save", "Save this view, its tables or its picture", () =>
    show(items.hasAttribute("hidden")),
  );
  const show = (isOpen: boolean): void => {
    const root = toggle.closest<HTMLElement>(".kl-root");
    items.replaceChildren(...(isOpen && root !== null ? itemsOf(root, request) : []));
    items.hidden = !isOpen;
    toggle.setAttribute("aria-expanded", String(isOpen));
  };
  toggle.classList.add("kl-save");
  toggle.setAttribute("aria-expanded", "false");
  items.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    show(false);
    toggle.focus();
    event.stopPropagation();
  });
  return [items, toggle];
}

function itemsOf(root: HTMLElement, request: KernelRequest | null): HTMLElement[] {
  const name = fileName(root.getAttribute("aria-label") ?? "");
  const [tables, picture] = [tablesOf(root), pictureOf(root)];
  const isBare = request === null && picture === null && tables.length === 0;
  const status = element("span", { class: "kl-soft", role: "status" }, isBare ? BARE : "");
  const attempt = (words: string, work: () => Promise<Blob>, ending: string): void => {
    status.textContent = words;
    work().then(
      (blob) => {
        status.textContent = "";
        download(blob, `${name}.${ending}`);
      },
      (error: unknown) => {
        status.textContent = error instanceof Error ? error.message : String(error);
      },
    );
  };
  const page = async (): Promise<Blob> => {
    const { buffers } = await request!("page", {});
    return new Blob([...buffers] as BlobPart[], { type: "text/html" });
  };
  return [
    ...(request === null
      ? []
      : [
          button("Page", "Save the view as one HTML file, with every interaction", () =>
            attempt("The notebook's kernel is writing the page …", page, "html"),
          ),
        ]),
    ...(picture === null
      ? []
      : [
          button("Picture", "Save the largest picture of the view as PNG", () =>
            attempt("Drawing …", () => drawn(picture), "png"),
          ),
        ]),
    ...(tables.length === 0
      ? []
      : [copyButton("Copy CSV", "Copy the tables of the view as CSV", () => csvOf(tables))]),
    status,
  ];
}

const BARE = "This page is the saved view; it has no table and no picture.";

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A file name made of a title. */
export function fileName(title: string): string {
  const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? ["view"];
  return words.join("_").slice(0, 60);
}

const isVisible = (one: Element): boolean => one.getClientRects().length > 0;

const tablesOf = (root: HTMLElement): HTMLTableElement[] =>
  [...root.querySelectorAll("table")].filter(isVisible);

/** Tables as CSV (RFC 4180), with an empty line between two. */
export function csvOf(tables: readonly HTMLTableElement[]): string {
  const rows = (table: HTMLTableElement): string =>
    [...table.rows]
      .map((row) => [...row.cells].map((cell) => quoted(cell.textContent.trim())).join(","))
      .join("\r\n");
  return `${tables.map(rows).join("\r\n\r\n")}\r\n`;
}

const quoted = (text: string): string =>
  /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

type Picture = HTMLCanvasElement | SVGSVGElement;

/** The largest picture in sight; icons are none. */
function pictureOf(root: HTMLElement): Picture | null {
  const area = (one: Element): number => {
    const { width, height } = one.getBoundingClientRect();
    return width * height;
  };
  const all = [...root.querySelectorAll<Picture>("canvas, svg")].filter(
    (one) => area(one) > SMALLEST,
  );
  return all.reduce<Picture | null>(
    (best, one) => (best === null || area(one) > area(best) ? one : best),
    null,
  );
}

/** Square pixels of the smallest picture that is more than an icon. */
const SMALLEST = 10_000;

/** Pixels of a saved picture for one on the screen. */
const SCALE = 2;

/** A picture as PNG, on the paper of its view. */
async function drawn(picture: Picture): Promise<Blob> {
  const { width, height } = picture.getBoundingClientRect();
  const canvas = element("canvas", { width: SCALE * width, height: SCALE * height });
  const context = canvas.getContext("2d")!;
  context.fillStyle = getComputedStyle(picture.closest(".kl-root")!).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const source = picture instanceof HTMLCanvasElement ? picture : await imageOf(picture);
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) =>
      blob === null ? reject(new Error("The picture is too large to save.")) : resolve(blob),
    ),
  );
}

/** What style sheets give the parts of a drawing, which an image of it alone would lose. */
const STYLES = [
  "display", "fill", "fill-opacity", "font-family", "font-size", "font-weight", "opacity", "stroke",
  "stroke-dasharray", "stroke-opacity", "stroke-width", "text-anchor", "visibility",
]; // prettier-ignore

async function imageOf(drawing: SVGSVGElement): Promise<HTMLImageElement> {
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  const parts = [...copy.querySelectorAll<SVGElement>("*")];
  for (const [at, original] of [...drawing.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(original);
    for (const name of STYLES) parts[at]!.style.setProperty(name, style.getPropertyValue(name));
  }
  const { width, height } = drawing.getBoundingClientRect();
  copy.setAttribute("width", String(SCALE * width));
  copy.setAttribute("height", String(SCALE * height));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
