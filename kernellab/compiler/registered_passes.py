"""`kernellab.register_pass`: passes written in Python, which run inside Triton's pipeline."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern
from xdsl.utils.exceptions import VerifyException

from kernellab import triton_api
from kernellab.common.arguments import check_duration
from kernellab.common.system import OutOfTime, limited
from kernellab.common.text import shown, what_it_raised
from kernellab.compiler.passes import Outcome, Plan, compile_in_worker, find_passes
from kernellab.errors import CompileError, OptionError
from kernellab.ir.syntax import read_module, write_module
from kernellab.records import PassRun, StoredText, Target
from kernellab.triton_api import IrText
from kernellab.triton_api.patches import PassCall

Rewrite = Callable[[ModuleOp], object] | RewritePattern | type[RewritePattern]

_STAGES = ("ttir", "glir", "ttgir")


@dataclass(frozen=True)
class RegisteredPass:
    """A pass in Python that runs in the pipeline until it is removed.

    Attributes:
        after: the pass after which it runs: "ttgir.coalesce".
        kernels: the names of the kernels that it runs for; all if there are none.
        seconds: how long it may take.
        rewrite: a function of the module, which changes it, or a pattern of xDSL.
    """

    name: str
    after: str
    kernels: tuple[str, ...]
    seconds: float
    rewrite: Rewrite

    def remove(self) -> None:
        if self in _REGISTERED:
            _REGISTERED.remove(self)

    def __enter__(self) -> RegisteredPass:
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove()

    def apply(self, module: ModuleOp, label: str) -> None:
        """Run the pass on a module. Raises CompileError: it fails, or leaves an invalid module."""
        try:
            with limited(self.seconds):
                self._run(module)
                module.verify()
        except OutOfTime:
            problem = f"The registered pass {self.name} took longer than {self.seconds:g} seconds."
        except VerifyException as invalid:
            problem = f"The registered pass {self.name} made a module that is not valid: {invalid}"
        except Exception as error:
            problem = f"The registered pass {what_it_raised(self.name, error)}"
        else:
            return
        raise CompileError(problem, failed_pass=label)

    def _run(self, module: ModuleOp) -> None:
        rewrite = self.rewrite
        if isinstance(rewrite, type):
            rewrite = rewrite()
        if isinstance(rewrite, RewritePattern):
            PatternRewriteWalker(rewrite).rewrite_module(module)
        else:
            rewrite(module)


_REGISTERED: list[RegisteredPass] = []


def register_pass(
    rewrite: Rewrite, *, after: str, kernels: Any = (), seconds: float = 10.0
) -> RegisteredPass:
    """Run a pass that is written in Python inside the pipeline of later compilations.

        with kernellab.register_pass(SwapLoads, after="ttgir.coalesce", kernels=add):
            kernellab.compile(add, x, y, z, n, BLOCK=256, target="sm_90").explore()
            kernellab.validate(add, grid, x, y, z, n, BLOCK=256)

    Both record it like any pass, under the label "ttgir.SwapLoads". It sees the module as typed
    operations of xDSL (`kernellab.ir`). What runs on a GPU is not compiled with it. A pass of the
    same name takes the place of one that was registered before.

    Args:
        rewrite: a function of xDSL's ModuleOp, which changes the module, or a RewritePattern, which
            is applied until nothing changes.
        after: the pass of TTIR or TTGIR after which it runs, by its label or its name.
        kernels: a kernel, its name, or several; all kernels if there are none.
        seconds: how long it may take.

    Returns:
        The pass; `remove()`, or the end of a `with`, ends its registration.

    Raises:
        OptionError: it is neither a function nor a pattern, or `after` is not a label.
    """
    if not callable(rewrite) and not isinstance(rewrite, RewritePattern):
        raise OptionError(
            f"register_pass takes a function or a RewritePattern, got {shown(rewrite)}.",
            advice="Pass a function of the module.",
        )
    if not isinstance(after, str):
        raise OptionError(
            f"after must be the label of a pass, got {shown(after)}.",
            advice='Write after="ttgir.coalesce", for example.',
        )
    check_duration("seconds", seconds, 600)
    given = kernels if isinstance(kernels, list | tuple | set) else (kernels,)
    names = tuple(str(getattr(kernel, "__name__", kernel)) for kernel in given)
    name = getattr(rewrite, "__name__", type(rewrite).__name__)
    made = RegisteredPass(name, after, names, seconds, rewrite)
    _REGISTERED[:] = [added for added in _REGISTERED if added.name != name]
    _REGISTERED.append(made)
    return made


def registered_for(kernel: Any) -> tuple[RegisteredPass, ...]:
    """The passes that run for a kernel."""
    return tuple(
        added for added in _REGISTERED if not added.kernels or kernel.__name__ in added.kernels
    )


def compile_with(
    registered: Sequence[RegisteredPass],
    given: IrText,
    target: Target,
    options: Mapping[str, Any],
    plan: Plan,
    listed: Sequence[PassCall],
    seconds: float,
) -> Outcome:
    """Compile a text in the worker process, which each registered pass interrupts. Raises
    CompileError, OptionError, WorkerError: as `compile_in_worker`, or a registered pass failed.
    """
    calls = _planned(plan, listed)
    done: tuple[PassRun, ...] = ()
    stages: dict[str, str | bytes] = {}
    label = ""

    def compiled(plan: Plan) -> Outcome:
        try:
            return compile_in_worker(given, target, options, plan, seconds)
        except CompileError as error:
            error.passes = _joined(done, error.passes) if error.passes else done
            if not label or error.failed_pass is not None:
                raise
            problem = f"The registered pass {label} made a module that MLIR refuses: "
            refused = CompileError(problem + error.problem, failed_pass=label)
            refused.passes = done
            raise refused from error

    for place, added in sorted(_placed(registered, plan, calls), key=lambda each: each[0]):
        before = calls[place]
        outcome = compiled(replace(plan, stop_after=before.label))
        done = _joined(done, outcome.passes)
        stages |= outcome.stages
        label = f"{before.stage}.{added.name}"
        module = read_module(triton_api.generic_form(done[-1].text.read(), target))
        text, counts = write_module(module), _counts(module)
        started = time.perf_counter()
        try:
            added.apply(module, label)
        except CompileError as error:
            error.passes = done
            raise
        changed, took = write_module(module), time.perf_counter() - started
        run = (before.stage, added.name, 1, (), took, changed != text, counts, _counts(module))
        done += (PassRun(*run, StoredText(changed)),)
        first = next(n for n, call in enumerate(calls) if call.stage == before.stage)
        language = calls[first - 1].stage if first else given.language
        given = replace(given, text=changed, language=language)
        rest = tuple(call for call in calls[place + 1 :] if call.stage == before.stage)
        plan = replace(plan, replacements={**(plan.replacements or {}), before.stage: rest})
    outcome = compiled(plan)
    stages |= outcome.stages
    return replace(outcome, stages=stages, passes=_joined(done, outcome.passes))


def _joined(before: tuple[PassRun, ...], after: tuple[PassRun, ...]) -> tuple[PassRun, ...]:
    """The passes of a compilation from a text, whose MLIR form comes first in its record."""
    if not before:
        return after
    given, *rest = after
    return (*before[:-1], replace(before[-1], text=given.text), *rest)


def _planned(plan: Plan, listed: Sequence[PassCall]) -> list[PassCall]:
    instead = plan.replacements or {}
    planned: list[PassCall] = []
    for stage in dict.fromkeys(call.stage for call in listed):
        planned += instead.get(stage, [call for call in listed if call.stage == stage])
    return [call for call in planned if call.label not in plan.skipped]


def _placed(
    registered: Sequence[RegisteredPass], plan: Plan, calls: Sequence[PassCall]
) -> Iterator[tuple[int, RegisteredPass]]:
    """Yield the number of the pass before each registered one that the compilation reaches. Raises
    OptionError: there is no such pass, or it is not one of TTIR or TTGIR.
    """
    ends = [n for n, call in enumerate(calls) if plan.stop_after in (call.stage, call.label)]
    for added in registered:
        before = find_passes(added.after, calls)[0]
        if before.stage not in _STAGES:
            raise OptionError(
                f"{added.name} is registered after {before.label}, but registered passes run "
                f"only in {', '.join(_STAGES)}.",
                advice="Register it after the last pass of ttgir.",
            )
        place = calls.index(before)
        if not ends or place <= ends[-1]:
            yield place, added


def _counts(module: ModuleOp) -> Mapping[str, int]:
    return Counter(op.name for op in module.walk())
