// Builds the bundle that the Python package carries; with --tests, what node's test runner runs.
//
//   node build.mjs            kernellab/viz/static: views.js, views.css, loader.js and graph.js
//   node build.mjs --out DIR  the same files, elsewhere
//   node build.mjs --tests    build/tests/*.test.js
import * as esbuild from "esbuild";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  logLevel: "warning",
};
/** CodeMirror's merge view imports parsers for its unified form, which no view uses: 24 KB that go where no one asks for them. */
const withoutParsers = {
  name: "without-parsers",
  setup(build) {
    build.onResolve(
      { filter: /^(@lezer\/|@codemirror\/language$)/ },
      async ({ path, resolveDir, kind, pluginData }) => {
        if (pluginData === "resolving") return undefined;
        const found = await build.resolve(path, { resolveDir, kind, pluginData: "resolving" });
        return { ...found, sideEffects: false };
      },
    );
  },
};
const outAt = process.argv.indexOf("--out");

if (process.argv.includes("--tests")) {
  const tests = readdirSync(here("test")).filter((name) => name.endsWith(".test.ts"));
  await esbuild.build({
    ...common,
    platform: "node",
    entryPoints: tests.map((name) => here(`test/${name}`)),
    outdir: here("build/tests"),
    outExtension: { ".js": ".mjs" },
  });
} else {
  await esbuild.build({
    ...common,
    minify: true,
    legalComments: "none",
    plugins: [withoutParsers],
    entryPoints: {
      views: here("src/main.ts"),
      loader: here("src/loader.ts"),
      graph: here("src/graph.ts"),
    },
    outdir: outAt < 0 ? here("../kernellab/viz/static") : process.argv[outAt + 1],
  });
}
