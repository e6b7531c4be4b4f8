"""The steps of `%%tilekernel`: run the cell, compile its kernels, show their cards."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from kernellab import triton_api
from kernellab.compiler.binding import BoundCall, bind
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.kernels import InductorKernel, assume, unwrap_kernel
from kernellab.compiler.pipeline import compile_kept, compiled_from
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import ArgumentError, CompileError, KernelLabError, OptionError, suggestion
from kernellab.launch.tile_kernel import TileKernel, keep, tile_kernels_in
from kernellab.magics import ipython_api
from kernellab.magics.magic import Cell, stated
from kernellab.records import Launch, Run, Target
from kernellab.torch_api.inductor import is_inductor_kernel
from kernellab.triton_api import definition_of, reachable_functions
from kernellab.viz.kernels import Numbers, change_of, kernel_card, plain_card
from kernellab.viz.kit.view import Card, CardView
from kernellab.viz.launch_tabs import FindLaunch, live_card


@dataclass(frozen=True)
class CompileOptions:
    """The values of the options in `kernel_magics.compiling`."""

    target: Target
    signature: tuple[Sequence[Any], Mapping[str, Any]] | None
    constants: Mapping[str, Any]
    options: Mapping[str, Any]


def compile_options_of(
    given: Mapping[str, Any], default: Target = DEFAULT_TARGET
) -> CompileOptions:
    """The options of a parsed line; `default` is the target where it names none."""
    return CompileOptions(
        target=given["target"] or default,
        signature=given["sig"],
        constants=dict(chain.from_iterable(given["constexpr"])),
        options=stated(num_warps=given["num_warps"], num_stages=given["num_stages"]),
    )


def generated_call(
    generated: Any, compile_options: CompileOptions
) -> tuple[InductorKernel, BoundCall, Target]:
    """Inductor's first config of a kernel: the plain kernel, the call, and the line's GPU. Raises
    ArgumentError: constants or types that do not fit, or its source is not in this process.
    """
    constants = compile_options.constants
    plain, values = unwrap_kernel(generated, (), {}, constants)
    args, named = compile_options.signature or ((), assume(plain, {**values, **constants}))
    is_own = compile_options.target == DEFAULT_TARGET
    target = plain.target if is_own else compile_options.target
    call = bind(
        plain, args, {**named, **values}, target,
        options=compile_options.options, constants=constants,
    )  # fmt: skip
    return plain, call, target


def launched_call(launch: Launch | BoundCall, compile_options: CompileOptions) -> BoundCall:
    """The call that a launch made, its own options before those of the line."""
    return BoundCall(launch.specialization, {}, {**compile_options.options, **launch.options})


def is_kernel(thing: Any) -> bool:
    """Whether it is a JIT function, also inside autotune or heuristics, or Inductor's."""
    kinds = triton_api.JITFunction | triton_api.Autotuner | triton_api.Heuristics
    return isinstance(thing, kinds) or is_inductor_kernel(thing)


def stated_call(kernel: Any, compile_options: CompileOptions) -> BoundCall:
    """The call that the line states; other types are from annotations, or assumed. Raises
    ArgumentError: types or constants do not fit the kernel, or something is missing.
    """
    stated_there = compile_options.constants.items()
    constants = {name: value for name, value in stated_there if name in kernel.arg_names}
    args, named = compile_options.signature or ((), assume(kernel, constants))
    options, target = compile_options.options, compile_options.target
    return bind(kernel, args, named, target, options=options, constants=constants)


def run_tile_cell(cell: Cell, given: Mapping[str, Any], has_cards: bool) -> None:
    """Run the cell's body, its kernels as TileKernels, and show their cards.

    Args:
        given: the options of its line that say what is compiled.

    Raises:
        KernelLabError: no kernel in the cell, options that do not fit, or a failed compilation.
        BaseException: whatever the body raises.
    """
    compile_options = compile_options_of(given)
    known = compiled_from(cell.running.file)
    with tile_kernels_in(cell.running.file, compile_options.target) as made:

        def has_card(value: Any) -> bool:  # it describes the last launch of its kernel
            is_last = isinstance(value, Run) and any(value is kernel.last_run for kernel in made)
            return has_cards and is_last

        ipython_api.execute(cell.running, cell.body, has_card)
    kernels = list({definition_of(kernel): kernel for kernel in made}.values())
    launches = _kept(made)
    if not kernels:
        raise KernelLabError(
            "This cell defines no kernel.",
            advice="Decorate a function with @triton.jit or @gluon.jit. "
            "A cell that only launches kernels needs no %%tilekernel. The variables that the "
            "cell defined are kept.",
            position=cell.place,
        )
    if has_cards:
        _check_constants(compile_options, kernels, cell)
        _show_cards(kernels, compile_options, launches, cell.namespace)
    del known  # until now, so that a cell that is run again finds them


def _kept(made: Iterable[TileKernel]) -> Mapping[int, FindLaunch]:
    """By the identity of its kernel, the latest launch of each, kept for what its card leads to."""
    launches = {id(kernel): kernel.take_launch_of_cell() for kernel in made}
    return {number: keep(launch) for number, launch in launches.items() if launch is not None}


def _check_constants(
    compile_options: CompileOptions, kernels: Sequence[TileKernel], cell: Cell
) -> None:
    names = {name for kernel in kernels for name in kernel.arg_names}
    for name in compile_options.constants:
        if name not in names:
            raise OptionError(
                f"No kernel of this cell has a parameter {name!r}.",
                advice=suggestion(name, sorted(names), "Parameters:"),
                position=cell.position(f"{name}="),
            )


def _show_cards(
    kernels: Sequence[TileKernel],
    compile_options: CompileOptions,
    launches: Mapping[int, FindLaunch],
    namespace: Mapping[str, Any],
) -> None:
    """Show a card for each kernel, then raise the first error."""
    failures: list[KernelLabError] = []
    called = {
        id(callee)
        for kernel in kernels
        for callee in reachable_functions(kernel)
        if callee is not kernel
    }
    for kernel in kernels:
        if kernel.last_launch is None and (id(kernel) in called or _returns_value(kernel)):
            continue
        try:
            around: Any = namespace.get(kernel.__name__)
            if is_inductor_kernel(around) and around.fn is kernel:
                card = _generated_card(around, compile_options)
            else:
                card = _card(kernel, compile_options, launches.get(id(kernel), _no_launch))
            ipython_api.show(card)
        except KernelLabError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _returns_value(kernel: TileKernel) -> bool:
    tree = kernel.parse()
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))


def _no_launch() -> None:
    """Of a kernel that its cell does not launch."""


def _generated_card(generated: Any, compile_options: CompileOptions) -> CardView | Card:
    """The card of a kernel that Inductor generated, as Inductor compiles it."""
    plain, call, target = generated_call(generated, compile_options)
    compilation = compile_kept(plain, call, target)
    known_from = dict.fromkeys(call.specialization.signature, "Inductor")
    make = partial(kernel_card, compilation, known_from=known_from, notes=[_FIRST_CONFIG])
    return live_card(make, compilation, _no_launch)


_FIRST_CONFIG = (
    "As Inductor compiles it, with the first of its configs. kernellab.run(kernel, None, ...) "
    "launches it; None stands for the grid that Inductor takes."
)


def _card(kernel: TileKernel, compile_options: CompileOptions, find: FindLaunch) -> Card | CardView:
    """The card of a kernel, for its launch in the cell, or for stated or assumed types."""
    run = kernel.last_run
    if run is not None:
        call = launched_call(run.launch, compile_options)
        compilation = compile_kept(kernel, call, compile_options.target)
        make = partial(kernel_card, compilation, run=run, notes=_changes(compilation))
        # On a GPU a check would copy the arguments to the CPU, which takes a while.
        later = ("check", "diagnosis") if run.device == "interpreter" else ()
        return live_card(make, compilation, find, later)
    try:
        call = stated_call(kernel, compile_options)
    except ArgumentError as error:
        if compile_options.signature is not None:
            raise
        notes = [
            error.problem,
            "Launch it in its cell, or say what is missing: --constexpr NAME=VALUE, --sig TYPES.",
        ]
        return plain_card(kernel.__name__, compile_options.target, notes)
    compilation = _compile_unlaunched(kernel, call, compile_options.target)
    known_from = _known_from(kernel, call, compile_options.constants)
    notes = [*_changes(compilation), "Not launched in this cell."]
    make = partial(kernel_card, compilation, known_from=known_from, notes=notes)
    return live_card(make, compilation, find)


_latest_numbers: dict[tuple[str, str], Numbers] = {}
"""Kernel and target -> what the card of its last run showed."""


def _changes(compilation: Compilation) -> list[str]:
    """What differs from the last card of the kernel, as a note; nothing if no number does."""
    key, now = (compilation.kernel, str(compilation.target)), Numbers.of(compilation)
    before = _latest_numbers.get(key)
    if now is not None:
        _latest_numbers[key] = now
    change = "" if now is None or before is None else change_of(before, now)
    return [change] if change else []


def _compile_unlaunched(kernel: TileKernel, call: BoundCall, target: Target) -> Compilation:
    try:
        return compile_kept(kernel, call, target)
    except CompileError as error:
        origins, types = call.specialization.origins, call.specialization.signature
        assumed = [
            f"{name}: {kind}" for name, kind in types.items() if origins.get(name) == "assumption"
        ]
        if assumed:
            note = (
                f"These types are assumed: {', '.join(assumed)}. Launch the kernel in the cell, or "
                "pass --sig, to state them."
            )
            error.advice = "\n".join(filter(None, (error.advice, note)))
        raise


def _known_from(
    kernel: TileKernel, call: BoundCall, constants: Mapping[str, Any]
) -> dict[str, str]:
    """How types and constants are known, in the magic's words, if the specialization cannot say."""
    sources = {}
    for parameter in kernel.params:
        name = parameter.name
        if name in constants:
            sources[name] = "--constexpr"
        elif call.specialization.origins.get(name) == "signature":
            sources[name] = "--sig"
        elif name not in call.stated:
            sources[name] = "default" if parameter.has_default else "--sig"
    return sources
