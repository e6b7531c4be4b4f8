"""A small profile whose every number is known: two kernels in two scopes, lines, events."""

from typing import Any

import numpy

from kernellab.profiling.profiles import records
from kernellab.profiling.profiles.profile import Profile

GPU = {"device_id": "0", "device_type": "CUDA"}
H200 = records.Device("CUDA", "0", "90", 132, 1_980_000, 3_201_000, 6144)


def made_profile(**changed: Any) -> Profile:
    """A root with the scopes "step" (a matmul of 2 ms, 4 times; an add of 1 ms) and "rest"."""
    matmul = records.Scope(
        "matmul<&>", "kernel",
        {"time (ns)": 2e6, "count": 4, "flops16": 8e11, "bytes": 1e9},
        (
            records.Scope("k.py:10", "line", {"num_samples": 30}),
            records.Scope("k.py:12", "line", {"num_samples": 10}),
        ),
        GPU,
    )  # fmt: skip
    add = records.Scope("add", "kernel", {"time (ns)": 1e6, "count": 1, "bytes": 3e9}, labels=GPU)
    step = records.Scope("step", "scope", {"loss": 0.5}, (matmul, add))
    rest = records.Scope(
        "rest", "scope", {}, (records.Scope("add", "kernel", {"time (ns)": 1e6, "count": 1}),)
    )
    given: dict[str, Any] = {
        "measured_by": "proton",
        "root": records.Scope("ROOT", "root", {}, (step, rest)),
        "machine": records.Machine("sm_90", "NVIDIA H200", {"triton": "3.6.0"}, (H200,)),
        "kernels": (records.ProfiledKernel("matmul<&>", 4, {"num_warps": 8}, "ab12", "k.py", 3),),
        "notes": ("a <note>",),
        "line_records": (
            records.ProfiledLine("k.py", 12, "tt.store", 0.25, 100.0, 8, 4, 2, 1, "matmul<&>"),
            records.ProfiledLine(
                "k.py", 10, "tt.load", 0.75, 300.0, 16, 4, 2, 0, "matmul<&>", {"x": 1.0}
            ),
        ),
        "events": records.Events(
            program=numpy.array([0, 0, 1]), warp=numpy.array([0, 1, 0]),
            scope=numpy.array([1, 0, 0]), start=numpy.array([2500, 1000, 1000]),
            end=numpy.array([3000, 2000, 1400]), names=("tt.load", "tt.store"),
        ),
        "perturbation": records.Perturbation(100.0, 110.0, "by hand", 1024, 2048, events_kept=3),
        "name": "made <up>",
    }  # fmt: skip
    return Profile(**{**given, **changed})
