"""The kernels that are generated for a graph of the corpus, and how two sets of them differ."""

import difflib
import re
from collections.abc import Iterator

import torch

from tests.support.graph_corpus import Case

_METADATA = re.compile(r"inductor_meta=\{.*?\},?\n")
"""What a kernel is told of the machine and of torch's build."""


def kernels_of(codes: list[str]) -> dict[str, str]:
    """The Triton kernels in generated code, by name."""
    from kernellab.torch_api.lowering import kernel_sources

    return {
        name: _METADATA.sub("", source)
        for code in codes
        for name, _, source in kernel_sources(code)
    }


def codes_here(case: Case, gpu: str) -> tuple[dict[str, str], list[str]]:
    """The kernels that are generated with no GPU, by name, and what went wrong."""
    from kernellab.graphs.captures import gpu_named
    from kernellab.torch_api.capture import Backend, capture

    torch.manual_seed(0)
    function, args = case.make("cpu")
    backend = Backend(gpu_named(gpu).answering, levels=False)
    found = capture(
        function, args, {}, backend, backward=case.backward, dynamic=case.dynamic, fullgraph=False
    )
    errors = [found.error, *(one.error for one in found.lowered)]
    return kernels_of([one.wrapper for one in found.lowered]), [one for one in errors if one]


def differences(recorded: dict[str, str], made: dict[str, str]) -> Iterator[str]:
    """What two sets of kernels do not share, line by line."""
    for name in sorted(set(recorded) ^ set(made)):
        yield f"  only {'on the GPU' if name in recorded else 'here'}: {name}"
    for name in sorted(set(recorded) & set(made)):
        lines = difflib.unified_diff(
            recorded[name].splitlines(), made[name].splitlines(), "GPU", "here", lineterm="", n=0
        )
        yield from (f"  {line}" for line in list(lines)[:12])
