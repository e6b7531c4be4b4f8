"""Passes of Triton's pipeline: recorded, chosen, and the module as one of them leaves it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernellab import errors, triton_api
from kernellab.common import processes
from kernellab.common.arguments import listed
from kernellab.common.data_files import Prose, read_data_file
from kernellab.common.text import shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.machine_code.instructions import disassemble
from kernellab.records import DeferredText, PassRun, StoredText, Target
from kernellab.triton_api import IrText
from kernellab.triton_api import pipeline as triton_pipeline
from kernellab.triton_api.patches import PassCall, Watcher
from kernellab.triton_api.pipeline import list_passes, pass_adders

_NO_OPS: Mapping[str, int] = {}

ACTS_ON = {
    "arith_to_llvmir": "arith.",
    "cf_to_llvmir": "cf.",
    "index_to_llvmir": "index.",
    "interleave_tmem": "ttng.tmem",
    "optimize_tmem_layouts": "ttng.tmem",
    "tmem_load_reduce": "ttng.tmem",
    "warp_specialize_to_llvm": "ttg.warp_specialize",
}
"""Pass -> prefixes of the ops that it rewrites; a module without them is left unchanged.

Most of the cost of recording is printing modules. These passes rewrite nothing else, in any
supported version of Triton; a test prints after them anyway, for the whole corpus.
"""


def _sass_or_why(cubin: bytes) -> str:
    """The SASS of a cubin; if this machine cannot make it, a comment that says so."""
    try:
        return disassemble(cubin)
    except errors.MachineError as error:
        return f"// {error.what}\n"


class PassRecorder(Watcher):
    """A `Watcher` that keeps one PassRun per pass.

    Passes run one after the other, and most change nothing: an unchanged text is detected before
    any other work, and shares the counts and the stored text of the previous pass.
    """

    def __init__(self, *, trusting: bool = True) -> None:
        """`trusting` skips, unprinted, passes with nothing to do in a module (`ACTS_ON`)."""
        self._trusting = trusting
        self.passes: list[PassRun] = []
        self.stage_texts: dict[str, str] = {}
        self._text = ""
        self._stored: StoredText | None = None
        self._op_counts = _NO_OPS
        self._known: dict[str, StoredText] = {}
        self._erased: tuple[str, ...] = ()
        self._optimization: tuple[PassCall, float] | None = None

    def module_made(self, call: PassCall, seconds: float, module: Any) -> None:
        """Keep the module before any pass."""
        PassRecorder.pass_ran(self, call, seconds, module)

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        before = self._op_counts
        text = self._text if self._has_nothing_to_do(call.name) else str(module)
        changed = text != self._text
        if changed or self._stored is None:
            self._op_counts = count_ops(module)
            self._stored = self._keep(text)
            self._text = text
        self._add(call, seconds, self._stored, changed, before, self._op_counts)

    def _has_nothing_to_do(self, name: str) -> bool:
        if not self._trusting or name not in ACTS_ON:
            return False
        return not any(op.startswith(ACTS_ON[name]) for op in self._op_counts)

    def step_ran(self, call: PassCall, seconds: float, _module: Any) -> None:
        """Remember how long LLVM optimized; the stage's result is its text."""
        if call.name == "optimize_module":
            self._optimization = (call, seconds)

    def relocated(self, module: Any, folder: str) -> None:
        """Replace the folder in locations, which differs each time: no pass changed it."""
        self._erased = (f"{folder}/", folder)
        self._text = str(module)
        self._stored = self._keep(self._text)

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        """Keep the output of LLVM and the assembler; the stages of MLIR were seen pass by pass."""
        if isinstance(content, str):
            self.stage_texts[name] = content
        if name == "llir" and self._optimization is not None:
            assert isinstance(content, str)
            self._add(*self._optimization, self._keep(content))
        elif name in ("ptx", "amdgcn"):
            assert isinstance(content, str)
            self._add(PassCall(name, "translate_to_asm", 1), seconds, self._keep(content))
        elif name == "cubin":
            assert isinstance(content, bytes)
            text = DeferredText(functools.partial(_sass_or_why, content))
            self._add(PassCall("sass", "ptxas", 1), seconds, text)

    def _add(
        self,
        call: PassCall,
        seconds: float,
        stored: StoredText,
        changed: bool = True,
        before: Mapping[str, int] = _NO_OPS,
        after: Mapping[str, int] = _NO_OPS,
    ) -> None:
        place = (call.stage, call.name, call.occurrence, call.arguments)
        self.passes.append(PassRun(*place, seconds, changed, before, after, stored))

    def _keep(self, text: str) -> StoredText:
        if text not in self._known:
            self._known[text] = StoredText(text, self._erased)
            _packer().submit(self._known[text].pack)
        return self._known[text]


@functools.cache
def _packer() -> ThreadPoolExecutor:
    """Compresses texts on a separate thread: zlib and LLVM both release Python's lock."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="kernellab-packer")


os.register_at_fork(after_in_child=_packer.cache_clear)  # Its thread is the parent's.


def count_ops(module: Any) -> Mapping[str, int]:
    """Op name -> how many of these ops a module of MLIR has, nested ones included."""
    names: list[str] = []
    module.walk(lambda op: names.append(op.get_name()))
    return Counter(names)


Item = str | tuple[Any, ...]
"""One entry of `pipeline`: the name of a pass, or its name and its arguments."""


@dataclass(frozen=True)
class Plan:
    """The changes to the target's own pipeline."""

    skipped: frozenset[str] = frozenset()
    """Labels of the passes that are left out."""
    stop_after: str | None = None
    """The pass, or the stage, after which the compilation ends."""
    stop_before: str | None = None
    """The label of a pass before which the compilation ends."""
    replacements: Mapping[str, tuple[PassCall, ...]] | None = None
    """Stage -> the passes to run instead of the stage's."""


@dataclass(frozen=True)
class Outcome:
    """The result from the worker process."""

    stages: Mapping[str, str | bytes]
    metadata: Mapping[str, Any]
    passes: tuple[PassRun, ...]


def make_plan(
    listed: Sequence[PassCall],
    stages: Sequence[str],
    skip: Iterable[str] = (),
    stop_after: str | None = None,
    pipeline: Iterable[Item] | None = None,
    backend: str = "cuda",
) -> Plan:
    """Match the caller's edits with the target's passes.

    Args:
        listed: the target's own passes, in order.
        skip, stop_after, pipeline: as for `kernellab.compile`.
        backend: "cuda" or "hip", whose passes `pipeline` may name, also if the target has others.

    Raises:
        OptionError: a pass, a stage or a run of a pass that does not exist.
    """
    skip = [skip] if isinstance(skip, str) else _listed("skip", skip)
    _check_names("skip", skip)
    if stop_after is not None:
        _check_names("stop_after", [stop_after])
    if pipeline is not None:
        given: Any = pipeline  # whatever somebody wrote
        items = _listed("pipeline", given)
        names = [item[0] if isinstance(item, tuple | list) and item else item for item in items]
        _check_names("pipeline", names)
        pipeline = items
    skipped = frozenset(call.label for name in skip for call in find_passes(name, listed))
    if stop_after is not None and stop_after not in stages:
        stop_after = find_passes(stop_after, listed)[0].label
    replacements = None if pipeline is None else _replacements(list(pipeline), listed, backend)
    return Plan(skipped, stop_after, replacements=replacements)


def _listed(option: str, given: Any) -> list[Any]:
    if isinstance(given, Iterable):
        return listed(option, given)
    _check_names(option, given)
    return []


def _check_names(option: str, given: Any) -> None:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise errors.OptionError(
            f"{option} must name passes, got {shown(given)}.",
            advice='Pass labels, such as "ttgir.coalesce": compilation.passes has the labels.',
        )


_NAME = re.compile(r"(?:(?P<stage>\w+)\.)?(?P<name>\w+)(?:#(?P<number>\d+))?")


def find_passes(wanted: str, listed: Sequence[PassCall]) -> list[PassCall]:
    """The passes that "stage.name#k", "stage.name" or a bare name mean; at least one. Raises
    OptionError: there is none.
    """
    match = _NAME.fullmatch(wanted)
    matching = []
    if match:
        matching = [
            call
            for call in listed
            if call.name == match["name"]
            and match["stage"] in (None, call.stage)
            and match["number"] in (None, str(call.occurrence))
        ]
    if matching:
        return matching
    runs = [call for call in listed if match and call.name == match["name"]]
    if runs:
        advice = f"Use {' or '.join(repr(call.label) for call in runs)}."
    else:
        known = {name for call in listed for name in (call.label, call.name)}
        advice = (
            errors.nearest(wanted, sorted(known))
            or f"Passes: {', '.join(sorted({c.name for c in listed}))}."
        )
    raise errors.OptionError(f"There is no pass {wanted!r} for this target.", advice=advice)


def _replacements(
    items: Sequence[Item], listed: Sequence[PassCall], backend: str
) -> dict[str, tuple[PassCall, ...]]:
    """Stage -> its new passes; a bare name has the previous item's stage, or else its first."""
    new: dict[str, list[PassCall]] = {}
    stage = ""
    for item in items:
        call = _replacement(item, listed, stage, backend)
        stage = call.stage
        runs = new.setdefault(stage, [])
        occurrence = 1 + sum(run.name == call.name for run in runs)
        runs.append(replace(call, occurrence=occurrence))
    return {name: tuple(runs) for name, runs in new.items()}


def _replacement(item: Item, listed: Sequence[PassCall], stage: str, backend: str) -> PassCall:
    name, *arguments = (item,) if isinstance(item, str) else item
    match = _NAME.fullmatch(str(name))
    offered = pass_adders(backend)
    if match and match["stage"] in {call.stage for call in listed} and match["name"] in offered:
        if not any((call.stage, call.name) == (match["stage"], match["name"]) for call in listed):
            adder = offered[match["name"]]
            return PassCall(match["stage"], match["name"], 1, tuple(arguments), adder)
    matching = find_passes(str(name), listed)
    chosen = next((call for call in matching if call.stage == stage), matching[0])
    return replace(chosen, arguments=tuple(arguments)) if arguments else chosen


LANGUAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
_SUFFIXES = {
    "ll": "llir", "s": "amdgcn", "ttgir": "ttgir", "ttir": "ttir", "llir": "llir", "ptx": "ptx",
    "amdgcn": "amdgcn",
}  # fmt: skip
_SIGNS = (
    ("ptx", re.compile(r"^[ \t]*\.version\s+\d|^[ \t]*\.target\s+sm_", re.M)),
    ("amdgcn", re.compile(r"^[ \t]*\.amdgcn_target\b|^[ \t]*\.amdhsa_kernel\b", re.M)),
    ("llir", re.compile(r"^target triple\s*=|^define\s.*@\w+\(", re.M)),
    ("ttgir", re.compile(r'"?ttg\.(?:num-warps|target)"?\s*=|^#\w+ = #ttg\.|\bttn?g\.\w+', re.M)),
    ("ttir", re.compile(r'^[ \t]*"?tt\.func\b', re.M)),
)


def guess_language(text: str, suffix: str = "") -> str:
    """The language of an IR text, by its suffix or words. Raises OptionError: it is not shown."""
    if suffix.lstrip(".") in _SUFFIXES:
        return _SUFFIXES[suffix.lstrip(".")]
    for language, sign in _SIGNS:
        if sign.search(text):
            return language
    raise errors.OptionError(
        "The text does not say which IR it is.",
        advice=f"Pass language=..., one of {', '.join(LANGUAGES)}.",
    )


def compile_in_worker(
    given: IrText, target: Target, options: Mapping[str, Any], plan: Plan, seconds: float
) -> Outcome:
    """Compile an IR text with an edited pipeline where an abort does no harm.

    Raises:
        CompileError: the compiler refused it, or died of it; `passes` has the record up to there.
        OptionError: an option value that the target's backend refuses.
        WorkerError: the time is up.
    """
    arguments = (given, target, dict(options), plan)
    try:
        outcome: Outcome = processes.call(f"{__name__}:run_plan", *arguments, seconds=seconds)
    except errors.WorkerError as death:
        if not death.last_words or isinstance(death, errors.WorkerLost):
            raise
        raise _diagnostic_of_dead(death, arguments, seconds) from death
    return outcome


_MARK = "kernellab runs the pass "
_MARKED = re.compile(rf"^{_MARK}(\S+)$", re.M)


def _diagnostic_of_dead(
    death: errors.WorkerError, arguments: tuple[Any, ...], seconds: float
) -> errors.CompileError:
    """The error of a compilation that killed its process, with the record up to the pass."""
    given, target, options, plan = arguments
    running = (_MARKED.findall(death.last_words) or [None])[-1]
    diagnostic = triton_api.text_diagnostic(death.last_words, given, target, running, "")
    error = errors.CompileError(
        f"{diagnostic.problem} (it ended the compiler's process).",
        position=diagnostic.position,
        failed_pass=running,
        reason=diagnostic.reason,
    )
    if running is not None:
        until = replace(plan, stop_before=running)
        with contextlib.suppress(errors.CompileError, errors.WorkerError):
            again: Outcome = processes.call(
                f"{__name__}:run_plan", given, target, options, until, seconds=seconds
            )
            error.passes = again.passes
    return error


class _SteeredRecorder(PassRecorder):
    """Records the passes, skips those to be left out, and stops where the plan says."""

    def __init__(self, plan: Plan) -> None:
        # An untried order of passes may leave a module in a state
        # that no table foresees.
        super().__init__(trusting=False)
        self._plan = plan

    def wants(self, call: PassCall) -> bool:
        if call.label in self._plan.skipped:
            return False
        if call.label == self._plan.stop_before:
            raise triton_api.PipelineStopped
        # Should the process die of the pass, this is how its parent knows which one it was.
        os.write(2, f"{_MARK}{call.label}\n".encode())
        return True

    def pass_ran(self, call: PassCall, seconds: float, module: Any) -> None:
        super().pass_ran(call, seconds, module)
        if self._plan.stop_after == call.label:
            raise triton_api.PipelineStopped

    def stage_made(self, name: str, content: str | bytes, seconds: float) -> None:
        super().stage_made(name, content, seconds)
        if self._plan.stop_after == name:
            raise triton_api.PipelineStopped


def run_plan(given: IrText, target: Target, options: Mapping[str, Any], plan: Plan) -> Outcome:
    """Compile from a text on, as planned. Runs in the worker process."""
    try:
        return _run_once(given, target, options, plan)
    except errors.CompileError as error:
        if _is_in_text(error.position, given) or given.language not in ("ttir", "ttgir"):
            raise
        # An op's own location names a line of Python;
        # one read from a text without locations names the text's line.
        refused = _diagnostic_without_locations(given, target, options, plan)
        if refused is None:
            raise
        refused.passes = error.passes
        raise refused from error


def _run_once(given: IrText, target: Target, options: Mapping[str, Any], plan: Plan) -> Outcome:
    recorder = _SteeredRecorder(plan)
    try:
        compiled = triton_pipeline.compile_text(
            given, target, options, recorder, plan.replacements or {}
        )
    except errors.CompileError as error:
        error.passes = _packed(recorder.passes)
        raise
    return Outcome(compiled.stages, compiled.metadata, _packed(recorder.passes))


def _packed(passes: Iterable[PassRun]) -> tuple[PassRun, ...]:
    kept = tuple(passes)
    for run in kept:
        run.text.pack()
    return kept


def _is_in_text(position: errors.SourcePosition | None, given: IrText) -> bool:
    return position is not None and position.file == given.file


def without_locations(text: str) -> str:
    """An MLIR text without locations, with as many lines; read again, locations name these."""
    lines = (
        "" if line.startswith("#loc") else _LOCATION.sub("", line) for line in text.splitlines()
    )
    return "\n".join(lines)


_LOCATION = re.compile(
    r'(?<![ \t])[ \t]*+\bloc\((?:[^()"\n]|"[^"\n]*"|\((?:[^()"\n]|"[^"\n]*"|\([^()\n]*\))*\))*\)'
)


def _diagnostic_without_locations(
    given: IrText, target: Target, options: Mapping[str, Any], plan: Plan
) -> errors.CompileError | None:
    bare = IrText(without_locations(given.text), given.language, given.gluon, given.file)
    try:
        _run_once(bare, target, options, plan)
    except errors.CompileError as error:
        return error if _is_in_text(error.position, given) else None
    return None


def module_after(kernel: Any, call: BoundCall, target: Target, stage: str) -> str:
    """A kernel after a stage ("ttgir") or a pass ("ttir.cse#2"), in MLIR's generic form.

    Raises:
        CompileError: the compiler refused the kernel before that.
        OptionError: an option that the backend refuses, or a pass that the target does not run.
    """
    label = stage
    if "." in stage:
        options = triton_api.options_of_launch(kernel, call.options)
        listed = list_passes(target, options, bool(kernel.is_gluon()))
        label = find_passes(stage, listed)[0].label
    watcher = _Until(label)
    arguments = (kernel, call.specialization, target, call.options)
    triton_pipeline.compile_watched(*arguments, watcher)
    return watcher.text


@dataclass(frozen=True)
class LoweredText:
    """A TTGIR text, and the PTX that it became, whose locations name the text's lines."""

    ttgir: str
    ptx: str


def lowered(kernel: Any, call: BoundCall, target: Target) -> LoweredText:
    """A kernel's TTGIR and PTX, for one of NVIDIA's GPUs.

    Raises:
        CompileError: the compiler refused the kernel.
        OptionError: an option value that the target's backend refuses.
    """
    watcher = _UntilPtx()
    arguments = (kernel, call.specialization, target, call.options)
    made = triton_pipeline.compile_watched(*arguments, watcher, ttgir_lines=True).stages
    return LoweredText(watcher.relocated_text, str(made["ptx"]))


def lowered_text(text: str, target: Target) -> LoweredText:
    """The PTX of a TTGIR text, in either form. Raises CompileError: the compiler refuses it."""
    plain = without_locations(text)
    given = triton_api.IrText(plain, "ttgir", file="<ttgir text>")
    made = triton_pipeline.compile_text(given, target, {}, _UntilPtx(), {}).stages
    return LoweredText(plain, str(made["ptx"]))


class _UntilPtx(Watcher):
    """Stops before machine code is made, and keeps the text that locations name."""

    def __init__(self) -> None:
        self.relocated_text = ""

    def relocated(self, _module: Any, folder: str) -> None:
        """Keep the text whose lines the locations name from now on."""
        (file,) = Path(folder).iterdir()
        self.relocated_text = file.read_text(encoding="utf-8")

    def stage_made(self, name: str, _content: str | bytes, _seconds: float) -> None:
        if name == "ptx":
            raise triton_api.PipelineStopped


class _Until(Watcher):
    """Stops after a pass or a stage, and keeps the module's generic form."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._module: Any = None
        self.text = ""

    def module_made(self, _call: PassCall, _seconds: float, module: Any) -> None:
        """Keep the front end's module: a stage may have no passes."""
        self._module = module

    def pass_ran(self, call: PassCall, _seconds: float, module: Any) -> None:
        self._module = module
        if call.label == self._label:
            self._stop()

    def stage_made(self, name: str, _content: str | bytes, _seconds: float) -> None:
        if name == self._label:
            self._stop()

    def _stop(self) -> None:
        self.text = triton_api.generic_text(self._module)
        raise triton_api.PipelineStopped


@dataclass(frozen=True)
class PassNote:
    """One pass, explained.

    Attributes:
        name: the pass, as in `PassRun.name`.
        text: one paragraph: what the pass does, and what to look for.
    """

    name: str
    topic: str
    text: str


@functools.cache
def pass_notes() -> Mapping[str, PassNote]:
    """Return the notes by pass, in the order of topics, of passes that a pipeline runs."""
    file = Path(__file__).with_name("pass_notes.toml")
    topics = read_data_file(file, Mapping[str, Mapping[str, Prose]])
    return {
        name: PassNote(name, topic, text)
        for topic, notes in topics.items()
        for name, text in notes.items()
    }
