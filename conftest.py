"""What all tests share."""

from __future__ import annotations

import os

# Notebooks that are checked keep no bars among their outputs; tests of bars ask for them.
os.environ.setdefault("KERNELLAB_PROGRESS", "0")
