"""Code with statements of somebody else's after each operation."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import triton
import triton.language as tl
from xdsl.ir import Operation

from kernellab.compiler.binding import bind
from kernellab.compiler.targets import parse_target
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import program_of_module
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.ir.syntax import read_module
from kernellab.triton_api import generic_text, make_ttir


@triton.jit
def doubled(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(y_ptr + offsets, x + x, mask=offsets < n)


def test_what_is_added_hears_what_an_operation_computed() -> None:
    x, y, target = torch.arange(6.0), torch.zeros(6), parse_target("sm_90")
    call = bind(doubled, (x, y, 6), {"BLOCK": 4}, target)
    text = generic_text(make_ttir(doubled, call.specialization, target, call.options))
    seen: list[ObservedAccess] = []
    computed: dict[str, Any] = {}

    def tell(emitter: Emitter, op: Operation) -> None:
        if op.name in ("tt.load", "arith.addf"):
            teller = emitter.constant(computed.__setitem__, hint="tell")
            emitter.evaluate(None, teller(op.name, emitter[op.results[0]]))

    observer = AccessObserver(seen.append)
    code = program_of_module(read_module(text), doubled, tell)
    launch_observed(doubled, (2,), call, code, observer)
    numpy.testing.assert_array_equal(computed["tt.load"], [[0, 1, 2, 3], [4, 5, 0, 0]])
    numpy.testing.assert_array_equal(computed["arith.addf"], 2 * computed["tt.load"])
    assert torch.equal(y, 2 * x)
    assert [one.operation.name for one in seen] == ["tt.load", "tt.store"]
