"""What the line of a magic names in the notebook:
variables, and the error for a name that nothing has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import OptionError, SourcePosition, nearest
from kernellab.magics.ipython_api import Shell


def read_variable(text: str) -> str:
    """ "found" as it is: a variable's name. Raises ValueError for anything else."""
    if not text.isidentifier():
        raise ValueError("a variable's name is needed")
    return text


def read_variables(text: str) -> list[str]:
    """ "report,costs" as ["report", "costs"]. Raises ValueError if a part is not
    the name of a variable.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(name.isidentifier() for name in names):
        raise ValueError("write names of variables, with commas between them")
    return names


def value_of(
    name: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition, option: str = ""
) -> Any:
    """The value of a variable of the notebook's.

    Raises:
        OptionError: nothing has the name; points at `position`, and says for which
            option it was wanted.
    """
    if name not in namespace:
        raise unknown_name(name, namespace, magic, position, option)
    return namespace[name]


def read_path(text: str) -> str:
    """ "torch.nn.functional.silu" as it is. Raises ValueError for anything else."""
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError("a variable's name is needed, or a function's as in torch.add")
    return text


def value_at(
    path: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition, option: str = ""
) -> Any:
    """What a variable of the notebook's holds, or an attribute of that: "torch.add".

    Raises:
        OptionError: as for `value_of`, for an attribute that is not there too.
    """
    first, *attributes = path.split(".")
    value = value_of(first, namespace, magic, position, option)
    for name in attributes:
        if not hasattr(value, name):
            raise unknown_name(path, dict.fromkeys(_paths(path, value)), magic, position, option)
        value = getattr(value, name)
    return value


def expected(
    given: Mapping[str, Any],
    shell: Shell,
    magic: str,
    position: Callable[[str], SourcePosition],
) -> dict[str, Any]:
    """The argument `expect` of a check or a trace, where the line has --expect; else nothing."""
    path = given["expect"]
    if path is None:
        return {}
    return {"expect": value_at(path, shell.user_ns, magic, position(path), "--expect")}


def _paths(path: str, value: Any) -> list[str]:
    start = path.rpartition(".")[0]
    return [f"{start}.{name}" for name in dir(value)]


def unknown_name(
    name: str,
    namespace: Mapping[str, Any],
    magic: str,
    position: SourcePosition,
    option: str = "",
    there: str = "",
) -> OptionError:
    """The error for a name on a magic's line ("%tileir", "%%tiletune")
    that nothing in the notebook has; `there` says in a sentence what it has.
    """
    close = nearest(name, (candidate for candidate in namespace if not candidate.startswith("_")))
    advice = f"{close} {there}".strip() or f"Run the cell that defines {name} first."
    return OptionError(
        f"{' '.join(filter(None, (magic, option)))}: the notebook has no variable {name!r}",
        advice=advice,
        position=position,
    )
