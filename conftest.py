"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# Notebooks that are checked keep no bars among their outputs; tests of bars ask for them.
os.environ.setdefault("KERNELLAB_PROGRESS", "0")

# How long one example takes says how busy the machine is, and nothing about the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")
