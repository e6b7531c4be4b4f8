"""`%tileir`: the IR explorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from kernellab.errors import OptionError, SourcePosition, nearest
from kernellab.magics import ipython_api
from kernellab.magics.options import Options, Position
from kernellab.magics.tilekernel import COMPILING
from kernellab.showing import show

if TYPE_CHECKING:
    from kernellab.records import Compilation, Target


def _targets(text: str) -> list[Target]:
    from kernellab.compiler.targets import parse_targets

    found = parse_targets(text)
    if len(found) > 2:
        raise ValueError("the explorer shows one target, or two that are compared")
    return found


OPTIONS = Options(
    "tileir",
    (
        replace(
            COMPILING[0],
            metavar="GPU[,GPU]",
            help="The GPU to compile for; two of them are compared. The cell's own by default.",
            read=_targets,
        ),
        *COMPILING[1:],
    ),
    sigil="%",
)

_HELP = """Show every pass of a kernel's compilation, and all its stages with linked lines.

Give a kernel, and it is compiled for its latest launch; without a launch, for --sig, else for its
annotations, else for assumed types. Or give what is compiled already: a Compilation, or what
kernellab.compare gives. docs/widgets.md explains what there is to see.

Options:

{options}

Examples:

  %tileir add
      The kernel as it was launched last.

  %tileir matmul --target sm_80,sm_90
      Two targets side by side.

  %tileir add --sig "*fp16:16, *fp16:16, n=i32" --constexpr BLOCK=1024
      A kernel that was not launched.
"""


@magics_class
class TileIrMagics(Magics):
    """The magic `%tileir`."""

    @no_var_expand
    @line_magic
    def tileir(self, line: str) -> Any:
        assert self.shell is not None  # a magic is called by its shell
        position = ipython_api.running_line(self.shell, f"%tileir {line}".rstrip())
        given, expression = _parse(line, position)
        thing = _evaluated(expression, self.shell.user_ns, position(""))
        # Imported here: torch and Triton take longer than the rest of loading the extension.
        from kernellab.errors import CompileError
        from kernellab.magics.compile_wishes import is_kernel

        if not is_kernel(thing):
            return show(thing)
        try:
            return show(_compiled(thing, given, position("")))
        except CompileError as error:
            ipython_api.show(show(error))
            raise

    tileir.__doc__ = _HELP.format(options=OPTIONS.help())


def _parse(line: str, position: Position) -> tuple[dict[str, Any], str]:
    """The options, which may stand before or after the kernel, and the kernel's name."""
    _, rest = OPTIONS.parse_leading(line, position)
    before = line.strip()[: len(line.strip()) - len(rest)]
    expression, dashes, after = rest.partition(" --")
    return OPTIONS.parse(f"{before} {'--' if dashes else ''}{after}", position), expression.strip()


def _evaluated(expression: str, namespace: Mapping[str, Any], position: SourcePosition) -> Any:
    if not expression:
        raise OptionError(
            "%tileir: no kernel is given", advice="As in %tileir add.", position=position
        )
    try:
        return eval(expression, dict(namespace))
    except NameError as error:
        close = nearest(str(error.name), [name for name in namespace if name[:1] != "_"])
        raise OptionError(f"%tileir: {error}", advice=close, position=position) from None
    except SyntaxError as error:
        raise OptionError(
            f"%tileir: {expression!r} cannot be read: {error.msg}", position=position
        ) from None


def _compiled(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Any:
    """The compilation of a kernel, or two that are compared."""
    from kernellab.compiler.comparison import compare

    targets = given["target"] or [None]
    found = [_compilation(kernel, {**given, "target": one}, position) for one in targets]
    return found[0] if len(found) == 1 else compare(found[0], found[1])


def _compilation(kernel: Any, given: Mapping[str, Any], position: SourcePosition) -> Compilation:
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
            error.advice = error.advice or (
                "Launch it first, or say what is missing: --constexpr NAME=VALUE, --sig TYPES."
            )
            raise
    return compile_bound(plain, call, wishes.target, record="passes")
