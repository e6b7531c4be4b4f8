// Colors of the texts, worked out for the lines on the screen alone: the cost does not depend on the length of the text.
import {
  Decoration,
  type DecorationSet,
  EditorView,
  MatchDecorator,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import type { Extension } from "@codemirror/state";
import { type Child, element } from "./dom";
import { own } from "./records";

const STRING = String.raw`(?<string>"(?:[^"\\]|\\.)*")`;
const NUMBER = String.raw`(?<number>(?<![\w.])-?(?:0x[\da-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)`;

/** Language -> one expression whose named groups are the kinds of tokens. */
const TOKENS: Record<string, string> = {
  python: String.raw`(?<comment>#.*)|(?<string>"""[^]*?(?:"""|$)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<symbol>@[\w.]+)|(?<keyword>\b(?:def|return|for|in|if|elif|else|while|not|and|or|is|pass|import|from|as|assert|lambda|with|True|False|None)\b)|(?<type>\btl(?:\.\w+)+)|${NUMBER}`,
  mlir: String.raw`(?<comment>\/\/.*)|${STRING}|(?<value>%[\w$.-]+(?:[:#]\d+)?)|(?<symbol>@[\w$.]+|\^bb\d+)|(?<attribute>#[\w.]+)|(?<type>![\w.]+|\b(?:tensor|memref|vector|index|none|bf16|tf32|[iuf]\d+)\b)|(?<keyword>\b[a-z_]\w*\.[\w.]+|\b(?:module|attributes|true|false|dense)\b)|${NUMBER}`,
  llvm: String.raw`(?<comment>;.*)|${STRING}|(?<value>%[\w$.-]+)|(?<symbol>@[\w$.]+)|(?<attribute>![\w.]+|#\d+)|(?<type>\b(?:i\d+|float|half|bfloat|double|void|ptr|label|metadata)\b)|(?<keyword>\b(?:define|declare|ret|br|call|tail|load|store|getelementptr|phi|select|(?:insert|extract)(?:element|value)|f?(?:add|mul|sub|div|neg)|fcmp|icmp|[su]div|[su]rem|shl|lshr|ashr|and|or|xor|bitcast|zext|sext|trunc|fpext|fptrunc|addrspacecast|asm|align|unreachable|switch|to)\b)|${NUMBER}`,
  ptx: String.raw`(?<comment>\/\/.*)|${STRING}|(?<value>%[\w.]+)|(?<symbol>\$\w+:?)|(?<keyword>\b[a-z][a-z0-9]*(?:\.[\w:]+)+|\b(?:ret|bra|exit)\b)|(?<type>\.[a-z_]\w*)|(?<number>\b(?:0[xfd][\da-fA-F]+|\d+)\b)`,
  sass: String.raw`(?<comment>\/\*[0-9a-f]+\*\/)|(?<symbol>\.L_x_\d+|^[\w.$]+:)|(?<attribute>@!?U?P\w+)|(?<value>\b(?:U?R\d+|U?RZ|U?P\d|U?PT|SR_[\w.]+|B\d+)\b)|(?<keyword>\b[A-Z][A-Z0-9]{2,}(?:\.[\w]+)*|\b(?:BRA|RET|NOP|MOV)\b)|(?<type>\bc\[[^\]]*\]\[[^\]]*\])|${NUMBER}`,
  amdgcn: String.raw`(?<comment>;.*)|${STRING}|(?<symbol>^[\w.$]+:|\.L\w+)|(?<value>\b[svaS](?:\d+|\[\d+:\d+\])|\b(?:vcc|exec|scc|m0)\b)|(?<keyword>\b(?:s|v|ds|global|buffer|flat|scratch)_\w+)|(?<type>^\s*\.\w+)|${NUMBER}`,
};

const MARKS = Object.fromEntries(
  ["comment", "string", "value", "symbol", "attribute", "type", "keyword", "number"].map((kind) => [
    kind,
    Decoration.mark({ class: `kl-${kind}` }),
  ]),
);

/** A line with its colors, for a place without an editor. */
export function coloredLine(language: string, line: string): Child[] {
  const found: Child[] = [];
  let end = 0;
  for (const match of line.matchAll(new RegExp(own(TOKENS, language) ?? "$^", "g"))) {
    const kind = Object.entries(match.groups ?? {}).find(([, words]) => words !== undefined)?.[0];
    found.push(line.slice(end, match.index), element("span", { class: `kl-${kind}` }, match[0]));
    end = match.index + match[0].length;
  }
  return [...found, line.slice(end)];
}

/** Colors for a language; nothing for one that has none. */
export function colors(language: string): Extension {
  const tokens = own(TOKENS, language);
  if (tokens === undefined) return [];
  const matcher = new MatchDecorator({
    regexp: new RegExp(tokens, "gm"),
    // Lines of ten thousand characters (a struct of 128 registers) are colored as far as anyone scrolls.
    maxLength: 2000,
    decorate(add, from, to, match) {
      for (const kind in match.groups) {
        if (match.groups[kind] !== undefined) {
          add(from, to, MARKS[kind]!);
          return;
        }
      }
    },
  });
  return ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;
      constructor(view: EditorView) {
        this.decorations = matcher.createDeco(view);
      }
      update(update: ViewUpdate): void {
        this.decorations = matcher.updateDeco(update, this.decorations);
      }
    },
    { decorations: (plugin) => plugin.decorations },
  );
}
