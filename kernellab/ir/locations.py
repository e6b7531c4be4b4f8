"""Where in the user's source an operation comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, BlockArgument

from kernellab import triton_api
from kernellab.errors import SourcePosition


@dataclass(frozen=True)
class Location:
    """An operation's origin: the name it was assigned to, and the chain of positions
    that leads to it.
    """

    name: str | None
    """The kernel's own name for the result ("acc"), or None."""
    frames: tuple[SourcePosition, ...]
    """The operation's own position first, then its caller's, where helper functions
    were inlined."""
    names: tuple[tuple[str, ...], ...] = ()
    """Of each frame, the names that were assigned there, the last one first: an operation with
    several results has a name of each."""


def locate(location: Attribute) -> Location:
    """Read an MLIR location: file, name, call site, or fused (whose first part counts)."""
    match location:
        case FileLineColLoc():
            column = triton_api.column_from_one(location.column.data)
            position = SourcePosition(location.filename.data, location.line.data, column)
            return Location(None, (position,), ((),))
        case NameLoc():
            named, name = locate(location.location), location.desc.data
            own, *outer = named.names or ((),)
            return Location(name, named.frames, ((name, *own), *outer))
        case CallSiteLoc():
            callee, caller = locate(location.callee), locate(location.caller)
            frames, names = callee.frames + caller.frames, callee.names + caller.names
            return Location(callee.name or caller.name, frames, names)
        case FusedLoc():
            parts = [locate(part) for part in cast(ArrayAttr[Attribute], location.locations)]
            return next((part for part in parts if part.frames), Location(None, ()))
        case _:
            return Location(None, ())


def argument_name(argument: BlockArgument) -> str | None:
    """The kernel's name for a parameter or a loop's variable, or None.

    MLIR prints a name that is not ASCII otherwise (`%_CEB1` for "α"): its location has it as it is.
    What has none it calls `%arg3`. The variable of a loop that a pass has made anew lies where the
    loop does, at the names of the loop's results: none is its own.
    """
    loop = argument.block.parent_op()
    if loop is not None and argument.index == 0 and argument.location == loop.location:
        return None
    name = locate(argument.location).name
    if name is not None and not name.isascii():
        return name
    hint = argument.name_hint
    return None if name is None and hint and re.fullmatch(r"arg\d+", hint) else hint
