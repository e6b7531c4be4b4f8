"""Lines of magics that name a kernel: "add --target sm_90"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from kernellab.common.arguments import stated_by_options
from kernellab.errors import OptionError, SourcePosition
from kernellab.magics.notebook_names import unknown_name
from kernellab.magics.options import Options, Position
from kernellab.records.display import can_show, described

if TYPE_CHECKING:
    from kernellab.records import Compilation


def read_line(options: Options, line: str, position: Position) -> tuple[dict[str, Any], str]:
    """Return the options, which may be before or after the kernel, and the kernel's name."""
    _, rest = options.parse_leading(line, position)
    before = line.strip()[: len(line.strip()) - len(rest)]
    expression, dashes, after = rest.partition(" --")
    return options.parse(f"{before} {'--' if dashes else ''}{after}", position), expression.strip()


def evaluated(
    expression: str,
    namespace: Mapping[str, Any],
    magic: str,
    position: SourcePosition,
    fits: Callable[[Any], bool] | None = None,
) -> Any:
    """The value of what a line names, in the user's namespace.

    Args:
        fits: what the line may name, for the advice; kernels where left out.

    Raises OptionError where nothing is named, or no such name is known.
    """
    there = _names_of(namespace, fits)
    if not expression:
        raise OptionError(f"{magic}: the line must name a kernel", advice=there, position=position)
    try:
        return eval(expression, dict(namespace))
    except NameError as error:
        raise unknown_name(str(error.name), namespace, magic, position, there=there) from None
    except SyntaxError as error:
        raise OptionError(
            f"{magic}: {expression!r} cannot be read: {error.msg}", position=position
        ) from None


def refuse_no_kernel(
    thing: Any,
    expression: str,
    namespace: Mapping[str, Any],
    magic: str,
    position: SourcePosition,
) -> None:
    """Raise OptionError where a line names what is neither a kernel nor anything
    that has a view.
    """
    if not can_show(thing):
        raise OptionError(
            f"{magic}: {expression} is {described(thing)}, not a kernel",
            advice=_names_of(namespace, None),
            position=position,
        )


def _names_of(namespace: Mapping[str, Any], fits: Callable[[Any], bool] | None) -> str:
    """What a line may name in this notebook, in a sentence."""
    from kernellab.magics.compile_options import is_kernel

    what = "Kernels" if fits is None else "Evidence"
    names = [
        name for name, value in namespace.items() if name[:1] != "_" and (fits or is_kernel)(value)
    ]
    if names:
        return f"{what} of this notebook: {', '.join(names)}."
    return f"This notebook has no {what.lower().removesuffix('s')} yet."


def compilation_of(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Compilation:
    """A kernel compiled, with every pass recorded, unless it was already:
    for its latest launch, where the line states no types, else for what it states.

    Raises:
        CompileError: the kernel does not compile.
        ArgumentError: types or constants do not fit the kernel, or something is missing.
    """
    from kernellab.compiler.kernels import unwrap_kernel
    from kernellab.compiler.pipeline import compile_kept
    from kernellab.compiler.targets import DEFAULT_TARGET
    from kernellab.errors import ArgumentError, MissingArguments
    from kernellab.magics.compile_options import compile_options_of, launched_call, stated_call

    plain, added = unwrap_kernel(kernel, (), {}, dict(chain.from_iterable(given["constexpr"])))
    compile_options = compile_options_of(given, getattr(plain, "target", DEFAULT_TARGET))
    launch = getattr(plain, "last_call", None)
    if launch is not None and compile_options.signature is None and not compile_options.constants:
        call = launched_call(launch, compile_options)
    else:
        try:
            options = {name: value for name, value in added.items() if name not in plain.arg_names}
            call = stated_call(
                plain,
                replace(
                    compile_options,
                    constants={**added, **compile_options.constants},
                    options={**options, **compile_options.options},
                ),
            )
        except ArgumentError as error:
            error.position = error.position or position
            if isinstance(error, MissingArguments):
                error.advice = (
                    f"Launch it first, or state what is missing. {stated_by_options(error)}"
                )
            raise
    return compile_kept(plain, call, compile_options.target)
