"""Write `js/test/layouts.json`: layouts as the view is sent them, and what Python says of them,
which the TypeScript has to say too.

python -m tests.viz.layout_fixture
"""

import json
from typing import Any

import numpy

from kernellab.records.layouts import Layout, RegisterLayout, SharedLayout
from kernellab.viz.kit.data import as_json
from kernellab.viz.layouts import layout_view
from tests.support.layouts import blocked
from tests.support.source_files import ROOT

FILE = ROOT / "js/test/layouts.json"


def layouts() -> list[Layout]:
    """One of each kind: replicated, 3-D, of an instruction, swizzled, padded, tensor memory."""
    mma = Layout.nvidia_mma(
        shape=(16, 16), version=2, warps_per_cta=[1, 2], instruction_shape=[16, 8]
    )
    return [
        mma,
        blocked((16, 16), [1, 4], [8, 4], [2, 1], [1, 0]),
        Layout.slice(shape=(16,), dim=1, parent=mma),
        blocked((2, 4, 8), [1, 1, 2], [1, 8, 4], [2, 1, 1], [2, 1, 0]),
        Layout.swizzled_shared(shape=(16, 32), vector=8, per_phase=2, max_phase=4, order=[1, 0]),
        Layout.padded_shared(shape=(8, 16), paddings=[(16, 4)], order=[1, 0]),
        Layout.tensor_memory(shape=(64, 16), block_m=64, block_n=16),
    ]


def said(layout: Layout) -> dict[str, Any]:
    """What Python says: every element's holders, by index."""
    holders = {
        ",".join(map(str, index)): [list(one) for one in layout.holders(index)]
        for index in numpy.ndindex(*layout.shape)
        if sum(index) % 3 == 0
    }
    return {
        "tile": as_json(layout_view(layout).data.tiles[0]),
        "replication": layout.replication,
        "holders": holders,
    }


def moved(source: RegisterLayout, destination: RegisterLayout) -> dict[str, int]:
    """How many holders of `destination` find their element where, as a loop over holders."""
    names = ("register", "lane", "warp", "block")
    counts = dict.fromkeys(("stays", *names), 0)
    for index in numpy.ndindex(*source.shape):
        for wanted in destination.holders(index):
            ways = [
                max(
                    (
                        level
                        for level, name in enumerate(names, 1)
                        if getattr(held, name) != getattr(wanted, name)
                    ),
                    default=0,
                )
                for held in source.holders(index)
            ]
            counts[("stays", *names)[min(ways)]] += 1
    return counts


def fixture() -> dict[str, Any]:
    made = layouts()
    first, second = made[0], made[1]
    assert isinstance(first, RegisterLayout)
    assert isinstance(second, RegisterLayout)
    assert isinstance(made[5], SharedLayout)
    return {"layouts": [said(one) for one in made], "moved": moved(first, second)}


if __name__ == "__main__":
    FILE.write_text(json.dumps(fixture(), separators=(",", ":")) + "\n")
    print(FILE, FILE.stat().st_size)
