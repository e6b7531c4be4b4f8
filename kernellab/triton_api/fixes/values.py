"""Rules for names, constants, and functions of torch, NumPy and Python in a kernel."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import triton
import triton.language as tl

from kernellab.common.text import shown
from kernellab.errors.exceptions import nearest
from kernellab.triton_api.fixes.rules import (
    TABLES,
    Attempted,
    Fix,
    Refusal,
    WordedRule,
    is_pointer,
    is_tile,
    kind_of,
    one_as_number,
    rule,
)
from kernellab.triton_api.functions import definition_of, named_outside, scope_of

_NUMBERS = {"inf": 'float("inf")', "nan": 'float("nan")', "pi": repr(3.141592653589793)}

_FORMS = ("BLOCK", "value", "seed", "offsets")

_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")

_ROOTS = {"torch", "numpy", "math", "scipy", "jax", "cupy", "cmath", "statistics", "random"}


@dataclass(frozen=True)
class ForeignCall:
    """A name of another library's in a kernel."""

    node: ast.AST
    name: str
    """As it is written: "torch.relu"."""
    arguments: tuple[str, ...]
    """As they are written; () if it is not called."""

    @property
    def instead(self) -> str:
        """The spelling in a kernel; "" if there is none."""
        return instead_of(self.name.rpartition(".")[2], self.arguments)


def instead_of(name: str, arguments: tuple[str, ...] = ("x",)) -> str:
    """The spelling in a kernel for a name of torch, NumPy or math; "" if there is none."""
    if name in _NUMBERS:
        return _NUMBERS[name]
    if name in _DTYPES:
        return f"tl.{name}"
    if (form := TABLES.function.get(name)) is None:
        return ""
    short = [text if _is_short(text) else letter for text, letter in zip(arguments, "xyz")]
    return form.format(*short, *"xyz"[len(short) :])


def is_form(written: str) -> bool:
    """Whether something has to be filled in yet."""
    return any(word in written for word in _FORMS)


def _is_short(text: str) -> bool:
    return text.isidentifier() or (len(text) <= 24 and text[:1].isalpha() and text[-1:] == ")")


def foreign_call(function: Any) -> ForeignCall | None:
    """The first name in a JIT function that stands for something of torch's, NumPy's, math's or
    of another library that runs outside kernels; None if there is none.
    """
    tree, source = function.parse(), str(function.src)
    outside = {path[0] for path in named_outside(function)}
    scope = {name: value for name, value in scope_of(function.fn).items() if name in outside}
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))]
    for node in sorted(names, key=lambda n: (n.lineno, n.col_offset, -(n.end_col_offset or 0))):
        value, written = _resolved(node, scope)
        if written and _is_foreign(value, scope, written):
            call = calls.get(id(node))
            given = call.args if call else []
            texts = tuple(ast.get_source_segment(source, argument) or "" for argument in given)
            return ForeignCall(node, written, texts)
    return None


def _resolved(node: ast.AST, scope: dict[str, Any]) -> tuple[Any, str]:
    """What a dotted name stands for, and the name; (None, "") for anything else."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return scope.get(node.id), node.id
    if isinstance(node, ast.Attribute):
        value, written = _resolved(node.value, scope)
        if isinstance(value, ModuleType):
            return getattr(value, node.attr, None), f"{written}.{node.attr}"
    return None, ""


def _is_foreign(value: Any, scope: dict[str, Any], written: str) -> bool:
    """Whether a value is another library's, by the module that it is taken of or defined in."""
    if value is None or isinstance(value, ModuleType):
        return False
    if "." in written:
        root = scope.get(written.partition(".")[0])
        return isinstance(root, ModuleType) and _root(root.__name__) in _ROOTS
    if getattr(builtins, written, None) is value:
        return False
    return _root(getattr(value, "__module__", None) or "") in _ROOTS


def _root(module: str) -> str:
    return module.partition(".")[0]


@rule(r"Unsupported function referenced|^TypeError: must be real number, not tensor")
@rule(r"has no __array_function__|object at .* is not callable|^TypeError: (?:exp|loop of ufunc)")
@rule(r"argument '\w+' \(position \d\) must be Tensor, not tensor|The numpy.*ufunc")
def _foreign_function(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """torch.relu, np.exp, math.sqrt in a kernel."""
    call = foreign_call(refused.function)
    if call is None:
        return None
    reason = f"{call.name} runs in Python, and not in a kernel."
    return Fix(reason, _use(call.instead) or _ONLY_TL, replaces=True)


_ONLY_TL = (
    "A kernel calls functions of triton.language (tl) and of yours that have @triton.jit above "
    "them: compute it from those, or before the launch."
)


def _use(instead: str) -> str:
    """Advice to write something else."""
    if not instead:
        return ""
    return f"Write {instead}" + (" with your values." if is_form(instead) else ".")


@rule(r"module 'triton\.language(?:\.\w+)*' has no attribute '(\w+)'")
def _no_such_function(_: Refusal, match: re.Match[str]) -> Fix:
    known = [name for name in dir(tl) if not name.startswith("_")]
    advice = _use(instead_of(match[1])) or nearest(match[1], known)
    return Fix("", advice or _ONLY_TL)


@rule(r"'tensor' object has no attribute '__r?pow__'")
@rule(r"unsupported operand type\(s\) for \*\*: '\w*tensor")
def _power(refused: Refusal, _: re.Match[str]) -> Fix:
    power = next((n for n in refused.nodes() if isinstance(n, ast.BinOp)), None)
    base = refused.text(power.left, 24) if power else ""
    base = base if base.isidentifier() else "x"
    exponent = power.right.value if power and isinstance(power.right, ast.Constant) else None
    if isinstance(exponent, int) and 2 <= exponent <= 4:
        return Fix(
            "Triton does not support ** for tiles.", f"Write {' * '.join([base] * exponent)}."
        )
    return Fix(
        "Triton does not support ** for tiles.",
        f"Write products ({base} * {base}), or tl.exp2(p * tl.log2({base})) for {base} above 0.",
    )


@rule(r"'tensor' object has no attribute 'values'|cannot unpack non-iterable value")
def _unpacked(refused: Refusal, _: re.Match[str]) -> Fix | None:
    statement = refused.statement()
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
        return None
    written = refused.text(statement.value) or "it"
    return Fix(
        f"{written} is one value and cannot be unpacked into several names.",
        f"tl.split({written}) halves a tile whose last axis has two elements; a function can "
        "return several values: return a, b.",
        replaces=True,
    )


@rule(r"'tensor' object has no attribute '(\w+)'")
def _no_such_method(_: Refusal, match: re.Match[str]) -> Fix:
    known = [name for name in dir(tl.tensor) if not name.startswith("_")]
    advice = nearest(match[1], known)
    if not advice and (instead := instead_of(match[1])):
        advice = f"{_use(instead)[:-1]}, where x is the tile."
    return Fix("", advice or _ONLY_TL)


@rule(r"'str' object has no attribute '(?:type|scalar|dtype)'")
def _type_as_text(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """`x.to("float32")`."""
    texts = (node.value for node in refused.nodes() if isinstance(node, ast.Constant))
    for text in texts:
        if isinstance(text, str) and isinstance(getattr(tl, text, None), tl.dtype):
            return Fix(f"{text!r} is a string, not a type.", f"Write tl.{text}.", replaces=True)
    return None


@rule(r"^TypeError: cannot convert .* of type <class '[\w.]*tuple'> to tensor")
@rule(r"'tuple' object has no attribute '?dtype")
def _tuple_as_number(refused: Refusal, _: re.Match[str]) -> Fix | None:
    for name in refused.names():
        if isinstance(refused.scope.get(name), tl.tuple):
            where = ", or give x.numel() or x.shape[0] at the launch" * refused.is_parameter(name)
            return Fix(
                f"{name} is a tuple, and is used here as a number.",
                f"Write {name}[0] for its first value{where}.",
                replaces=True,
            )
    return None


@rule(r"object (?:'\w+' )?has no attribute '(?:type|scalar|dtype)'|^TypeError: cannot convert ")
@rule(r"Nonrepresentable integer|'torch\.dtype' object has no attribute 'is_ptr'")
def _no_number(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """None, a text, a list, a tensor where a kernel computes with a number."""
    for name in refused.names():
        value = refused.scope.get(name, tl)
        given = value.value if isinstance(value, tl.constexpr) else value
        is_constant = given is None or given is not value
        if not is_constant or (isinstance(given, int | float) and not abs(given) >= 1 << 64):
            continue
        reason = f"{name} must be a tile or a number of at most 64 bits here, got {shown(given)}."
        otherwise = f", or check first: if {name} is not None:" if given is None else "."
        where = (
            f"Pass a number, such as {name}=64"
            if refused.is_parameter(name)
            else f"Use a {'smaller ' * isinstance(given, int | float)}number or a tile"
        )
        return Fix(reason, f"{where}{otherwise}", replaces=True)
    return None


@rule(r"^NameError: (\w+) is not defined")
def _undefined_name(refused: Refusal, match: re.Match[str]) -> Fix:
    name = match[1]
    if name in TABLES.python:
        return Fix("", TABLES.python[name])
    known = [*refused.scope, *refused.function.arg_names, *scope_of(refused.function.fn)]
    guess = nearest(name, [candidate for candidate in known if not candidate.startswith("_")])
    if hasattr(builtins, name):
        guess = guess or _ONLY_TL
    here = ", ".join(dict.fromkeys([*refused.function.arg_names, *refused.scope]))
    if (line := _conditional_line(refused, name)) is not None:
        reason = (
            f"{name} is assigned on line {line}, inside an if or a loop, and nowhere before it."
        )
        return Fix(reason, f"Assign {name} before that, with the type that it gets there.")
    return Fix("", guess or f"Defined names: {here}.")


def _conditional_line(refused: Refusal, name: str) -> int | None:
    """Return the line that assigns a variable inside an if or a loop."""
    start = definition_of(refused.function).line
    for block in ast.walk(ast.parse(str(refused.function.src))):
        for node in ast.walk(block) if isinstance(block, ast.If | ast.For | ast.While) else ():
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
                return start + node.lineno - 1
    return None


@rule(r"Cannot access global variable (\w+) from within @jit'ed")
def _global_variable(refused: Refusal, match: re.Match[str]) -> Fix:
    value = scope_of(refused.function.fn).get(match[1])
    text = repr(value)
    written = f"tl.constexpr({text})" if len(text) <= 24 else "tl.constexpr(...)"
    return Fix(
        f"{match[1]} is a variable of the module, which a kernel may read only as a constant.",
        f"Write {match[1]} = {written} where it is defined, or pass it as an argument.",
    )


def _must_be_constant(refused: Refusal, _: re.Match[str], worded: WordedRule) -> Fix:
    """A value that the compiler has to know, and the parameter that should be a constexpr."""
    why, otherwise = worded.reason, f" {worded.advice}".rstrip()
    part = refused.node.iter if isinstance(refused.node, ast.For) else None
    for name in refused.names(part):
        value = refused.scope.get(name)
        given = value.value if isinstance(value, tl.constexpr) else None
        if isinstance(given, float):
            whole = f"{name}={int(given)}" if given.is_integer() else f"an integer for {name}"
            return Fix(
                f"{name} is {shown(given)}, a float, and a number of elements is whole.",
                f"Pass {whole}: // divides integers, triton.cdiv rounds up.",
            )
    named = [name for name in refused.names(part) if _is_unknown(refused, name)]
    parameters = [name for name in named if refused.is_parameter(name)]
    if not parameters:
        attempts = computed_constant(refused, named[0]) if named else ()
        name = named[0] if named else "NAME"
        if attempts and not any(_is_unknown(refused, each) for each in _sources_of(refused, name)):
            return Fix(f"{why}, but {name} is not a constexpr.", "", attempts=attempts)
        held = f"{name} is computed by the kernel. " if named else ""
        return Fix(f"{why}.", f"{held}Pass it as a parameter, {name}: tl.constexpr.{otherwise}")
    whose = refused.function.__name__
    written = " and ".join(f"{name}: tl.constexpr" for name in parameters)
    are = "are runtime arguments" if len(parameters) > 1 else "is a runtime argument"
    return Fix(
        f"{why}, but {' and '.join(parameters)} {are}.",
        f"Write {written} in the signature of {whose}.{otherwise}",
    )


for _worded in TABLES.constant:
    rule(_worded.pattern)(partial(_must_be_constant, worded=_worded))


def _sources_of(refused: Refusal, name: str) -> list[str]:
    """Return the names that a variable is computed from, if it is assigned once."""
    return [
        node.id
        for each in ast.walk(refused.function.parse())
        if isinstance(each, ast.Assign) and refused.names(each.targets[0]) == [name]
        for node in ast.walk(each.value)
        if isinstance(node, ast.Name) and node.id != "tl"
    ]


def _is_unknown(refused: Refusal, name: str) -> bool:
    """Whether a name is a variable whose value the compiler does not know."""
    value = refused.scope.get(name)
    return value is not None and isinstance(value, tl.tensor)


@rule(r"'dtype' object has no attribute 'numel'|reshape\(\) cannot change total number of elements")
def _topk(refused: Refusal, _: re.Match[str]) -> Fix | None:
    for node in refused.nodes():
        if isinstance(node, ast.Call) and refused.text(node.func).endswith("topk"):
            given = [word.value for word in node.keywords if word.arg == "k"] or node.args[1:2]
            value = refused.scope.get(given[0].id) if isinstance(given[0], ast.Name) else given[0]
            number = getattr(value, "value", None)
            if isinstance(number, int) and (number < 2 or "reshape" in refused.words):
                name = refused.text(given[0]) if isinstance(given[0], ast.Name) else "k"
                reason = (
                    f"{name} of tl.topk must be a power of two from 2 to the size of the last "
                    f"axis, got {number}."
                )
                attempts = tuple(_instead_of_topk(refused, node, number)) if number < 2 else ()
                limit = "2 or more" if number < 2 else "at most the size of the last axis"
                return Fix(reason, f"Pass {limit}.", replaces=True, attempts=attempts)
    return None


def _instead_of_topk(refused: Refusal, call: ast.Call, number: int) -> Iterator[Attempted]:
    source = str(refused.function.src)
    whole = ast.get_source_segment(source, call) or ""
    tile = ast.get_source_segment(source, call.args[0]) or ""
    if number == 1:
        largest = f"tl.max({tile}, axis=-1, keep_dims=True)"
        yield Attempted(f"Write {largest}.", source.replace(whole, largest))
    pair = f"tl.topk({tile}, 2)"
    yield Attempted(f"Write {pair}.", source.replace(whole, pair))


@rule(r"Scalar (\d+) is out of range for type int(\d+)")
def _number_without_sign(refused: Refusal, match: re.Match[str]) -> Fix | None:
    """`bits & 0xFFFF0000` of an int32."""
    number, bits = int(match[1]), int(match[2])
    if number >= 1 << 63:
        return None
    numbers = [node for node in refused.nodes() if isinstance(node, ast.Constant)]
    written = next((refused.text(node) for node in numbers if node.value == number), match[1])
    signed, operator = (1 << bits) - number, getattr(refused.node, "op", None)
    if signed <= 0 or not isinstance(operator, ast.BitAnd | ast.BitOr | ast.BitXor):
        advice = "Convert the other operand before: .to(tl.int64)."
    elif refused.text().count(written) == 1:
        code = refused.text().replace(written, f"-{signed:#x}")
        advice = f"Write {code}, which has the same {bits} bits."
    else:
        advice = f"Use -{signed:#x}, which has the same {bits} bits."
    return Fix(f"the largest int{bits} is {(1 << (bits - 1)) - 1:,}.", advice)


@rule(r"range must be a power of 2")
def _power_of_two(refused: Refusal, _: re.Match[str]) -> Fix | None:
    start, end = (_plain(refused.known(name)) for name in ("start", "end"))
    if start is None or end is None:
        return None
    size = triton.next_power_of_2(end - start)
    bound = next((name for name in refused.names() if refused.is_constant(name)), "")
    mask = "and pass the loads and stores a mask that leaves out the elements from"
    reason = f"the number of elements of a tile must be a power of two, got {end - start}."
    if bound:
        return Fix(
            reason,
            f"Launch with {bound}=triton.next_power_of_2({end - start}), which is {size}, "
            f"{mask} {end - start} on.",
        )
    return Fix(reason, f"Write tl.arange({start}, {start + size}), {mask} {end} on.")


@rule(r"end argument must be greater than the start")
def _empty_range(refused: Refusal, _: re.Match[str]) -> Fix:
    start, end = (_plain(refused.known(name)) for name in ("start", "end"))
    return Fix(
        f"tl.arange({start}, {end}) has no elements.",
        "The first argument is the start, usually 0, and the second the end.",
    )


@rule(r"numel \((\d+)\) exceeds triton maximum tensor numel \((\d+)\)")
def _too_large(_: Refusal, match: re.Match[str]) -> Fix:
    return Fix(
        f"a tile must have at most {int(match[2]):,} elements, got {int(match[1]):,}.",
        "Use a smaller block and more programs, or loop over blocks; 1,024 to 65,536 elements "
        "are common.",
    )


def _plain(value: object) -> int | None:
    value = value.value if isinstance(value, tl.constexpr) else value
    return value if isinstance(value, int) else None


@rule(r"^TypeError: object of type 'tensor' has no len\(\)")
@rule(r"^list index out of range|^IndexError: (?:list|tuple) index out of range")
def _size_of_pointer(refused: Refusal, _: re.Match[str]) -> Fix | None:
    pointer = next((name for name in refused.names() if is_pointer(refused.scope.get(name))), "")
    if not pointer or is_tile(refused.scope[pointer]):
        tile = next((name for name in refused.names() if is_tile(refused.scope.get(name))), "")
        reason = "a kernel has no len()."
        return Fix(reason, f"Write {tile}.shape[0].") if tile and "len()" in refused.words else None
    return Fix(
        f"{pointer} is {kind_of(refused.scope[pointer])}: a kernel does not know the size of a "
        "tensor.",
        f"Pass it: {pointer}.shape[0] at the launch, for a parameter such as n.",
        replaces=True,
    )


@rule(r"'torch\.dtype' object has no attribute|Unexpected dtype torch\.|torch\.\w+ .* dtype")
def _torch_dtype(refused: Refusal, _: re.Match[str]) -> Fix | None:
    call = foreign_call(refused.function)
    if call is None or not call.instead:
        return None
    reason = f"{call.name} is not a type of Triton."
    return Fix(reason, _use(call.instead), replaces=True)


# Constants that a kernel assigns again, or computes: each fix is tried, because which of them the
# front end takes depends on the loop around them.


@rule(r"cannot reassign constexpr (\w+) in the loop|(\w+) is already defined\. constexpr cannot")
def _assigned_again(refused: Refusal, match: re.Match[str]) -> Fix:
    name = match[1] or match[2]
    loop = next((node for node in refused.around() if isinstance(node, ast.For)), None)
    reason = f"A constexpr is assigned once, and {name} is assigned twice."
    if loop is not None:
        unrolled = "static_range" in ast.unparse(loop.iter)
        why = "tl.static_range repeats the body of its loop" if unrolled else "The loop repeats it"
        reason = f"{why}, so that {name} is assigned again, and a constexpr is assigned once."
    return Fix(reason, "", attempts=tuple(_attempts(refused, name, loop)))


@rule(r"Loop carried variable (\w+) changed type, .*tensor'> but is now .*constexpr'>")
def _became_a_constant(refused: Refusal, match: re.Match[str]) -> Fix | None:
    return one_as_number(refused, match[1], "the loop assigns a number to it")


@rule(r"'int' object has no attribute '\w+'|'constexpr' object has no attribute '\w+'")
def _method_of_a_constant(refused: Refusal, _: re.Match[str]) -> Fix | None:
    ones = (name for name in refused.names() if _plain(refused.scope.get(name)) == 1)
    fixes = (one_as_number(refused, name, "a constant has no such method") for name in ones)
    return next((fix for fix in fixes if fix is not None), None)


def _attempts(refused: Refusal, name: str, loop: ast.For | None) -> Iterator[Attempted]:
    statement = refused.statement()
    source = str(refused.function.src)
    if not isinstance(statement, ast.AnnAssign | ast.Assign) or statement.value is None:
        return
    text = ast.get_source_segment(source, statement) or ""
    if loop is not None and not _depends_on(statement.value, loop):
        yield Attempted(f"Move the line {text} above the loop.", _hoisted(source, statement, loop))
    if loop is not None and not any(_uses(statement.value, name)):
        yield Attempted(
            f"Write {ast.unparse(statement.value)} in place of {name} in the loop.",
            _written_out(source, name, statement, loop),
        )
    if isinstance(statement, ast.AnnAssign):
        plain = f"{name} = {ast.get_source_segment(source, statement.value)}"
        yield Attempted(f"Write {plain}, without tl.constexpr.", source.replace(text, plain))
    if loop is None:
        yield Attempted(
            f"Use another name for the second {name}.", _renamed(source, name, statement)
        )


def _depends_on(value: ast.expr, loop: ast.For) -> bool:
    assigned = {
        node.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return any(isinstance(node, ast.Name) and node.id in assigned for node in ast.walk(value))


def _hoisted(source: str, statement: ast.stmt, loop: ast.For) -> str:
    lines = source.splitlines(keepends=True)
    first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
    block = lines[first:last]
    inner, outer = statement.col_offset, loop.col_offset
    moved = [line[min(inner - outer, len(line) - len(line.lstrip(" "))) :] for line in block]
    del lines[first:last]
    if len(loop.body) == 1:
        lines.insert(first, " " * inner + "pass\n")
    lines[loop.lineno - 1 : loop.lineno - 1] = moved
    return "".join(lines)


def _written_out(source: str, name: str, statement: ast.stmt, loop: ast.For) -> str:
    value = ast.get_source_segment(source, statement.value) or ""  # type: ignore[attr-defined]
    return _replaced(source, _uses(loop, name, statement), f"({value})", statement)


def _uses(tree: ast.AST, name: str, but: ast.AST | None = None) -> list[ast.Name]:
    skipped = set() if but is None else set(ast.walk(but))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and node not in skipped
    ]


def _replaced(source: str, nodes: list[ast.Name], text: str, without: ast.stmt | None) -> str:
    """Return the source with expressions of one line replaced, and `pass` for a statement."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    for node in sorted(nodes, key=lambda node: (-node.lineno, -node.col_offset)):
        line = lines[node.lineno - 1]
        end = node.end_col_offset or node.col_offset
        lines[node.lineno - 1] = line[: node.col_offset] + text.encode() + line[end:]
    if without is not None:
        first, last = without.lineno - 1, without.end_lineno or without.lineno
        lines[first:last] = [b" " * without.col_offset + b"pass\n"]
    return b"".join(lines).decode()


def _renamed(source: str, name: str, statement: ast.stmt) -> str:
    tree = ast.parse(source)
    nodes = [
        node
        for node in _uses(tree, name)
        if node.lineno > statement.lineno or node.col_offset == statement.col_offset
        if node.lineno >= statement.lineno
    ]
    return _replaced(source, nodes, f"{name}_2", None)


def computed_constant(refused: Refusal, name: str) -> tuple[Attempted, ...]:
    """Return what may make a constant of a computed variable: its expression, an annotation."""
    source = str(refused.function.src)
    tree = ast.parse(source)
    assigned = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == name
    ]
    if len(assigned) != 1 or refused.statement() is None:
        return ()
    (statement,) = assigned
    value = ast.get_source_segment(source, statement.value) or ""
    text = ast.get_source_segment(source, statement) or ""
    annotated = f"{name}: tl.constexpr = {value}"
    nodes = [
        copy.copy(node) for node in _uses(tree, name, statement) if isinstance(node.ctx, ast.Load)
    ]
    return (
        Attempted(f"Write {annotated}.", source.replace(text, annotated)),
        Attempted(f"Write {value} in place of {name}.", _replaced(source, nodes, value, None)),
    )
