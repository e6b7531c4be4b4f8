// SVG elements, made in one call. Text goes in as text.

type Attributes = Record<string, string | number | undefined>;

export function svg<Name extends keyof SVGElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[Name] {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}
