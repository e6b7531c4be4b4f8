"""Sweeps on disk: files of sweeps, and the store of outcomes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import triton.language as tl

from kernellab import triton_api
from kernellab.common import saved_files
from kernellab.common.system import cache_folder, own_folder, save_whole, saved_path, write_whole
from kernellab.compiler.files import target_from_json
from kernellab.errors import ArchiveError, ArgumentError, MachineError
from kernellab.records import Target
from kernellab.triton_api.functions import scope_of
from kernellab.triton_api.kernel_contents import content_of
from kernellab.triton_api.layouts import layout_of_parts, parts_of_layout
from kernellab.tuning.configs import autotuner_in, of_config
from kernellab.tuning.records import Candidate, OccupancyOrNan, Outcome, Timing, Trial, Work

if TYPE_CHECKING:
    from kernellab.tuning.tuning import Tuning


@dataclass(frozen=True, repr=False)
class Named:
    """A value that a file contains only as text."""

    text: str
    """Its repr."""
    function: str = ""
    """The name of a JIT function; "" for any other value."""

    def __repr__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.function or self.text


def found_again(value: Any, parameter: str, kernel: Any) -> Any:
    """Return the function that a `Named` names, and any other value unchanged. Raises
    ArgumentError: no such function where the kernel is defined, or it was not a function.
    """
    if not isinstance(value, Named):
        return value
    function = scope_of(kernel.fn).get(value.function)
    if isinstance(function, triton_api.JITFunction):
        return function
    wanted = f"the function {value.function!r}" if value.function else value.text
    raise ArgumentError(
        f"{parameter!r} of this sweep of {kernel.__name__!r} was {wanted}, which a saved file "
        "does not contain.",
        advice="Define it in the file that defines the kernel."
        if value.function
        else "A file can hold numbers, texts, Triton's types, and names of JIT functions.",
        position=triton_api.definition_of(kernel),
    )


def complete(candidate: Candidate, kernel: Any, plain: Any) -> Candidate:
    """Return the config with its functions and its hook.

    Args:
        candidate: a config of a sweep that was made here or read from a file.
        kernel: the kernel with its autotuner, whose configs have the hooks.

    Raises:
        ArgumentError: a function or the hook does not exist.
    """
    constants = {
        name: found_again(value, name, plain) for name, value in candidate.constants.items()
    }
    candidate = replace(candidate, constants=constants)
    if candidate.pre_hook is not None or not candidate.hook_name:
        return candidate
    autotuner = autotuner_in(kernel)
    for config in autotuner.configs if autotuner is not None else ():
        if of_config(plain, config) == candidate and config.pre_hook is not None:
            return replace(candidate, pre_hook=config.pre_hook)
    raise ArgumentError(
        f"The config {candidate} has the hook {candidate.hook_name!r}, which a saved file does "
        "not contain.",
        advice="Pass the kernel with its @triton.autotune, whose configs have their hooks.",
        position=triton_api.definition_of(plain),
    )


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return plain data without the unknown fields."""
    data = {name: value for name, value in asdict(outcome).items() if value and name != "lasts"}
    if outcome.compiled is not None and math.isnan(outcome.compiled.occupancy):
        data["compiled"]["occupancy"] = None
    return data


def outcome_from_json(data: saved_files.SavedData, others: Collection[str] = ()) -> Outcome:
    """Read `outcome_to_json`'s data beside `others`. Raises SchemaError: it is not an outcome."""
    outcome: Outcome = READER.record(Outcome, data, others)
    return outcome


def _occupancy(data: saved_files.SavedData) -> float:
    return math.nan if data.is_null() else data.number(least=0)


_SHORTEST = 1e-12
"""A time in milliseconds: a femtosecond. Rates of such times are numbers that a plot can draw."""

_ROUNDED = 1 - 1e-9
"""The tolerance of quartiles: they are interpolated, so equal ones may differ in the last digit."""


def _timing(data: saved_files.SavedData) -> Timing:
    timing: Timing = READER.record(Timing, data)
    if timing.median < _SHORTEST:
        raise data["median"].misfit(f"a time, at least {_SHORTEST:g} ms")
    if not timing.lower * _ROUNDED <= timing.median <= timing.upper / _ROUNDED:
        raise data.misfit("times in order, the median between the quartiles")
    return timing


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """Return a config and its outcome as plain data."""
    where_any = {
        "pre_hook": trial.candidate.hook_name,
        "own_types": values_to_json(trial.types),
        "own_constants": values_to_json(trial.constants),
    }
    return {
        "number": trial.number,
        "constants": values_to_json(trial.candidate.constants),
        "options": values_to_json(trial.candidate.options),
        **{name: value for name, value in where_any.items() if value},
        **outcome_to_json(trial.outcome),
    }


def _trial(data: saved_files.SavedData) -> Trial:
    constants, options = values_from_json(data["constants"]), values_from_json(data["options"])
    for name, value in options.items():
        if not triton_api.may_be_of_file(name, value):
            raise data["options"][name].misfit("an option that a file may set, or left out")
    types, own = (
        values_from_json(data[name]) if data.has(name) else {}
        for name in ("own_types", "own_constants")
    )
    hook = data["pre_hook"].text() if data.has("pre_hook") else ""
    candidate = Candidate(constants, options, named_hook=hook)
    outcome = outcome_from_json(data, _OF_TRIALS)
    return Trial(data["number"].count(), candidate, outcome, types, own)


_OF_TRIALS = ("number", "constants", "options", "pre_hook", "own_types", "own_constants")


def values_to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return constants and options by name as JSON's kinds; unknown ones become text."""
    return {name: saved_files.value_to_json(value, _own_to_json) for name, value in values.items()}


def values_from_json(data: saved_files.SavedData) -> dict[str, Any]:
    """Read `values_to_json`'s data; text becomes a `Named`. Raises SchemaError: it does not fit."""
    return {name: saved_files.value_of(data[name], _own_from_json) for name in data.names()}


def _own_to_json(value: Any) -> Any:
    """Return a value that kernels take but JSON cannot represent, as plain data."""
    if isinstance(value, tl.constexpr):
        return saved_files.value_to_json(value.value, _own_to_json)
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, Named):
        function = {"function": value.function} if value.function else {}
        return {"shown": value.text, **function}
    if isinstance(value, triton_api.JITFunction):
        return {"shown": repr(value), "function": value.fn.__name__}
    layout = parts_of_layout(value)
    if layout is None:
        return {"shown": repr(value)}
    name, fields = layout
    return {"shown": repr(value), "layout": name, "fields": values_to_json(fields)}


def _own_from_json(data: saved_files.SavedData) -> Any:
    if data.has("dtype"):
        return _dtype(data["dtype"])
    if data.has("layout"):
        # A layout that this Triton does not have is read as a Named.
        with contextlib.suppress(ValueError, TypeError):  # of a field that cannot be hashed
            layout = layout_of_parts(data["layout"].text(), values_from_json(data["fields"]))
            hash(layout)
            return layout
    function = data["function"].text() if data.has("function") else ""
    return Named(data["shown"].text(), function)


def _dtype(data: saved_files.SavedData) -> Any:
    try:
        return tl.dtype(data.text())
    except AssertionError:
        raise data.misfit("the name of a type of Triton's") from None


READER = saved_files.RecordReader(
    {
        Timing: _timing,
        OccupancyOrNan: _occupancy,
        Trial: _trial,
        Target: target_from_json,
        Mapping[str, Any]: values_from_json,
    }
)
"""Reads the records of a sweep."""

# Store outcomes on disk by content, so that an interrupted sweep continues where it stopped and
# no config is timed twice.
#
# One small JSON file for each config, named by a hash of all that it depends on.

STORE_VERSION = 3
"""The version of stored data and of the measuring; other versions are ignored."""

_LASTING = ("out of resources", "compile error", "wrong result", "fault")
"""Reasons to drop a config that last; hangs, crashes and lost ones are tried again."""


def known_content(kernel: Any) -> str | None:
    """Return what a kernel consists of, as text; None if its source cannot be read."""
    try:
        return content_of(kernel)
    except Exception:  # the kernel's globals are objects of the user's
        return None


def contents_within(values: Iterable[Any]) -> list[str]:
    """Return the code of kernels and helpers among constants, which their names do not show."""
    return [known_content(function) or "" for function in triton_api.functions_within(values)]


class Store:
    """The outcomes of one sweep's configs; a Store without a key keeps nothing."""

    def __init__(self, key: Iterable[Any] | None) -> None:
        """`key` is what all configs depend on: kernel, target, arguments, machine, ..."""
        self._key = None if key is None else [STORE_VERSION, *map(str, key)]

    def get(self, parts: Iterable[Any]) -> Outcome | None:
        """Return the stored outcome of a config; None if there is none, or it is damaged."""
        if self._key is None:
            return None
        # A config whose file cannot be read is tried again.
        with contextlib.suppress(Exception):
            file = self._file(parts)
            if file.is_file():
                kept = json.loads(saved_files.regular_bytes(file, is_named=False))
                if kept["digest"] == _digest(kept["outcome"]):
                    return outcome_from_json(saved_files.SavedData(kept["outcome"]))
        return None

    def put(self, parts: Iterable[Any], outcome: Outcome) -> None:
        """Keep an outcome if the next run of the config would have the same one."""
        dropped = outcome.dropped
        lasts = outcome.lasts and (dropped is None or dropped.reason in _LASTING)
        if self._key is None or not lasts:
            return
        # A cache that cannot be written, or has no home folder, must not end the sweep.
        with contextlib.suppress(OSError, RuntimeError, MachineError):
            file = self._file(parts)
            data = outcome_to_json(outcome)
            content = json.dumps({"digest": _digest(data), "outcome": data}).encode()
            write_whole(file, content, is_named=False)

    def _file(self, parts: Iterable[Any]) -> Path:
        text = json.dumps([self._key, *map(str, parts)])
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return own_folder(own_folder(cache_folder("tuning")) / digest[:2]) / f"{digest}.json"


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


FORMAT = saved_files.Format(
    "kernellab.tuning",
    "sweep",
    advice="Pass a file that tuning.save wrote. Open other files with kernellab.load(path).",
)


def save(tunings: Iterable[Tuning], path: str | os.PathLike[str]) -> Path:
    """Write sweeps to a JSON file, whole or not at all. Raises ArchiveError: that is impossible."""
    file = saved_path(path, ArchiveError)
    sweeps = [to_json(tuning) for tuning in tunings]
    return save_whole(file, FORMAT.text(tunings=sweeps), ArchiveError)


def to_json(tuning: Tuning) -> dict[str, Any]:
    """Return a sweep as plain data."""
    return {
        "kernel": tuning.kernel,
        **({} if tuning.source is None else {"source": asdict(tuning.source)}),
        "target": {"backend": tuning.target.backend, "arch": tuning.target.arch},
        "key": values_to_json(tuning.key),
        "arguments": dict(tuning.arguments),
        "types": values_to_json(tuning.types),
        "constants": values_to_json(tuning.constants),
        "machine": asdict(tuning.machine),
        "work": asdict(tuning.work),
        "baselines": {name: asdict(timing) for name, timing in tuning.baselines.items()},
        "seconds": round(tuning.seconds, 3),
        "pruned": tuning.pruned,
        "notes": list(tuning.notes),
        "trials": [trial_to_json(trial) for trial in tuning.trials],
    }


def from_json(data: saved_files.SavedData, kind: type[Tuning]) -> Tuning:
    """Read `to_json`'s data as a `Tuning`, which is `kind`. Raises SchemaError: it is not one."""
    tuning: Tuning = READER.record(kind, data, ["work"])
    tuning = replace(tuning, known_work=READER.read(Work, data["work"]))
    if len({trial.number for trial in tuning.trials}) != len(tuning.trials):
        raise data["trials"].misfit("configs of different numbers")
    return tuning


def load_all(path: str | os.PathLike[str], kind: type[Tuning]) -> list[Tuning]:
    """Return the sweeps of a file, in order. Raises ArchiveError: there are none, or damage."""
    file = saved_path(path, ArchiveError)
    return sweeps_in(saved_files.file_bytes(file, ArchiveError), file, kind)


def sweeps_in(content: bytes, file: Path, kind: type[Tuning]) -> list[Tuning]:
    """Return the sweeps in the bytes of a file; raise as `load_all`."""
    name = str(file)
    with saved_files.reading(name, FORMAT.advice):
        data = FORMAT.unpacked(content, name)
        tunings = [from_json(saved, kind) for saved in data["tunings"].items()]
    kernels = dict.fromkeys(tuning.kernel for tuning in tunings)
    if len(kernels) > 1:
        raise ArchiveError(
            f"{name!r} is damaged: its sweeps are of several kernels: {', '.join(kernels):.200}.",
            advice=saved_files.SAVE_AGAIN,
        )
    return tunings


def load_one(path: str | os.PathLike[str], kind: type[Tuning]) -> Tuning:
    """Return the only sweep of a file. Raises ArchiveError: as `load_all`, or there are several."""
    tunings = load_all(path, kind)
    if len(tunings) != 1:
        raise ArchiveError(
            f"{str(path)!r} must contain one sweep, but has {len(tunings)}.",
            advice="Load all of its sweeps with kernellab.Tunings.load(path).",
        )
    return tunings[0]
