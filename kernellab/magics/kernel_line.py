"""Lines of magics that name a kernel: "add --target sm_90"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import OptionError, SourcePosition, nearest
from kernellab.magics.options import Options, Position

if TYPE_CHECKING:
    from kernellab.records import Compilation


def read_line(options: Options, line: str, position: Position) -> tuple[dict[str, Any], str]:
    """The options, which may stand before or after the kernel, and the kernel's name."""
    _, rest = options.parse_leading(line, position)
    before = line.strip()[: len(line.strip()) - len(rest)]
    expression, dashes, after = rest.partition(" --")
    return options.parse(f"{before} {'--' if dashes else ''}{after}", position), expression.strip()


def evaluated(
    expression: str, namespace: Mapping[str, Any], magic: str, position: SourcePosition
) -> Any:
    """The value of what a line names, in the user's namespace.

    Raises OptionError where nothing is named, or no such name is known.
    """
    if not expression:
        raise OptionError(
            f"{magic}: no kernel is given", advice=f"As in {magic} add.", position=position
        )
    try:
        return eval(expression, dict(namespace))
    except NameError as error:
        close = nearest(str(error.name), [name for name in namespace if name[:1] != "_"])
        raise OptionError(f"{magic}: {error}", advice=close, position=position) from None
    except SyntaxError as error:
        raise OptionError(
            f"{magic}: {expression!r} cannot be read: {error.msg}", position=position
        ) from None


def compilation_of(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Compilation:
    """A kernel compiled, with every pass recorded: for its latest launch, where the line states no types, else for what it states.

    Raises:
        CompileError: the kernel does not compile.
        ArgumentError: types or constants do not fit the kernel, or something is missing.
    """
    from kernellab.compiler.pipeline import compile_bound, unwrap_kernel
    from kernellab.compiler.targets import DEFAULT_TARGET
    from kernellab.errors import ArgumentError
    from kernellab.magics.compile_wishes import launched_call, stated_call, wishes_of

    plain, added = unwrap_kernel(kernel, (), {}, dict(given["constexpr"]))
    wishes = wishes_of(given, getattr(plain, "target", DEFAULT_TARGET))
    launch = getattr(plain, "last_launch", None)
    if launch is not None and wishes.signature is None and not wishes.constants:
        call = launched_call(launch, wishes)
    else:
        try:
            options = {name: value for name, value in added.items() if name not in plain.arg_names}
            call = stated_call(
                plain,
                replace(
                    wishes,
                    constants={**added, **wishes.constants},
                    options={**options, **wishes.options},
                ),
            )
        except ArgumentError as error:
            error.position = error.position or position
            error.advice = (
                "Launch it first, or say what is missing: --constexpr NAME=VALUE, --sig TYPES."
            )
            raise
    return compile_bound(plain, call, wishes.target, record="passes")
