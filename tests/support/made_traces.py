"""Files of traces that no kernel left: consistent, and as large as one likes."""

import base64
import itertools
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy

from kernellab.tracing.steps import DOCUMENT, FORMAT, VALUES
from kernellab.tracing.values import compressed


class MadeTrace:
    """A file of a trace of a kernel "k", in the making."""

    def __init__(self) -> None:
        self._heap = bytearray()
        self._values: list[dict[str, Any]] = []
        self._arguments: list[dict[str, Any]] = []
        self._contents: dict[str, int] = {}
        self.steps: list[list[Any]] = []
        self.frames: list[list[Any]] = [["k", "k.py", [0, 0, 0], None, 0, {}]]

    def value(self, array: numpy.ndarray) -> int:
        content, number = compressed(array), len(self._values)
        digest = base64.b64encode(number.to_bytes(16, "little")).decode()
        self._values.append(
            {
                "digest": digest, "kind": "tile", "dtype": array.dtype.name,
                "shape": list(array.shape), "argument": "", "data": [len(self._heap), len(content)],
            }
        )  # fmt: skip
        self._heap += content
        return number

    def argument(
        self, name: str, array: numpy.ndarray, strides: tuple[int, ...] | None = None
    ) -> None:
        shape = array.shape
        own = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        self._arguments.append(
            {
                "name": name, "dtype": array.dtype.name, "shape": list(shape),
                "strides": list(strides or own), "storage": len(self._arguments), "start": 0,
            }
        )  # fmt: skip
        self._contents[name] = self.value(array)

    def step(self, *accesses: list[Any], **changed: int) -> None:
        """A step; `access` makes what is accessed, `value` the numbers of what changes."""
        self.steps.append([0, 1, [], changed, list(accesses), ""])

    def call(self, caller: int, line: int) -> int:
        """The number of a frame that is called from another, with one step of its own."""
        number = len(self.frames)
        self.frames.append(["f", "k.py", [0, 0, 0], caller, line, {}])
        self.steps.append([number, 1, [], {}, [], ""])
        return number

    def saved(self, file: Path) -> Path:
        document = {
            "format": FORMAT.name,
            "version": FORMAT.version,
            "facts": {
                "kernel": "k", "grid": [1, 1, 1], "target": "sm_90", "programs": [[0, 0, 0]],
                "operations": False, "constants": {}, "options": {}, "largest_exact": 65536,
            },
            "values": self._values,
            "places": list(range(len(self._values))),
            "frames": self.frames,
            "sources": [],
            "arguments": self._arguments,
            "steps": self.steps,
            "checkpoints": [[0, self._contents]],
            "asynchronous": [],
            "fault": None,
            "notices": [],
        }  # fmt: skip
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(DOCUMENT, json.dumps(document))
            archive.writestr(VALUES, bytes(self._heap))
        return file


def scattered(argument: str, places: int) -> list[Any]:
    """A load of elements of four bytes whose places have that number among the values."""
    return ["load", argument, 4, places, None, None]


_starts = itertools.count()


def access(
    kind: str,
    argument: str,
    strides: list[int],
    extents: list[int],
    mask: int | None = None,
    written: int | None = None,
) -> list[Any]:
    """An access to elements of four bytes, which begins where no other does."""
    return [kind, argument, 4, [next(_starts), strides, extents], mask, written]
