"""Wrong kernels of every exercise by rule, which `trials.py` tries."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kernellab.workshop.exercise import Exercise
from kernellab.workshop.launches import Draw
from tests.support.rewrites import Names, rewritten
from tests.workshop import solutions
from tests.workshop.attempts import WrongAnswer, cell, imports_of

_ZERO = "it is multiplied by the 0 that the other operand has there"
_UNSTORED = "it only affects rows beyond the queries, which are not stored"
_UNSEEN = "the scores of these keys become minus infinity"
_HALF = "the result and the weights are rounded to float16 too, which is allowed"
_FINITE = "every int8 is finite, and 0 times it is 0"
_LAST = "only the last block of a row has masked elements, and no block needs its sum"
_MORE_KEYS = "the further keys are masked: only the work is more"
_CAUSAL = "a query that is stored does not see keys beyond itself anyway"
_OTHERS = {f"wrong other: other=0.0 -> other=1{number}": _ZERO for number in ("", " (2)")}
_ATTENDED = {
    "missing other: tl.load(q_ptr + q_places)": _UNSTORED,
    "wrong other: other=0.0 -> other=1": _UNSTORED,
    "wrong other: other=0.0 -> other=1 (2)": _UNSEEN,
    "wrong other: other=0.0 -> other=1 (3)": _ZERO,
    "narrow accumulator: tl.dot(weights.to(tl.float16), v) -> tl.dot(weights.to(tl.float16), v)"
    ".to(tl.float16).to(tl.float32)": _HALF,
    "narrow accumulator: tl.sum(weights, axis=1) -> tl.sum(weights, axis=1).to(tl.float16)"
    ".to(tl.float32)": _HALF,
    "narrow accumulator: tl.store(z_ptr + q_places)": _HALF,
}

EQUIVALENT: Mapping[str, Mapping[str, str]] = {
    "moments": {"swapped operands: x - mean -> mean - x": "it is squared"},
    "running_sum": {
        "missing other: tl.load(x_ptr + row * columns + lanes)": _LAST,
        "wrong other: other=0.0 -> other=1": _LAST,
    },
    "dot_product": _OTHERS,
    "histogram": {
        "missing other: tl.load(x_ptr + offsets)": "the atomic is masked too",
        "wrong other: other=0 -> other=1": "the atomic is masked too",
    },
    "softmax_backward": _OTHERS,
    "matvec": _OTHERS,
    "matmul": _OTHERS,
    "linear_relu": _OTHERS,
    "batched_matmul": _OTHERS,
    "quantized_matmul": {
        **_OTHERS,
        "missing other: tl.load(b_ptr + k[:, None] * N + n[None, :])": _FINITE,
    },
    "weight_gradient": _OTHERS,
    "attention": {**_ATTENDED, "missing other: tl.load(k_ptr + k_places)": _UNSEEN},
    "flash_attention": {**_ATTENDED, "missing other: tl.load(k_ptr + places)": _UNSEEN},
    "in_place": {
        "missing operation: fence_async_shared() -> pass": "the compiler puts the fence there",
    },
    "two_groups": {
        "narrow accumulator: gl.store(z_ptr + number * 4096 + row[:, None] * 64 + "
        "column[None, :])": "the tiles are float16",
    },
    "causal_attention": {
        **_ATTENDED,
        "missing other: tl.load(k_ptr + places)": _UNSEEN,
        "bound: k_rows < keys -> k_rows <= keys (3)": _CAUSAL,
        "half a mask: seen & (k_rows[None, :] <= q_rows[:, None]) -> "
        "k_rows[None, :] <= q_rows[:, None]": _CAUSAL,
        "wrong function: tl.minimum(keys, (tl.program_id(0) + 1) * BLOCK_Q) -> "
        "tl.maximum(keys, (tl.program_id(0) + 1) * BLOCK_Q)": _MORE_KEYS,
        "wrong constant: tl.program_id(0) + 1 -> tl.program_id(0) + 2": _MORE_KEYS,
    },
}
"""Rewritten kernels that are right, by exercise and name, with the reason."""


_LEAST_SUM = {"the least sum": ("tl.sum(x, axis=0)", "tl.min(tl.cumsum(x, axis=0), axis=0)")}
_FINITE_BOUND = {"a finite number for infinity": ("float('inf')", "10000.0")}

_BY_HAND: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "clamp": {"one limit for both": ("tl.maximum(x, low)", "tl.maximum(x, -high)")},
    "silu_gate": {
        "an exponential that overflows": ("tl.sigmoid(x)", "(tl.exp(x) / (1.0 + tl.exp(x)))")
    },
    "sum_rows": _LEAST_SUM,
    "running_sum": _LEAST_SUM,
    "max_rows": _FINITE_BOUND,
    "log_softmax": _FINITE_BOUND,
    "online_softmax": _FINITE_BOUND,
    "cross_entropy": _FINITE_BOUND,
    "sort_rows": _FINITE_BOUND,
    "argmax_rows": {
        **_FINITE_BOUND,
        "the last maximum": (
            "tl.argmax(x, axis=0)",
            "tl.max(tl.where(x == tl.max(x, axis=0), lanes, -1), axis=0)",
        ),
    },
    "softmax": {
        **_FINITE_BOUND,
        "exponentials that overflow": ("x - tl.max(x, axis=0)", "x"),
    },
    "flash_attention": {
        "no running maximum": (
            "tl.maximum(largest, tl.max(scores, axis=1))",
            "tl.zeros((BLOCK_Q,), tl.float32)",
        )
    },
}
"""Wrong kernels that no rule makes: what replaces what in the solution."""

FEWEST = 8


def too_few(exercises: Iterable[Exercise]) -> list[str]:
    return [one.name for one in exercises if len(wrong_kernels(one)) < FEWEST]


def wrong_kernels(exercise: Exercise) -> list[WrongAnswer]:
    """Return the mutants of an exercise that are not listed as equivalent to its solution."""
    equivalent = EQUIVALENT.get(exercise.name, {})
    return [mutant for mutant in mutants_of(exercise) if mutant.name not in equivalent]


def mutants_of(exercise: Exercise) -> list[WrongAnswer]:
    text = solution_text(exercise.name)
    found = {text: ""}
    for name, mutant in (*_by_hand(exercise, text), *rewritten(text, _names(exercise, text))):
        found.setdefault(mutant, name)
    above = imports_of(exercise.name)
    return [
        WrongAnswer(exercise.name, name, cell(text, above)) for text, name in found.items() if name
    ]


def _by_hand(exercise: Exercise, text: str) -> Iterator[tuple[str, str]]:
    for name, (before, after) in _BY_HAND.get(exercise.name, {}).items():
        assert before in text, before
        yield name, ast.unparse(ast.parse(text.replace(before, after)))


def solution_text(name: str) -> str:
    """Return the source of a solution and of the functions that it calls."""
    text = inspect.getsource(getattr(solutions, name).fn)
    for helper in ("product", "attended", "load_tiles", "compute_tiles"):
        if re.search(rf"\b{helper}\b", text):
            text = inspect.getsource(getattr(solutions, helper).fn) + "\n\n" + text
    decided = _Decided("CAUSAL", text.rstrip().endswith("True)"))
    return ast.unparse(decided.visit(ast.parse(text)))


class _Decided(ast.NodeTransformer):
    """Keep only the code that runs with one value of a constexpr: nothing else can be wrong."""

    def __init__(self, name: str, value: bool) -> None:
        self.name = name
        self.value = value

    def visit_If(self, node: ast.If | ast.IfExp) -> Any:
        if ast.unparse(node.test) == self.name:
            return node.body if self.value else node.orelse
        return self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815 - the name is ast's


def _names(exercise: Exercise, text: str) -> Names:
    case = next(iter(exercise.cases(Draw(0))))
    arguments, pointers = case.arguments, list(case.tensors)
    return Names(
        tuple(pointers[:-1]),
        tuple(name for name in arguments if name not in pointers),
        tuple(name for name in exercise.parameters if name not in arguments),
        frozenset(int(axis) for axis in re.findall(r"program_id\((\d)\)", text)),
    )
