"""Where the package keeps what it may need again: one folder of the user's caches."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder for one kind of cached data, which need not exist yet: below
    KERNELLAB_CACHE_DIR, or below kernellab/ in the user's caches.

    Raises:
        RuntimeError: the user has no home folder.
    """
    given = os.environ.get("KERNELLAB_CACHE_DIR")
    if given:
        return Path(given, name)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "kernellab", name)
