"""Rules for the front end's messages: what they use, which answers, and if its fix helps."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from typing import Any

import triton.language as tl
from triton.compiler.code_generator import CodeGenerator

from kernellab.common.data_files import Prose, read_data_file
from kernellab.common.text import shown
from kernellab.errors import Change, changes_between
from kernellab.triton_api.functions import definition_of
from kernellab.triton_api.kernel_contents import with_source


@dataclass(frozen=True)
class Attempted:
    """A fix with the source that it means; it is shown only if the front end takes that source.

    Attributes:
        unspecialized: a parameter that @triton.jit's do_not_specialize gets; "" for none.
    """

    advice: str
    source: str
    unspecialized: str = ""


@dataclass(frozen=True)
class Fix:
    """The meaning of a message, and what to write instead."""

    reason: str
    """In plain words; "" if the message says it well."""
    advice: str
    replaces: bool = False
    """Whether the message itself says nothing to a reader, such as "list index out of range"."""
    attempts: tuple[Attempted, ...] = ()
    """Fixes to try in turn, instead of `advice`; the first that helps is shown."""


_PLAIN_WORDS = ("A", "a", "an", "it", "the", "this", "axis", "tiles", "elements", "attributes")
"""First words of reasons that are not names of the kernel."""


@dataclass(frozen=True)
class Refusal:
    """A message of the front end, with what was known where it was raised."""

    words: str
    function: Any
    """The JIT function of the user that it is about: the kernel, or one that it calls."""
    node: ast.AST | None
    """The expression or statement there, as Triton has it."""
    scope: Mapping[str, Any] = field(default_factory=dict)
    """The variables of that function so far, as Triton's values."""
    inner: tuple[Mapping[str, Any], ...] = ()
    """The variables of Triton's own functions that were running, the innermost first."""

    def explained_by(self, fix: Fix) -> tuple[str, str]:
        """Return the reason and the advice of an error, with the text of a rule's fix."""
        if fix.replaces:
            return fix.reason, fix.advice
        first = fix.reason.partition(" ")[0]
        is_word = first in _PLAIN_WORDS
        reason = fix.reason[:1].upper() + fix.reason[1:] if is_word else fix.reason
        return self.words, f"{reason} {fix.advice}".strip()

    def text(self, node: ast.AST | None = None, limit: int = 48) -> str:
        """An expression as it is written, or "" if it is long or unknown.

        Args:
            node: the expression; by default the one that was refused.
            limit: characters from which it counts as long.
        """
        node = self.node if node is None else node
        if not isinstance(node, ast.AST):
            return ""
        text = ast.get_source_segment(str(self.function.src), node) or ""
        return text if len(text) <= limit and "\n" not in text else ""

    def nodes(self) -> Iterator[ast.AST]:
        """Yield the refused expression and its parts."""
        return ast.walk(self.node) if isinstance(self.node, ast.AST) else iter(())

    def names(self, part: ast.AST | None = None) -> list[str]:
        """Return the variables in the refused expression, or in a part, in order, each once."""
        nodes = self.nodes() if part is None else ast.walk(part)
        names = [node for node in nodes if isinstance(node, ast.Name)]
        names.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in names))

    def around(self) -> list[ast.AST]:
        """Return the nodes around the refused one, the nearest first."""
        chain: list[ast.AST] = []
        if isinstance(self.node, ast.AST):
            _path_to(self.node, self.function.parse(), chain)
        return chain

    def statement(self) -> ast.stmt | None:
        """The statement that the refused expression belongs to."""
        if isinstance(self.node, ast.stmt):
            return self.node
        return next((node for node in self.around() if isinstance(node, ast.stmt)), None)

    def known(self, name: str) -> Any:
        """The innermost of Triton's own variables with a name; None if there is none."""
        return next((frame[name] for frame in self.inner if name in frame), None)

    def is_parameter(self, name: str) -> bool:
        return name in self.function.arg_names

    def is_constant(self, name: str) -> bool:
        """Whether a parameter is annotated as a constexpr."""
        return any(p.name == name and p.is_constexpr for p in self.function.params)


def one_as_number(refused: Refusal, name: str, why: str) -> Fix | None:
    """Return the fix for a parameter that is 1 and became a constant; None for another name."""
    if not refused.is_parameter(name) or refused.is_constant(name):
        return None
    advice = f"@triton.jit(do_not_specialize=[{name!r}]) keeps it a number."
    attempt = Attempted(advice, str(refused.function.src), unspecialized=name)
    reason = f"{name} is 1 in this launch, so Triton made it a constant, and {why}."
    return Fix(reason, "", attempts=(attempt,))


def _path_to(wanted: ast.AST, tree: ast.AST, chain: list[ast.AST]) -> bool:
    """Collect the parents of the node that equals the wanted one, the nearest first."""
    for child in ast.iter_child_nodes(tree):
        if _is_same(child, wanted) or _path_to(wanted, child, chain):
            chain.append(tree)
            return True
    return False


def _is_same(first: ast.AST, second: ast.AST) -> bool:
    """Whether nodes of two parses of one source are the same."""
    places = [
        (type(node), *(getattr(node, name, None) for name in _PLACE)) for node in (first, second)
    ]
    return places[0] == places[1] and places[0][1] is not None


_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def variables_at(error: BaseException, function: Any) -> Mapping[str, Any]:
    """The variables of a JIT function where the front end raised, as Triton's values."""
    for frame in _frames(error):
        generator = frame.get("self")
        if isinstance(generator, CodeGenerator) and generator.jit_fn.src == function.src:
            return dict(generator.lscope)
    return {}


def variables_inside(error: BaseException) -> tuple[Mapping[str, Any], ...]:
    """The variables of Triton's functions that ran, from the innermost to the kernel's reader."""
    scopes: list[Mapping[str, Any]] = []
    for frame in _frames(error):
        scopes.append(frame)
        if isinstance(frame.get("self"), CodeGenerator):
            break
    return tuple(scopes)


def _frames(error: BaseException) -> Iterator[Mapping[str, Any]]:
    """The variables of the frames that an error and its causes passed, the innermost first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    for part in reversed(chain):
        frames = [frame for frame, _ in walk_tb(part.__traceback__)]
        yield from (frame.f_locals for frame in reversed(frames))


def sizes_text(shape: Any) -> str:
    """Return a shape of Triton's front end as a message shows it: "16 x 32"."""
    return " x ".join(str(getattr(size, "value", size)) for size in shape or ()) or "no axes"


def kind_of(value: Any) -> str:
    """Describe a value of Triton's front end: "a tile of 16 x 32 fp32"."""
    if isinstance(value, tl.constexpr):
        return f"the constant {shown(value.value)}"
    kind = getattr(value, "type", value)
    if isinstance(kind, tl.block_type):
        return f"a tile of {sizes_text(kind.shape)} {_element(kind.element_ty)}"
    if isinstance(kind, tl.dtype):
        return f"a {_element(kind)}" if kind.is_ptr() else f"one {_element(kind)}"
    return f"a {type(value).__name__}"


def _element(kind: Any) -> str:
    return f"pointer to {kind.element_ty}" if kind.is_ptr() else str(kind)


def is_tile(value: Any) -> bool:
    return isinstance(getattr(value, "type", None), tl.block_type)


def shape_of(value: Any) -> list[int]:
    """The sizes of a tile; of one value, none."""
    return [int(size) for size in value.type.shape] if is_tile(value) else []


def scalar_of(value: Any) -> Any:
    """The element type of a tile or of one value; None for what has none."""
    kind = getattr(value, "type", None)
    return getattr(kind, "scalar", None)


def is_pointer(value: Any) -> bool:
    scalar = scalar_of(value)
    return scalar is not None and bool(scalar.is_ptr())


@dataclass(frozen=True)
class WordedRule:
    """A rule that is a pattern and words. In these, {0} stands for the first group of the pattern
    that is part of the message.
    """

    pattern: str
    reason: Prose = ""
    advice: Prose = ""


@dataclass(frozen=True)
class Construct:
    """A statement, an expression or an operator that a kernel cannot have."""

    name: str
    advice: Prose


@dataclass(frozen=True)
class Tables:
    """The contents of fixes.toml.

    Attributes:
        rule: rules for messages that contain all that a fix needs.
        constant: rules for values that the compiler has to know.
        statement, operator: what a kernel cannot have, by the class of its node.
        python: advice for Python's functions, by name.
        function: what a kernel writes for functions of torch, NumPy and math, by name.
    """

    rule: tuple[WordedRule, ...]
    constant: tuple[WordedRule, ...]
    statement: Mapping[str, Construct]
    operator: Mapping[str, Construct]
    python: Mapping[str, Prose]
    function: Mapping[str, str]


TABLES: Tables = read_data_file(Path(__file__).with_name("fixes.toml"), Tables)


Rule = Callable[[Refusal, "re.Match[str]"], "Fix | None"]

_RULES: list[tuple[re.Pattern[str], Rule]] = []


def rule(pattern: str) -> Callable[[Rule], Rule]:
    """Register a rule for messages that match a pattern; it may decline by None."""

    def register(function: Rule) -> Rule:
        _RULES.append((re.compile(pattern, re.S), function))
        return function

    return register


def fix_of(refusal: Refusal) -> Fix | None:
    """The first rule's answer, or None if no rule knows the message."""
    for pattern, function in _RULES:
        if match := pattern.search(refusal.words):
            with suppress(Exception):  # of a rule: Triton's own message is still to be reported
                if fix := function(refusal, match):
                    return fix
    return None


# Try what a fix says to write: put it into the source, and have the front end compile that.

_MOST = 6
"""The most places where a fix is tried."""

_NOT_VARIABLES = frozenset({"tl", "torch", "np", "numpy", "math", "triton", *dir(builtins)})

Attempt = Callable[[Any], object]
"""Compiles a variant of the kernel; raises what the front end raises."""


def tried_change(refusal: Refusal, advice: str, attempt: Attempt) -> tuple[Change, ...] | None:
    """Return the change that an advice asks for, if the front end takes the kernel with it.

    Returns:
        The change; () if the front end refuses all that the advice may mean; None if the advice is
        not an expression to write in place of one of the kernel's.
    """
    source = str(refusal.function.src)
    sources = list(_sources(refusal, advice, source))[:_MOST]
    for changed in sources:
        with suppress(Exception):  # the front end's, of a change that does not help
            attempt(with_source(refusal.function, changed))
            return changes_between(source, changed, definition_of(refusal.function).line)
    return () if sources else None


def first_that_helps(
    refusal: Refusal, fix: Fix, attempt: Attempt
) -> tuple[str, tuple[Change, ...]] | None:
    """Return the first fix of `attempts` that the front end takes, with its change."""
    source = str(refusal.function.src)
    for attempted in fix.attempts:
        with suppress(Exception):  # the front end's, of a change that does not help
            loosened = [attempted.unspecialized] if attempted.unspecialized else []
            attempt(with_source(refusal.function, attempted.source, loosened))
            first = definition_of(refusal.function).line
            return attempted.advice, changes_between(source, attempted.source, first)
    return None


def _sources(refusal: Refusal, advice: str, source: str) -> Iterator[str]:
    """Yield the source with the advised expression in place of one with the same variables."""
    code = _code(advice)
    if code is None or not isinstance(refusal.node, ast.AST):
        return
    wanted = _names(ast.parse(code))
    nodes = [*refusal.nodes(), *refusal.around()]
    is_expression = isinstance(ast.parse(code).body[0], ast.Expr)
    kinds = ast.expr | ast.Assign | ast.AugAssign if is_expression else ast.Assign | ast.If
    for node in nodes:
        if isinstance(node, kinds) and _names(node) == wanted:
            text = ast.get_source_segment(source, node)
            if text and text != code and source.count(text) == 1:
                yield source.replace(text, code)


def _code(advice: str) -> str | None:
    """Return the expression or assignment that an advice says to write."""
    for end in (match.end() for match in re.finditer(r"[.;,](?: |$)|$", advice)):
        match = re.search(r"\bWrite (.+)$", advice[:end].rstrip(" .;,"))
        if match is None:
            continue
        with suppress(SyntaxError, ValueError):
            ast.parse(match[1])
            return match[1]
    return None


def _names(tree: ast.AST) -> frozenset[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - _NOT_VARIABLES)
