"""Read the kernels, the launches and the target GPU from code that Inductor generated."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

from kernellab.records.graphs import GraphLaunch, KernelCode

MOST_KERNELS = 10_000
"""Kernels read from one graph."""

_KERNEL = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?:triton|cpp_pybinding|cpp)\([^\n]{0,10000}?(?P<raw>r?)'''",
    re.M,
)
_DEVICE = re.compile(
    r"DeviceProperties\(type='(?P<type>cuda|hip)'[^)]{0,2000}?\bcc='?(?P<arch>\w{1,20})'?"
)
_LAUNCH = re.compile(
    r"^\s+(?:[\w, ]+ = )?(?P<called>extern_kernels\.\w+|(?:torch\.ops\.)?aten\.[\w.]+|"
    r"torch\.ops\.(?!inductor\.)[\w.]+|\w+\.run|\w+)\("
)
_FRAGMENT = re.compile(r"^#   %(?P<name>\w+) : (?!.*= PlaceHolder\[)")
_DIRECTION = re.compile(r"^# AOT ID: \['\d+_(?P<direction>forward|backward|inference)'\]", re.M)


def direction_of(code: str) -> str | None:
    """Return "forward", "backward" or "inference" from the code's header, or None."""
    match = _DIRECTION.search(code, 0, 1000)
    return match["direction"] if match else None


def kernels_in(code: str, origins: Mapping[str, tuple[str, ...]]) -> tuple[KernelCode, ...]:
    """Return the kernels of a graph's code: Triton kernels, or C++ kernels on a CPU.

    Args:
        code: the source of the module.
        origins: kernel -> the nodes of the post-grad graph that it computes, where known.
    """
    kernels: list[KernelCode] = []
    fragments = _fragments(code)
    for kernel in _KERNEL.finditer(code):
        source = _text_at(code, kernel.end(), kernel["raw"])
        if source is None or len(kernels) == MOST_KERNELS:
            break
        name = kernel["name"]
        nodes = origins.get(name) or fragments.get(name, ())
        kernels.append(KernelCode(name, source, (), (), nodes))
    return tuple(kernels)


def _text_at(code: str, start: int, raw: str) -> str | None:
    """Return the value of the string literal that starts at `start`, after its three quotes.

    Return None if it has no end.
    """
    end = code.find("'''", start)
    while end > 0 and _is_escaped(code, end):
        end = code.find("'''", end + 1)
    if end < 0:
        return None
    with warnings.catch_warnings():  # about invalid escape sequences
        warnings.simplefilter("ignore")
        try:
            return str(ast.literal_eval(f"{raw}'''{code[start:end]}'''"))
        except (SyntaxError, ValueError):
            return None


def _is_escaped(code: str, place: int) -> bool:
    before = code[max(0, place - 100) : place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _fragments(code: str) -> dict[str, tuple[str, ...]]:
    """Return kernel -> nodes from the comment above each Triton kernel."""
    nodes_of: dict[str, tuple[str, ...]] = {}
    nodes: list[str] = []
    for line in code.splitlines():
        fragment = _FRAGMENT.match(line)
        if fragment is not None:
            nodes.append(fragment["name"])
        elif line and not line.startswith("#"):
            name, made, _ = line.partition(" = async_compile.")
            if made and name.isidentifier():
                nodes_of[name] = tuple(dict.fromkeys(nodes))
            nodes = []
    return nodes_of


def target_in(code: str) -> str:
    """Return the target of the kernels, as "sm_90" or "gfx942", or "" for a CPU."""
    match = _DEVICE.search(code)
    if match is None:
        return ""
    return f"sm_{match['arch']}" if match["type"] == "cuda" else match["arch"]


def launches_in(code: str, kernels: tuple[KernelCode, ...]) -> tuple[GraphLaunch, ...]:
    """Return the calls of the code, in order. It does not say how many bytes each moves."""
    known = {kernel.name for kernel in kernels}
    return tuple(GraphLaunch(name, name in known, (), None, None) for name in _called(code, known))


def _called(code: str, known: set[str]) -> Iterator[str]:
    is_call = False
    for line in code.splitlines():
        if line.lstrip().startswith("def "):
            is_call = line.lstrip().startswith(("def call(", "def partition_"))
        elif is_call and (match := _LAUNCH.match(line)) is not None:
            name = match["called"].removesuffix(".run")
            if name in known or "." in name:
                yield name
