"""What `make js` builds from js/: the bundle that draws views, its style sheet,
and the loader that finds the bundle in a notebook.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

_STATIC = files("kernellab.viz") / "static"

SCRIPT = (_STATIC / "views.js").read_text(encoding="utf-8")
"""The bundle: an ES module."""
STYLE = (_STATIC / "views.css").read_text(encoding="utf-8")
"""Its style sheet."""
LOADER = (_STATIC / "loader.js").read_text(encoding="utf-8")
"""The small ES module, as anywidget takes it, that every widget brings along."""
GRAPH_SCRIPT = (_STATIC / "graph.js").read_text(encoding="utf-8")
"""A further ES module, which draws graphs: their views bring it along."""
DIGEST = hashlib.sha256(f"{SCRIPT}\0{STYLE}".encode()).hexdigest()[:16]
"""Names this bundle among those of other versions in one page."""
