"""Rules for tiles whose shapes do not fit, and for values of a type that is not taken."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import triton
import triton.language as tl

from kernellab.common.text import counted
from kernellab.errors.exceptions import nearest
from kernellab.triton_api.fixes.rules import (
    Fix,
    Refusal,
    is_pointer,
    is_tile,
    kind_of,
    one_as_number,
    rule,
    scalar_of,
    shape_of,
    sizes_text,
)


@rule(r"(lhs|rhs)_scale must be a tensor of shape \[(?:\.\.\., )?(\d+), (\d+)\]\. Got \[(.*)\]")
def _scales(_: Refusal, match: re.Match[str]) -> Fix:
    """The scales of `tl.dot_scaled`: how many numbers one of them stands for."""
    rows, groups = int(match[2]), int(match[3])
    given = [int(size) for size in re.findall(r"\d+", match[4])][-2:]
    reason = (
        "A scale stands for 32 numbers along K if it is uint8 (e8m0), and for 16 if it is "
        f"float8e4nv. For these operands, {match[1]}_scale needs the shape [{rows}, {groups}]."
    )
    if given == [rows, 2 * groups]:
        reason += " Its shape is right for float8e4nv, and its type is uint8."
    elif given == [groups, rows]:
        reason += " Its rows and columns are swapped."
    elif 2 * given[-1] == groups:
        reason += " Its shape is right for uint8, and its type is float8e4nv."
    return Fix(reason, "", replaces=False)


@rule(r"incompatible dimensions at index (\d+): (\d+) and (\d+)")
def _incompatible(refused: Refusal, match: re.Match[str]) -> Fix:
    held = [(name, refused.scope.get(name)) for name in refused.names()]
    shapes = [f"{name} is {kind_of(value)}" for name, value in held if is_tile(value)][:3]
    listed = " and ".join(shapes) if shapes else f"{match[2]} and {match[3]}"
    return Fix(
        f"the tiles do not fit: {listed} (axis {match[1]} has {match[2]} and {match[3]} elements).",
        "Two axes fit if their sizes are equal or one is 1. x[:, None] makes a tile a column, "
        "x[None, :] a row.",
    )


@rule(r"Cannot broadcast, rank mismatch|Cannot broadcast, the expanded size of the tensor")
def _broadcast(refused: Refusal, _: re.Match[str]) -> Fix:
    source, wanted = refused.known("src_shape"), refused.known("shape")
    return Fix(
        f"a tile of {sizes_text(source)} cannot be broadcast to a tile of {sizes_text(wanted)}.",
        "Only axes of 1 element are broadcast: add one with x[:, None] or x[None, :].",
    )


@rule(r"permute dims must have the same length as input shape(?:, got (\d+) and (\d+))?")
def _permuted(refused: Refusal, match: re.Match[str]) -> Fix:
    if match[1]:
        axes, named = int(match[1]), int(match[2])
    else:  # Triton 3.6 does not say how many
        axes, named = len(refused.known("input").shape), len(refused.known("dims"))
    name = next(iter(refused.names()), "x")
    return Fix(
        f"the call names {named} axes of a tile that has {axes} {'axis' if axes == 1 else 'axes'}.",
        f"Name each axis once. {name}[:, None] makes a column of a tile of one axis.",
    )


@rule(r"'<=' not supported between instances of 'int' and 'NoneType'")
def _flipped(refused: Refusal, _: re.Match[str]) -> Fix | None:
    fix = Fix("tl.flip needs the axis along which it reverses.", "Pass it: tl.flip(x, 0).")
    return fix if "flip(" in refused.text() else None


@rule(r"reshape\(\) cannot change total number of elements")
def _reshape(refused: Refusal, _: re.Match[str]) -> Fix | None:
    if "topk(" in refused.text():
        return None  # Its k is larger than the tile, which a rule in values.py says.
    tile = refused.known("input")
    wanted = refused.known("dst_shape") or refused.known("shape")
    return Fix(
        f"{kind_of(tile)} cannot have the shape {sizes_text(wanted)}.",
        "Both shapes must have the same number of elements.",
    )


@rule(r"invalid axis (-?\d+)\. Expected -?\d+ <= axis < (\d+)")
@rule(r"^invalid axis (-?\d+)()$")
def _axis(_: Refusal, match: re.Match[str]) -> Fix:
    count = int(match[2]) if match[2] else None
    axes = "the axis 0" if count == 1 else f"the axes 0 to {(count or 2) - 1}"
    held = f"the tile has {axes}" if count else "the tile has fewer axes"
    return Fix(f"{held}, but axis is {match[1]}.", f"Write axis={(count or 1) - 1}.")


@rule(r"input and other must have equal reduction dimensions|First input shape \(")
def _dot_shapes(refused: Refusal, _: re.Match[str]) -> Fix:
    a, b = _dot_operands(refused)
    if len(shape_of(a)) < 2 or len(shape_of(b)) < 2:
        return Fix("the tiles of tl.dot do not fit.", _DOT_ADVICE)
    left, right = shape_of(a), shape_of(b)
    advice = _DOT_ADVICE
    if left[-1] == right[-1]:
        advice = f"Transpose the second: tl.dot(a, tl.trans(b)) gives {left[-2]} x {right[-2]}."
    return Fix(
        f"tl.dot of {sizes_text(left)} and {sizes_text(right)}: the first has {left[-1]} "
        f"columns, the second {right[-2]} rows.",
        advice,
    )


_DOT_ADVICE = "tl.dot takes tiles of M x K and K x N: as many columns as the other has rows."


def _dot_operands(refused: Refusal) -> tuple[Any, Any]:
    first = next((refused.known(n) for n in ("lhs", "input") if refused.known(n) is not None), None)
    second = next((refused.known(n) for n in ("rhs", "other") if refused.known(n) is not None), 0)
    return first, second


@rule(r"input and other must have equal ranks >= 2|Both inputs must be either 2D or 3D")
def _dot_ranks(refused: Refusal, _: re.Match[str]) -> Fix:
    a, b = _dot_operands(refused)
    flat = len(shape_of(a)) == len(shape_of(b)) == 1
    return Fix(
        f"tl.dot takes two tiles of two axes each, got {kind_of(a)} and {kind_of(b)}.",
        "Write tl.sum(a * b, axis=0) for the product of two rows."
        if flat
        else "Load rows and columns: ptr + rows[:, None] * stride + columns[None, :].",
    )


@rule(r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)")
def _dot_small(refused: Refusal, match: re.Match[str]) -> Fix:
    a, b = _dot_operands(refused)
    return Fix(
        f"tl.dot takes tiles of at least {match[1]} x {match[3]} and {match[3]} x {match[2]} here, "
        f"got {sizes_text(shape_of(a))} and {sizes_text(shape_of(b))}.",
        "Load larger tiles with a mask and other=0.0, or multiply and add: "
        "tl.sum(a[:, :, None] * b[None, :, :], axis=1).",
    )


@rule(r"unsupported tensor index: (.+)")
def _index(refused: Refusal, _: re.Match[str]) -> Fix:
    written, indexed = "the tile", None
    if isinstance(refused.node, ast.Subscript):
        written = refused.text(refused.node.value, 24) or written
        indexed = refused.scope.get(written)
    if indexed is not None and not is_tile(indexed):
        return Fix(
            f"{written} is {kind_of(indexed)}; {written}[...] does not load from it.",
            f"Write tl.load({written} + offset).",
        )
    return element_of_tile(written)


def element_of_tile(written: str) -> Fix:
    """What to write instead of `x[k]` of a tile."""
    return Fix(
        f"elements of {written} cannot be indexed with [ ]: a tile is in the registers of many "
        "threads. [:, None] and [None, :] add axes.",
        f"Load only the part that you need, or pick one element by "
        f"tl.sum(tl.where(offsets == k, {written if written.isidentifier() else 'x'}, 0), axis=0).",
    )


@rule(r"Shape element (\d+) must be a power of 2")
def _size_of_axis(refused: Refusal, match: re.Match[str]) -> Fix | None:
    shape = refused.known("shape")
    sizes = [getattr(size, "value", size) for size in shape or ()]
    if len(sizes) <= int(match[1]) or not isinstance(sizes[int(match[1])], int):
        return None
    size = sizes[int(match[1])]
    return Fix(
        f"axis {match[1]} has {size} elements.",
        f"Use {triton.next_power_of_2(size)}, and mask the elements from {size} on.",
    )


@rule(r"invalid operands of type (?P<one>\S+) and (?P<other>\S+)")
@rule(r"^TypeError: unexpected type (?P<one>\S+) and (?P<other>\S+)")
@rule(r"cannot cast (?P<one>pointer<\S+>\S*) to (?P<other>\S+)")
def _operands(refused: Refusal, match: re.Match[str]) -> Fix | None:
    if not isinstance(refused.node, (ast.BinOp, ast.Compare, ast.AugAssign, ast.Call)):
        return None
    named = refused.names()
    pointers = [name for name in named if is_pointer(refused.scope.get(name))]
    if not pointers:
        return _bits(refused)
    node, sides = refused.node, (match["one"], match["other"])
    is_float = any(side.startswith(("fp", "triton.language.float", "float")) for side in sides)
    others = [name for name in named if name not in pointers and _is_float(refused, name)]
    right = getattr(node, "right", None)
    added = refused.names(right) if isinstance(right, ast.AST) else []
    pointer = next((name for name in added if name in pointers), pointers[0])
    is_moved = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and is_float
    if is_moved and pointer not in added:
        what = others[0] if others else "the offset"
        kind = kind_of(refused.scope[what]) if what in refused.scope else "a float"
        return Fix(
            f"{what} is {kind}, and an address moves by whole elements.",
            "Compute offsets in integers (// for /), or convert them: .to(tl.int32).",
        )
    return _pointer_as_number(refused, pointer)


def _bits(refused: Refusal) -> Fix | None:
    operator = getattr(refused.node, "op", None)
    sign, instead = _OF_BITS.get(type(operator), ("", ""))
    floats = [name for name in refused.names() if _is_float(refused, name)]
    if not sign or not floats:
        return None
    held = f"{floats[0]} is {kind_of(refused.scope[floats[0]])}"
    return Fix(f"{sign} works on the bits of integers, and {held}.", instead.format(floats[0]))


_COMPARED = "Between conditions, compare first: (a > 0) {} (b > 0)."
_OF_BITS: dict[type, tuple[str, str]] = {
    ast.BitXor: ("^", "A power is a product: {0} * {0}."),
    ast.BitAnd: ("&", _COMPARED.format("&")),
    ast.BitOr: ("|", _COMPARED.format("|")),
    ast.LShift: ("<<", "Multiply by a power of two: {0} * 4.0."),
    ast.RShift: (">>", "Divide by a power of two: {0} / 4.0."),
}


@rule(r"(?:^|TypeError: )(\w+)\(\) missing \d+ required positional arguments?: (.+)$")
def _too_few(refused: Refusal, match: re.Match[str]) -> Fix | None:
    """`tl.arange(BLOCK)`, `tl.program_id()`."""
    name = match[1]
    if name == "arange":
        end = refused.text(getattr(refused.node, "args", [None])[0]) or "BLOCK"
        return Fix("tl.arange takes a start and an end.", f"Write tl.arange(0, {end}).")
    if name in ("program_id", "num_programs"):
        return Fix("a grid has up to three axes.", f"Write tl.{name}(0) for the first.")
    if match[2] == "'dtype'":  # of tl.zeros on Triton 3.6: `_missing_argument` says more
        return None
    taken = ", ".join(_parameters(getattr(tl, name, None)))
    return Fix("", f"tl.{name} takes {taken}.") if taken else None


def _pointer_as_number(refused: Refusal, pointer: str) -> Fix:
    """An address where a number is due: arguments in the wrong order, or a load left out."""
    numbers = [
        name
        for name in refused.function.arg_names
        if _looks_like_pointer(name) and not is_pointer(refused.scope.get(name, refused))
        if name in refused.scope
    ]
    reason = f"{pointer} is {kind_of(refused.scope[pointer])}, and is used here as a number."
    order = ", ".join(refused.function.arg_names)
    if numbers and refused.is_parameter(pointer):
        return Fix(
            f"{reason[:-1]}; {numbers[0]} is {kind_of(refused.scope[numbers[0]])}.",
            f"The launch passes its arguments in a different order than {order}.",
        )
    offsets = " + offsets" if refused.is_parameter(pointer) else ""
    advice = f"Load what it points to: tl.load({pointer}{offsets}, mask=...)."
    if refused.is_parameter(pointer) and not _looks_like_pointer(pointer):
        advice += f" Or the launch gives a tensor for {pointer}: the order is {order}."
    return Fix(reason, advice)


def _looks_like_pointer(name: str) -> bool:
    return name.lower().endswith(("ptr", "pointer", "_p"))


def _is_float(refused: Refusal, name: str) -> bool:
    scalar = scalar_of(refused.scope.get(name))
    return scalar is not None and bool(scalar.is_floating())


@rule(r"cannot add pointers together")
def _pointers_added(refused: Refusal, _: re.Match[str]) -> Fix:
    pointers = [name for name in refused.names() if is_pointer(refused.scope.get(name))]
    loads = " + ".join(f"tl.load({name} + offsets)" for name in pointers[:2])
    return Fix(
        f"{' and '.join(pointers[:2]) or 'both'} are addresses, and two addresses have no sum.",
        f"Load what they point to: {loads}." if loads else "Add offsets to an address.",
    )


@rule(r"Unsupported ptr type (.+?) in `tl\.(\w+)`")
@rule(r"Pointer argument of (store|load) instruction is (.+)")
def _no_pointer(refused: Refusal, match: re.Match[str]) -> Fix:
    pointer = refused.known("ptr") or refused.known("pointer")
    operation = next(word for word in match.groups() if word.isidentifier())
    first = getattr(refused.node, "args", [None])[0]
    written = refused.text(first) if first is not None else ""
    parameters = [name for name in refused.names() if refused.is_parameter(name)]
    what = f"{written or 'its first argument'} is {kind_of(pointer)}"
    if (swapped := _swapped(refused)) is not None:
        return Fix(f"tl.{operation} takes a pointer first, and {what}.", f"Write {swapped}.")
    advice = "It is made by a tensor of the launch and offsets: x_ptr + offsets."
    if parameters:
        order = ", ".join(refused.function.arg_names)
        advice = f"Pass a tensor for {parameters[0]}: the parameters of the kernel are {order}."
    return Fix(f"tl.{operation} takes a pointer, and {what}.", advice)


def _swapped(refused: Refusal) -> str | None:
    """The refused store with its first two arguments swapped, if the second is a pointer."""
    given = getattr(refused.node, "args", [])
    if len(given) < 2 or not any(
        is_pointer(refused.scope.get(name)) for name in refused.names(given[1])
    ):
        return None
    value, address = (refused.text(argument, 32) for argument in given[:2])
    more = ", ..." if given[2:] or getattr(refused.node, "keywords", []) else ""
    return f"tl.store({address}, {value}{more})" if value and address else None


@rule(r"^TypeError: \w+\(\) missing 1 required positional argument: '(\w+)'$")  # Triton 3.6
@rule(r"^TypeError: missing a required argument: '(\w+)'")
def _missing_argument(refused: Refusal, match: re.Match[str]) -> Fix | None:
    call = next((node for node in refused.nodes() if isinstance(node, ast.Call)), None)
    function = refused.text(call.func) if call is not None else ""
    if not function:
        return None
    written = refused.text(call)
    advice = f"Pass it: {function}(..., {match[1]}=...)."
    if match[1] == "dtype" and written:
        advice = f"Write {written[:-1].rstrip(', ')}, dtype=tl.float32), or another type."
    return Fix(f"{function} is missing the argument {match[1]}.", advice, replaces=True)


@rule(r"Unsupported (?P<side>lhs|rhs) dtype (?P<type>\S+)|only int8 supported")
def _dot_type(refused: Refusal, match: re.Match[str]) -> Fix:
    kind = match["type"] or "these types"
    side = _argument(refused, 1 if match["side"] == "rhs" else 0)
    return Fix(
        f"tl.dot does not multiply {kind}: it takes int8, fp8, fp16, bf16, fp32 and fp64.",
        f"Convert before it, such as {side}.to(tl.float32), or multiply and add: "
        "tl.sum(a[:, :, None] * b[None, :, :], axis=1).",
    )


@rule(r"^AssertionError$")
def _dot_sum(refused: Refusal, _: re.Match[str]) -> Fix | None:
    """`tl.dot(a, b, acc)` with an `acc` of another type than the result."""
    acc, due = refused.known("acc"), refused.known("ret_ty")
    if not is_tile(acc) or not isinstance(due, tl.block_type):
        return None
    kind, call = str(due.scalar), refused.text(limit=100)
    if str(refused.known("out_dtype")) == kind:
        option = ""
    elif str(acc.type.scalar) == kind and call.endswith(")") and "out_dtype" not in call:
        return Fix(
            f"tl.dot gives {kind} here, and its out_dtype is {refused.known('out_dtype')}.",
            f"Write {call[:-1]}, out_dtype={_tl(kind)}).",
        )
    else:
        option = f", and pass out_dtype={_tl(kind)}"
    zeros = f"tl.zeros(({', '.join(map(str, due.shape))}), {_tl(kind)})"
    return Fix(
        f"tl.dot adds to a tile of {sizes_text(due.shape)} {kind} here, and its third "
        f"argument is {kind_of(acc)}.",
        f"Begin with {zeros}{option}; the stored value may be narrower.",
    )


def _argument(refused: Refusal, index: int) -> str:
    """An argument of the refused call, as it is written, or a letter for it."""
    given = getattr(refused.node, "args", [])
    text = refused.text(given[index], 20) if index < len(given) else ""
    return text if text.isidentifier() else "ab"[index]


@rule(r"Mask must have boolean scalar type")
@rule(r"'tt\.(?:load|store)' op operand #\d must be 1-bit signless integer")
def _mask_type(refused: Refusal, _: re.Match[str]) -> Fix:
    mask = refused.known("mask")
    held = f", and this one is {kind_of(mask)}" if mask is not None else ""
    return Fix(
        f"a mask has a boolean for each element{held}.",
        "Write a comparison: mask=offsets < n, or mask=values != 0.",
    )


@rule(r"Value argument cannot be block type if pointer argument is not a block")
def _tile_to_scalar(refused: Refusal, _: re.Match[str]) -> Fix:
    given = getattr(refused.node, "args", [])
    pointer = refused.text(given[0]) if given else ""
    value = refused.known("val") or refused.known("value")
    offsets = _offsets_of(refused, value)
    return Fix(
        f"{kind_of(value)} cannot be stored to the single address {pointer or 'of the pointer'}.",
        f"Pass an address for each element, {pointer or 'ptr'} + {offsets}, or reduce the tile "
        "first: tl.sum(...).",
    )


@rule(r"(?:Mask|Other) argument cannot be block type if pointer argument is not a block")
def _mask_of_scalar(refused: Refusal, _: re.Match[str]) -> Fix:
    given = getattr(refused.node, "args", [])
    pointer = refused.text(given[0]) if given else ""
    mask = refused.known("mask")
    return Fix(
        f"the mask is {kind_of(mask)}, and {pointer or 'the pointer'} is one address.",
        f"Add the offsets to it: {pointer or 'ptr'} + {_offsets_of(refused, mask)}.",
    )


def _offsets_of(refused: Refusal, tile: Any) -> str:
    """A variable of the kernel with integers in the shape of a tile; "offsets" if none is."""
    if is_tile(tile):
        for name, value in refused.scope.items():
            if is_tile(value) and value.type.shape == tile.type.shape:
                if value.type.scalar.is_int() and not value.type.scalar.is_bool():
                    return name
    return "offsets"


@rule(r"Expected dtype \[(.+?)\] but got (\S+)")
def _function_of_type(refused: Refusal, match: re.Match[str]) -> Fix:
    wanted = " or ".join(match[1].replace("'", "").rsplit(", ", 1))
    name = refused.text(getattr(refused.node, "func", None)) or "it"
    argument = _argument(refused, 0)
    argument = argument if argument in refused.scope else "x"
    return Fix(
        f"{name} takes {wanted}, got {match[2]}.",
        f"Convert first: {argument}.to(tl.float32).",
    )


@rule(r"Loop-carried variable (\w+) has initial type (.+?) but is re-assigned to (.+?) in loop")
def _loop_carried(refused: Refusal, match: re.Match[str]) -> Fix:
    name = match[1]
    before, after = refused.known("live_val"), refused.known("loop_val")
    types = [getattr(value, "type", value) for value in (before, after)]
    if before is None or after is None:
        return Fix(
            f"{name} is {match[2]} before the loop and {match[3]} after an iteration.", _ONE_TYPE
        )
    return Fix(
        f"{name} is {kind_of(types[0])} before the loop and {kind_of(types[1])} after it.",
        f"Give it that type before the loop: {name} = {_beginning(types[1])}.",
    )


_ONE_TYPE = "Give it the type and shape that it has after an iteration before the loop."


def _beginning(kind: Any) -> str:
    scalar = kind.scalar
    if scalar.is_ptr():
        return "a pointer of that shape"
    if hasattr(kind, "shape") and kind.is_block():
        sizes = "".join(f"{size}, " for size in kind.shape)
        sizes = sizes if len(kind.shape) == 1 else sizes[:-2]
        return f"tl.zeros(({sizes.rstrip() if len(kind.shape) == 1 else sizes}), {_tl(scalar)})"
    return "0.0" if str(scalar) == "fp32" else f"tl.zeros((), {_tl(scalar)})"


def _tl(scalar: Any) -> str:
    words = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    return f"tl.{words.get(str(scalar), str(scalar))}"


@rule(r"Mismatched type for (\w+) between then block \((.+?)\) and else block \((.+?)\)")
@rule(r"initial value for `(\w+)` is of type (.+?), but the \w+ block redefines it as (.+)")
def _branches(refused: Refusal, match: re.Match[str]) -> Fix:
    if match[2].strip("<>") == "constexpr[1]":
        fix = one_as_number(refused, match[1], "a branch assigns a number to it")
        if fix is not None:
            return fix
    return Fix(
        f"{match[1]} has different types or shapes after the two branches "
        f"({match[2].strip('<>')} and {match[3].strip('<>')}).",
        f"Give both the same type and shape: .to(...) in one of them, or {match[1]} = "
        "tl.where(condition, a, b) for "
        "tiles.",
    )


@rule(r"got an unexpected keyword argument '(\w+)'")
def _keyword(refused: Refusal, match: re.Match[str]) -> Fix | None:
    function = getattr(refused.node, "func", None)
    name = refused.text(function) if function is not None else ""
    if name == "print":
        return Fix(
            f"print in a kernel takes strings and values, but no {match[1]}=.",
            "Remove it: a kernel writes a line for each program.",
        )
    called = refused.known("fn")
    taken = _parameters(called)
    if not taken:
        return None
    guess = {"dim": "axis", "keepdim": "keep_dims", "keepdims": "keep_dims"}.get(match[1], "")
    advice = f"Did you mean {guess!r}?" if guess in taken else nearest(match[1], taken)
    return Fix(
        f"{name or 'this function'} has no {match[1]}=.",
        f"{advice} It takes {', '.join(taken)}.".strip(),
    )


def _parameters(function: Any) -> list[str]:
    """The parameters of a function of Triton's language, or of a JIT function."""
    names = getattr(function, "arg_names", None)
    if names is None:
        code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
        count = 0 if code is None else code.co_argcount + code.co_kwonlyargcount
        names = () if code is None else code.co_varnames[:count]
    return [name for name in names if not name.startswith("_")]


@rule(r"'tensor_descriptor' object has no attribute 'layout'")
def _descriptor_without_layout(refused: Refusal, _: re.Match[str]) -> Fix:
    """A descriptor of `triton.tools`, or a type string without a layout, for a Gluon kernel."""
    name = next(iter(refused.names()), "")
    return Fix(
        f"{name or 'it'} is a descriptor for a Triton kernel; a Gluon kernel takes one with a "
        "layout of shared memory.",
        "Make it with triton.experimental.gluon.nvidia.hopper.TensorDescriptor.from_tensor(x, "
        "block_shape, layout); a type string is 'tensordesc<fp16[64, 64],LAYOUT>', where LAYOUT is "
        "str(layout).",
        replaces=True,
    )


@rule(r"invalid layout: #ttg\.blocked<\{.*threadsPerWarp = \[(.+?)\], warpsPerCTA = \[(.+?)\]")
def _threads_of_a_layout(_: Refusal, match: re.Match[str]) -> Fix:
    threads, warps = (math.prod(map(int, sizes.split(","))) for sizes in match.groups())
    return Fix(
        f"the layout is for {counted(warps, 'warp')} of {threads} threads, and not for those of "
        "this launch.",
        f"Launch with num_warps={warps}, or make the product of warps_per_cta equal to num_warps, "
        "and that of threads_per_warp to the GPU's 32 (64 on gfx9).",
    )
