"""The magics of kernels: `%%tilekernel`, `%tileir`, `%tilelayout`; and their lines, which name a
kernel: "add --target sm_90".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import (
    later,
    names_in,
    option,
    read_constexprs,
    read_warps,
    read_whole_number,
    stated_by_options,
)
from kernellab.errors import OptionError, SourcePosition
from kernellab.magics import ipython_api
from kernellab.magics.magic import Cell, Line, magic, read_variables
from kernellab.records.display import can_show, described, show

if TYPE_CHECKING:
    from kernellab.compiler.compilations import Compilation
    from kernellab.records import Target


def evaluated(
    expression: str, line: Line, place: SourcePosition, fits: Callable[[Any], bool] | None = None
) -> Any:
    """Return the value of what a line names, in the user's namespace.

    Args:
        fits: what the line may name, for the advice; kernels where left out.

    Raises OptionError where nothing is named, or no such name is known.
    """
    line = replace(line, place=place)
    there = _names_of(line.namespace, fits)
    if not expression:
        raise OptionError(
            f"{line.magic}: the line must name a kernel.", advice=there, position=place
        )
    try:
        return eval(expression, dict(line.namespace))
    except NameError as error:
        raise line.unknown(str(error.name), there) from None
    except SyntaxError as error:
        raise OptionError(
            f"{line.magic}: {expression!r} cannot be read: {error.msg}", position=place
        ) from None


def refuse_no_kernel(thing: Any, expression: str, line: Line) -> None:
    """Raise OptionError where a line names neither a kernel nor anything with a view."""
    if not can_show(thing):
        raise OptionError(
            f"{line.magic}: {expression} is {described(thing)}, not a kernel.",
            advice=_names_of(line.namespace, None),
            position=line.place,
        )


def _names_of(namespace: Mapping[str, Any], fits: Callable[[Any], bool] | None) -> str:
    from kernellab.magics.tile_cell import is_kernel

    what = "kernels" if fits is None else "results that can be shown"
    names = [
        name for name, value in namespace.items() if name[:1] != "_" and (fits or is_kernel)(value)
    ]
    if names:
        return f"The notebook has these {what}: {', '.join(names)}."
    return f"The notebook has no {what} yet."


def compilation_of(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Compilation:
    """A kernel compiled, with every pass recorded, unless it was already: for its latest launch,
    where the line states no types, else for what it states. Raises CompileError: the kernel does
    not compile; ArgumentError: types or constants do not fit the kernel, or something is missing.
    """
    from kernellab.compiler.kernels import unwrap_kernel
    from kernellab.compiler.pipeline import compile_kept
    from kernellab.compiler.targets import DEFAULT_TARGET
    from kernellab.errors import ArgumentError, MissingArguments
    from kernellab.magics.tile_cell import compile_options_of, launched_call, stated_call

    plain, added = unwrap_kernel(kernel, (), {}, dict(chain.from_iterable(given["constexpr"])))
    compile_options = compile_options_of(given, getattr(plain, "target", DEFAULT_TARGET))
    launch = getattr(plain, "last_call", None)
    if launch is not None and compile_options.signature is None and not compile_options.constants:
        call = launched_call(launch, compile_options)
    else:
        try:
            options = {name: value for name, value in added.items() if name not in plain.arg_names}
            constants = {**added, **compile_options.constants}
            options |= compile_options.options
            every = replace(compile_options, constants=constants, options=options)
            call = stated_call(plain, every)
        except ArgumentError as error:
            error.position = error.position or position
            if isinstance(error, MissingArguments):
                stated = stated_by_options(error)
                error.advice = f"Launch it first, or state the arguments. {stated}"
            raise
    return compile_kept(plain, call, compile_options.target)


TARGET = option(
    later("kernellab.compiler.targets:parse_target"),
    names_in("kernellab.compiler.targets:SUPPORTED_TARGETS"),
)


def compiling(
    *,
    sig: Any = option(later("kernellab.compiler.arguments:parse_signature")),
    constexpr: Any = option(read_constexprs, repeated=True),
    num_warps: Any = option(read_warps, lambda: ["1", "2", "4", "8", "16"]),
    num_stages: Any = option(read_whole_number, lambda: ["1", "2", "3", "4", "5"]),
) -> None:
    """
    The options, besides the target, that say what a kernel is compiled for:

      --sig TYPES
          Argument types for kernels that the cell does not launch: "*fp32:16, *fp32, i32".
          ":16" promises that a pointer or integer is divisible by 16. An entry may be
          named: "n=i32".
      --constexpr NAME=VALUE
          The value of a tl.constexpr parameter, for kernels that the cell does not launch:
          an int, a float, True or False, a string, or a type such as tl.float16. Several
          with commas between them: BM=64,BN=32.
      --num-warps N
          Warps per program to compile with, where the launch does not say.
      --num-stages N
          Stages of the software pipeline to compile with, where the launch does not say.
    """


@magic("cell", has="nothing", also=compiling)
def tilekernel(
    cell: Cell, *, target: Target | None = TARGET, no_compile: bool = option(), **given: Any
) -> None:
    """Run the cell; its Triton kernels run on the CPU as on a GPU, and are shown compiled.

    The cell is an ordinary cell: any Python, any number of kernels and helper functions, everything
    it defines is in your namespace afterwards. Functions decorated with @triton.jit or @gluon.jit
    become TileKernels: a launch with CPU tensors or NumPy arrays runs in KernelLab's interpreter,
    in place; with CUDA tensors it runs on the GPU. After the cell, a card for each kernel says what
    the compiler made of it.

    The types that a card is compiled for come from the cell's launch of the kernel; without one,
    from --sig; else from annotations (x_ptr: "*fp32"); else they are assumed, and the card says so.

    Options:

      --target GPU
          The GPU to compile for, and to emulate when a launch runs on the CPU: sm_90 (the
          default), sm_80, gfx942, ...
      --no-compile
          Run the cell and show no cards.

    Examples:

      %%tilekernel
          Run the cell for the default GPU, sm_90; no GPU is needed.

      %%tilekernel --target gfx942 --num-warps 8
          Emulate an AMD MI300 and compile for it, with 8 warps per program.

      %%tilekernel --sig "*fp16:16, *fp16:16, n=i32" --constexpr BLOCK=1024
          Compile a kernel that the cell defines and does not launch.
    """
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.magics.tile_cell import run_tile_cell

    run_tile_cell(cell, {**given, "target": target}, has_cards=not no_compile)


# `%tileir`: the IR explorer.


def _targets(text: str) -> list[Target]:
    from kernellab.compiler.targets import parse_targets

    targets = parse_targets(text)
    if len(targets) > 2:
        raise ValueError("must be one target, or two to compare")
    return targets


@magic("line", has="around", also=compiling)
def tileir(
    line: Line,
    *,
    target: Sequence[Target] | None = replace(TARGET, read=_targets),
    with_: Sequence[Sequence[str]] = option(read_variables, repeated=True),
    **given: Any,
) -> Any:
    """Show every pass of a kernel's compilation, and all its stages with linked lines.

    Give a kernel, and it is compiled for its latest launch; without a launch, for --sig, else for
    its annotations, else for assumed types. Or give what is compiled already: a Compilation, or
    what kernellab.compare gives. docs/widgets.md explains what there is to see.

    Options:

      --target GPU[,GPU]
          The GPU to compile for; two of them are compared. The cell's own by default.
      --with NAME[,NAME]
          Variables that hold evidence: what kernellab.check, kernellab.accesses and
          kernellab.read_ncu gave. Findings are shown in the margin, numbers next to the
          lines.

    Examples:

      %tileir add
          The kernel as it was launched last.

      %tileir matmul --target sm_80,sm_90
          Two targets side by side.

      %tileir add --with report,costs
          Also what `report = kernellab.check(...)` found and `costs = kernellab.accesses(...)`
          counted.

      %tileir add --sig "*fp16:16, *fp16:16, n=i32" --constexpr BLOCK=1024
          A kernel that was not launched.
    """
    thing = evaluated(line.text, line, line.place)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.compiler.compare import compare
    from kernellab.errors import CompileError
    from kernellab.magics.tile_cell import is_kernel
    from kernellab.viz.explorer import can_annotate

    annotations = [
        evaluated(name, line, line.position(name), can_annotate)
        for name in chain.from_iterable(with_)
    ]
    if not is_kernel(thing):
        refuse_no_kernel(thing, line.text, line)
        return show(thing, *annotations)
    targets: Sequence[Target | None] = target or [None]
    try:
        first, *others = (
            compilation_of(thing, {**given, "target": each}, line.place) for each in targets
        )
    except CompileError as error:
        ipython_api.show(show(error))
        raise
    return show(compare(first, others[0]) if others else first, *annotations)


@magic("line", has="around", also=compiling)
def tilelayout(
    line: Line, *, target: Target | None = TARGET, after: str | None = option(), **given: Any
) -> Any:
    """Show which thread and register, or which place in memory, holds which element of a kernel's
    tiles.

    Give a kernel, and after it the name of a tile; without one, all tiles can be chosen. The kernel
    is compiled for its latest launch, else for --sig, annotations or assumed types. A Compilation,
    and any layout (kernellab.Layout, compilation.layouts()["acc"][0]), can be given in the kernel's
    place. docs/widgets.md explains what there is to see.

    Options:

      --target GPU
          The GPU to compile for: sm_90 (the default), sm_80, gfx942, ...
      --after PASS
          The pass after which the tiles are looked at: "ttgir.coalesce". The finished TTGIR
          where left out.

    Examples:

      %tilelayout matmul accumulator
          The tiles that the kernel calls accumulator.

      %tilelayout matmul --after ttgir.coalesce --target sm_80
          All tiles, as one pass left them.
    """
    expression, name = _split(line.text)
    thing = evaluated(expression, line, line.place)
    # Imported here: torch and Triton take longer than the rest of loading the extension.
    from kernellab.compiler.compilations import Compilation
    from kernellab.magics.tile_cell import is_kernel

    if is_kernel(thing):
        thing = compilation_of(thing, {**given, "target": target}, line.place)
    if isinstance(thing, Compilation):
        from kernellab.viz.launch_tabs import beside

        view = show(thing.layouts(after or "ttgir"), name=name)
        return beside(view, thing, "layouts")
    refuse_no_kernel(thing, expression, line)
    if name is not None or after:
        raise OptionError(
            f"{line.magic}: a tile's name and --after go with a kernel or a Compilation.",
            position=line.place,
        )
    return show(thing)


def _split(words: str) -> tuple[str, str | None]:
    expression, blank, name = words.rpartition(" ")
    return (expression.strip(), name) if blank and name.isidentifier() else (words, None)
