"""Accesses through descriptors, made through a layer of memory."""

from __future__ import annotations

import functools
from typing import Any

from kernellab.interpreter.memory import descriptors
from kernellab.interpreter.memory.layers import Memory


class DescriptorsThrough:
    """Replaces the module `descriptors` in generated code: accesses go through `memory`."""

    def __init__(self, memory: Memory) -> None:
        for name in ("load", "store", "reduce", "gather", "scatter"):
            setattr(self, name, functools.partial(getattr(descriptors, name), through=memory))

    def __getattr__(self, name: str) -> Any:
        return getattr(descriptors, name)
