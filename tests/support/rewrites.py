"""Rules that make a right kernel wrong: each yields what may stand in place of a syntax node."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_ACCESSES = ("load", "store", "atomic_add")


@dataclass(frozen=True)
class Names:
    """The names of a kernel: pointers to inputs, other sizes, constexprs, and axes of the grid."""

    pointers: tuple[str, ...]
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    axes: frozenset[int]


Rule = Callable[[ast.AST, Names], Iterator[ast.AST]]
RULES: dict[str, Rule] = {}
"""By what the rewritten kernel does wrong."""


def rule(name: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return register


def rewritten(text: str, names: Names) -> Iterator[tuple[str, str]]:
    """Yield each wrong kernel of a text with its name, such as "half a mask: before -> after"."""
    tree = ast.parse(text)
    seen: dict[str, int] = {}
    for place in list(_places(tree)):
        before = place.get()
        for label, apply in RULES.items():
            for after in apply(before, names):
                names_of = [_short(before), _short(after)]
                name = f"{label}: {' -> '.join(dict.fromkeys(names_of))}"
                seen[name] = seen.get(name, 0) + 1
                place.put(after)
                yield name if seen[name] == 1 else f"{name} ({seen[name]})", ast.unparse(tree)
                place.put(before)
    if {0, 1} <= names.axes:
        marked = text.replace("program_id(0)", "program_id(?)").replace("id(1)", "id(0)")
        yield "swapped program ids", ast.unparse(ast.parse(marked.replace("id(?)", "id(1)")))


@dataclass(frozen=True)
class _Place:
    """A place in a tree: a field of a node, or an element of a field."""

    parent: ast.AST
    field: str
    index: int | None

    def get(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        node: ast.AST = value if self.index is None else value[self.index]
        return node

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def _places(tree: ast.AST) -> Iterator[_Place]:
    """Yield the places of statements and expressions, apart from signatures and decorators."""
    for field, value in ast.iter_fields(tree):
        if field in ("args", "decorator_list") and isinstance(tree, ast.FunctionDef):
            continue
        nodes = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, node in nodes:
            if isinstance(node, ast.stmt | ast.expr | ast.keyword):
                yield _Place(tree, field, index)
                yield from _places(node)


def _short(node: ast.AST) -> str:
    """Return a node as text; of an access to memory, only where it goes."""
    call = _called(node, *_ACCESSES)
    return ast.unparse(node if call is None else ast.Call(call.func, call.args[:1], []))


def _called(node: ast.AST, *functions: str) -> ast.Call | None:
    """Return a call of one of these functions of triton.language; None for other nodes."""
    if isinstance(node, ast.Call):
        module, _, name = ast.unparse(node.func).rpartition(".")
        return node if module in ("tl", "gl") and name in functions else None
    return None


def _call(
    call: ast.Call, args: Sequence[ast.expr] | None = None, without: tuple[str, ...] = ()
) -> ast.Call:
    """Return a call with other arguments, or without some keywords."""
    keywords = [keyword for keyword in call.keywords if keyword.arg not in without]
    return ast.Call(call.func, list(call.args if args is None else args), keywords)


def _read(text: str, **parts: ast.AST) -> ast.expr:
    class Filling(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return parts.get(node.id, node)

    expression: ast.expr = Filling().visit(ast.parse(text, mode="eval").body)
    return expression


def _is_name(node: ast.AST, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


@rule("dropped mask")
def _dropped_mask(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, *_ACCESSES)
    if call is not None and any(keyword.arg == "mask" for keyword in call.keywords):
        yield _call(call, without=("mask", "other"))


@rule("half a mask")
def _half_a_mask(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield node.left
        yield node.right


_NEIGHBORS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


@rule("bound")
def _bound(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _NEIGHBORS:
        yield ast.Compare(node.left, [_NEIGHBORS[type(node.ops[0])]()], node.comparators)
        yield ast.Compare(node.left, node.ops, [_read("it - 1", it=node.comparators[0])])


@rule("missing other")
def _missing_other(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, "load")
    if call is not None and any(keyword.arg == "other" for keyword in call.keywords):
        yield _call(call, without=("other",))


@rule("wrong other")
def _wrong_other(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.keyword) and node.arg == "other":
        value = "1" if ast.unparse(node.value) in ("0", "0.0") else "0.0"
        yield ast.keyword("other", _read(value))


@rule("one program's elements")
def _one_program(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if _called(node, "program_id"):
        yield ast.Constant(0)


@rule("other program id")
def _other_axis(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, "program_id")
    if call is not None and isinstance(call.args[0], ast.Constant):
        for axis in sorted(names.axes - {call.args[0].value}):
            yield _call(call, [ast.Constant(axis)])


@rule("wrong stride")
def _wrong_stride(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return
    for kind in (names.sizes, names.constants):
        if _is_name(node.right, kind):
            others = [one for one in kind if one != ast.unparse(node.right)] or names.constants
            for other in others:
                if other != ast.unparse(node.right):
                    yield ast.BinOp(node.left, node.op, ast.Name(other))


@rule("other block")
def _other_block(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign):
        used = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
        for mine in sorted(used & {*names.constants} - {"WIDTH"}):
            for other in names.constants:
                if other not in used and other != "WIDTH":
                    value = _read(ast.unparse(node.value), **{mine: ast.Name(other)})
                    yield ast.Assign(node.targets, value, lineno=0)


@rule("torch inside")
def _torch_inside(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, "arange", "zeros", "sum", "max", "exp", "dot", "where", "sort")
    if call is not None:
        yield ast.Call(_read(f"torch.{ast.unparse(call.func)[3:]}"), call.args, call.keywords)


@rule("hard-coded size")
def _hard_coded(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and _is_name(node.comparators[0], names.sizes):
        yield ast.Compare(node.left, node.ops, [ast.Constant(128)])
    if isinstance(node, ast.BinOp) and _is_name(node.right, names.constants):
        yield ast.BinOp(node.left, node.op, ast.Constant(64))


@rule("off by one")
def _off_by_one(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, *_ACCESSES)
    if call is not None:
        yield _call(call, [_read("it + 1", it=call.args[0]), *call.args[1:]])


@rule("swapped axes")
def _swapped_axes(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.keyword) and node.arg == "axis" and len(names.constants) > 1:
        yield ast.keyword("axis", _read({"0": "1", "1": "0"}[ast.unparse(node.value)]))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = node.left, node.right  # r[:, None] * columns + c[None, :]
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
            if isinstance(left.left, ast.Subscript) and isinstance(right, ast.Subscript):
                yield _read("a + b * c", a=left.left, b=right, c=left.right)


@rule("swapped operands")
def _swapped_operands(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        yield ast.BinOp(node.right, node.op, node.left)
    call = _called(node, "where")
    if call is not None:
        yield _call(call, [call.args[0], call.args[2], call.args[1]])
    call = _called(node, "dot")
    if call is not None:
        yield _call(call, [call.args[1], call.args[0], *call.args[2:]])


@rule("wrong operator")
def _wrong_operator(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    swaps: dict[type[ast.operator], type[ast.operator]] = {
        ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Div: ast.Mult, ast.Mult: ast.Add,
    }  # fmt: skip
    if isinstance(node, ast.BinOp) and type(node.op) in swaps:
        yield ast.BinOp(node.left, swaps[type(node.op)](), node.right)


@rule("missing factor")
def _missing_factor(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from (node.left, node.right)


@rule("missing term")
def _missing_term(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield node.left


@rule("missing division")
def _missing_division(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield node.left
        for constant in names.constants:  # the mean over the block and not over the row
            if _is_name(node.right, names.sizes):
                yield ast.BinOp(node.left, node.op, ast.Name(constant))


@rule("wrong constant")
def _wrong_constant(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        for side in ("left", "right"):
            number = getattr(node, side)
            if isinstance(number, ast.Constant) and isinstance(number.value, int | float):
                other = ast.Constant(number.value + 1)
                yield ast.BinOp(
                    other if side == "left" else node.left,
                    node.op,
                    other if side == "right" else node.right,
                )


@rule("no carry")
def _no_carry(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=0)
    call = _called(node, "dot")
    if call is not None and len(call.args) == 3:
        yield _call(call, call.args[:2])


@rule("blocks of a loop")
def _blocks(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "range":
        return
    if len(node.args) == 1:
        for text in ("range(1)", "range(1, end)", "range(end - 1)"):
            yield _read(text, end=node.args[0])
        return
    start, end, step = node.args
    for text in (
        "range(start, start + step, step)",
        "range(start + step, end, step)",
        "range(start, end - step, step)",
        "range(start, end, 2 * step)",
        "range(start, end - end % step, step)",
    ):
        yield _read(text, start=start, end=end, step=step)


@rule("eps")
def _eps(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _called(node, "rsqrt")
    if call is not None and isinstance(call.args[0], ast.BinOp) and "eps" in names.sizes:
        yield _read("tl.rsqrt(it)", it=call.args[0].left)
        yield _read("1.0 / (tl.sqrt(it) + eps)", it=call.args[0].left)
        yield _read("tl.rsqrt(it + 1e-05)", it=call.args[0].left)


@rule("no maximum")
def _no_maximum(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if _called(node, "max"):
        yield _read("it * 0.0", it=node)
    call = _called(node, "maximum")
    if call is not None:
        yield from call.args


@rule("narrow accumulator")
def _narrow(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    narrow = "it.to(tl.float16).to(tl.float32)"
    call = _called(node, "dot", "sum", "cumsum")
    if call is not None:
        yield _read(narrow, it=call)
    if isinstance(node, ast.AugAssign):
        value = _read(
            "(it + value).to(tl.float16).to(tl.float32)", it=node.target, value=node.value
        )
        yield ast.Assign([node.target], value, lineno=0)
    call = _called(node, "store")
    if call is not None and not ast.unparse(call.args[1]).startswith("tl.arg"):
        yield _call(call, [call.args[0], _read(narrow, it=call.args[1])])


_FUNCTIONS = {
    "sum": ("max",), "max": ("min", "sum"), "maximum": ("minimum",), "minimum": ("maximum",),
    "exp": ("exp2",), "log": ("log2",), "rsqrt": ("sqrt",), "sigmoid": ("exp",),
    "argmax": ("argmin",),
}  # fmt: skip


@rule("wrong function")
def _wrong_function(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    for other in _FUNCTIONS.get(node.func.attr, ()):
        yield ast.Call(ast.Attribute(node.func.value, other), node.args, node.keywords)
    if _called(node, "cumsum", "sort", "trans"):
        yield node.args[0]
    if _called(node, "sort"):
        yield _read("tl.sort(it, descending=True)", it=node.args[0])
    if _called(node, "atomic_add"):
        yield ast.Call(ast.Attribute(node.func.value, "store"), node.args, node.keywords)


@rule("other input")
def _other_input(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if _is_name(node, names.pointers):
        for other in names.pointers:
            if other != ast.unparse(node):
                yield ast.Name(other)


@rule("missing statement")
def _missing_statement(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.AugAssign) or _called(getattr(node, "value", node), *_ACCESSES[1:]):
        if isinstance(node, ast.stmt):
            yield ast.Pass()


_ORDERING = (
    r"\.(wait|wait_group|commit_group|store_wait|expect|arrive|init)$|^fence_|_store$|_load$"
)


def _method(node: ast.AST, *names: str) -> ast.Call | None:
    """Return a call of `module.NAME`; None for other nodes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node if node.func.attr in names else None
    return None


@rule("missing operation")
def _missing_operation(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if re.search(_ORDERING, ast.unparse(node.value.func)):
            yield ast.Pass()


@rule("wrong count")
def _wrong_count(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _method(node, "wait_group", "store_wait")
    if call is not None:
        yield _call(call, [_read("it + 1", it=call.args[0])])
    if isinstance(node, ast.keyword) and node.arg == "count":
        yield ast.keyword("count", _read("it + 1", it=node.value))


@rule("wrong phase")
def _wrong_phase(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _method(node, "wait")
    if call is not None and len(call.args) == 2:
        yield _call(call, [call.args[0], _read("it ^ 1", it=call.args[1])])


@rule("wrong bytes")
def _wrong_bytes(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    call = _method(node, "expect")
    if call is not None:
        yield _call(call, [call.args[0], _read("it // 2", it=call.args[1])])


@rule("a stage too few")
def _too_few_stages(node: ast.AST, names: Names) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        yield _read("it % (stages - 1)", it=node.left, stages=node.right)
