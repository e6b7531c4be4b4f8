#!/bin/sh
# Checks js/: its types, its tests, and that the committed bundle is what its sources and the lock file give.
set -eu
cd "$(dirname "$0")/../js"
npm run --silent check
npm test --silent
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
node build.mjs --out "$built"
for file in views.js views.css loader.js graph.js; do
  cmp "$built/$file" "../kernellab/viz/static/$file" || { echo "kernellab/viz/static/$file is not what js/ gives: run make js" >&2; exit 1; }
done
echo "The bundle is current."
