"""How the interpreter is to run a launch: the options that are its own,
in addition to those of the compiler's backend.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kernellab.common.argument_checks import check_choice, check_mapping, check_whole
from kernellab.errors import OptionError

STAGES = ("ttir", "ttgir")
ORDERS = ("sequential", "reversed", "shuffled")
BOUNDS = ("storage", "view")


@dataclass(frozen=True)
class RunOptions:
    """The interpreter's options of one launch.

    Raises:
        OptionError: a value that is none of those below.
    """

    stage: str = "ttir"
    """The IR that runs: "ttir", "ttgir", or what one of their passes left behind ("ttgir.coalesce",
    "ttir.cse#2")."""
    order: str = "sequential"
    """The order of the programs: by their linear id, x fastest; "reversed";
    or "shuffled" by `seed`."""
    seed: int = 0
    """Chooses the order where it is shuffled: equal seeds, equal orders."""
    bounds: str = "storage"
    """What an access must stay inside: the "storage" behind a tensor, or the "view" itself,
    its holes left out."""

    def __post_init__(self) -> None:
        check_choice("stage", self.stage, STAGES, word=str(self.stage).partition(".")[0])
        check_choice("order", self.order, ORDERS)
        check_choice("bounds", self.bounds, BOUNDS)
        object.__setattr__(self, "seed", check_whole("seed", self.seed))

    def changed(self) -> dict[str, Any]:
        """The options that are not what they are by default."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


DEFAULT = RunOptions()
"""What a launch that says nothing runs with; one that says something has another, equal or not."""

_NAMES = frozenset(field.name for field in fields(RunOptions))

RUN_OPTION_NAMES = _NAMES | {"options"}
"""What says something of how a launch is run, unless the kernel has a parameter of that name."""


def split_keywords(
    keywords: dict[str, Any], parameters: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any], RunOptions]:
    """A launch's keywords: those that the kernel and the backend take by name,
    backend options said outright, run options.

    A name that is both a run option and a parameter is the parameter. `options={...}` among the
    keywords says options outright, run options and backend options alike, whatever the
    parameters are called.

    Raises:
        OptionError: a run option's value is wrong, it is given twice, or a seed is given where
            nothing is shuffled.
    """
    if RUN_OPTION_NAMES.isdisjoint(keywords):
        return keywords, {}, DEFAULT
    rest = dict(keywords)
    outright = dict(rest.pop("options")) if _gives_options(rest, parameters) else {}
    given = {name: rest.pop(name) for name in _NAMES.difference(parameters) & rest.keys()}
    for name in _NAMES & outright.keys():
        if name in given:
            raise OptionError(f"{name!r} is given twice: by name and among the options.")
        given[name] = outright.pop(name)
    if not given:
        return rest, outright, DEFAULT
    options = RunOptions(**given)
    if "seed" in given and options.order != "shuffled":
        raise OptionError(
            f"seed={options.seed} chooses a shuffled order, and order={options.order!r}.",
            advice='Give order="shuffled" too, or leave the seed out.',
        )
    return rest, outright, options


def _gives_options(keywords: Mapping[str, Any], parameters: Collection[str]) -> bool:
    if "options" not in keywords or "options" in parameters:
        return False
    check_mapping("options", keywords["options"], '{"order": "shuffled", "num_warps": 8}')
    return True
