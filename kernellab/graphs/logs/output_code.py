"""The code that Inductor wrote, read as text: its kernels, its launches, the GPU that it is for."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

from kernellab.records.graphs import GraphLaunch, KernelCode

MOST_KERNELS = 10_000
"""Of one graph."""

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
    """ "forward", "backward" or "inference", as the code says itself."""
    found = _DIRECTION.search(code, 0, 1000)
    return found["direction"] if found else None


def kernels_in(code: str, origins: Mapping[str, tuple[str, ...]]) -> tuple[KernelCode, ...]:
    """The kernels of a graph's code: Triton's, and those in C++ of a CPU's.

    Args:
        code: the module.
        origins: kernel -> the nodes of the post-grad graph that it computes, as far as is known.
    """
    found: list[KernelCode] = []
    fragments = _fragments(code)
    for kernel in _KERNEL.finditer(code):
        source = _text_at(code, kernel.end(), kernel["raw"])
        if source is None or len(found) == MOST_KERNELS:
            break
        name = kernel["name"]
        nodes = origins.get(name) or fragments.get(name, ())
        found.append(KernelCode(name, source, (), (), nodes))
    return tuple(found)


def _text_at(code: str, start: int, raw: str) -> str | None:
    """The value of the text that begins behind its three quotes; None where it does not end."""
    end = code.find("'''", start)
    while end > 0 and _is_escaped(code, end):
        end = code.find("'''", end + 1)
    if end < 0:
        return None
    with warnings.catch_warnings():  # of escapes that Python does not know
        warnings.simplefilter("ignore")
        try:
            return str(ast.literal_eval(f"{raw}'''{code[start:end]}'''"))
        except (SyntaxError, ValueError):
            return None


def _is_escaped(code: str, place: int) -> bool:
    before = code[max(0, place - 100) : place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _fragments(code: str) -> dict[str, tuple[str, ...]]:
    """Kernel -> nodes, as the comment above each Triton kernel lists them."""
    found: dict[str, tuple[str, ...]] = {}
    nodes: list[str] = []
    for line in code.splitlines():
        fragment = _FRAGMENT.match(line)
        if fragment is not None:
            nodes.append(fragment["name"])
        elif line and not line.startswith("#"):
            name, made, _ = line.partition(" = async_compile.")
            if made and name.isidentifier():
                found[name] = tuple(dict.fromkeys(nodes))
            nodes = []
    return found


def target_in(code: str) -> str:
    """The target that its kernels were written for: "sm_90", "gfx942"; "" of no GPU's code."""
    found = _DEVICE.search(code)
    if found is None:
        return ""
    return f"sm_{found['arch']}" if found["type"] == "cuda" else found["arch"]


def launches_in(code: str, kernels: tuple[KernelCode, ...]) -> tuple[GraphLaunch, ...]:
    """What the code calls, in order. How many bytes each moves it does not say."""
    known = {one.name for one in kernels}
    return tuple(GraphLaunch(name, name in known, (), None, None) for name in _called(code, known))


def _called(code: str, known: set[str]) -> Iterator[str]:
    is_call = False
    for line in code.splitlines():
        if line.lstrip().startswith("def "):
            is_call = line.lstrip().startswith(("def call(", "def partition_"))
        elif is_call and (found := _LAUNCH.match(line)) is not None:
            name = found["called"].removesuffix(".run")
            if name in known or "." in name:
                yield name
