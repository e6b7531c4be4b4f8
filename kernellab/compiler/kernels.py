"""Kernels as users pass them: wrappers of their JIT function, and roles of their parameters."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any, Literal

import triton

from kernellab import triton_api
from kernellab.common.text import called, counted, shown
from kernellab.compiler.arguments import StatedType, annotated_type
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError
from kernellab.records import Target
from kernellab.torch_api import inductor


class InductorKernel(triton_api.JITFunction):  # type: ignore[misc]
    """The function of one of Inductor's kernels. Triton's binder specializes a launch as Inductor
    compiles it: integers have the width that Inductor gave them, and nothing counts as divisible,
    or as 1, that Inductor does not promise.

    Attributes:
        types: parameter -> its type string.
        constants: parameter -> the value compiled in, besides those of its configs.
    """

    def __init__(self, generated: inductor.Generated) -> None:
        self._meta = generated.meta
        self.target: Target = parse_target(f"{generated.backend}:{generated.architecture}")
        self.constants = generated.constants
        self.types = {
            name: f"{type_name}:16" if name in generated.divisible else type_name
            for name, type_name in generated.signature.items()
            if type_name != "constexpr" and name not in generated.constants
        }
        undecided = [name for name in self.types if name not in generated.divisible]
        super().__init__(
            _annotated(generated.function, generated.signature), do_not_specialize=undecided
        )

    def added(self, given: Collection[str]) -> dict[str, Any]:
        """Constants that a call may omit, and does."""
        return {name: value for name, value in self.constants.items() if name not in given}

    def own_grid(self, values: Mapping[str, Any]) -> tuple[int, int, int]:
        """The grid that Inductor launches it on. Raises ArgumentError: each launch states it."""
        if not inductor.has_grid(self._meta):
            raise ArgumentError(
                f"The grid of {self.__name__!r} does not follow from its arguments.",
                advice="Pass the grid that the generated code passes to its run().",
                position=triton_api.definition_of(self),
            )
        return inductor.grid_of(self._meta, values)


def _annotated(function: FunctionType, signature: Mapping[str, str]) -> FunctionType:
    """The function, with annotations for its numbers and constants."""
    twin = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__
    numbers = {name: type for name, type in signature.items() if not type.startswith("*")}
    twin.__annotations__ = {**function.__annotations__, **numbers}
    return twin


_plain: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()
"""For each of Inductor's kernels, its configs, and its form as a Triton kernel."""


def as_triton_kernel(kernel: Any) -> Any:
    """One of Inductor's kernels as an autotuner of Triton's; anything else unchanged. Raises
    ArgumentError: its source is not in this process.
    """
    if not inductor.is_inductor_kernel(kernel):
        return kernel
    known = _plain.get(kernel)
    generated = inductor.generated(kernel)
    if known is None or known[0] != generated.configs:
        known = _plain[kernel] = generated.configs, _made(generated, kernel)
    return known[1]


def _made(generated: inductor.Generated, kernel: Any) -> Any:
    if generated.function is None:
        raise ArgumentError(
            f"The source of Inductor's kernel {kernel.fn.__name__!r} is only in the process that "
            "compiled it.",
            advice="Set torch._inductor.config.compile_threads = 1 before torch.compile.",
        )
    plain = InductorKernel(generated)
    options = dict(generated.options)
    if not triton_api.made_of(plain).has_assertions:
        del options["debug"], options["sanitize_overflow"]  # which change nothing then
    held = triton.heuristics({name: _always(value) for name, value in options.items()})(plain)
    return triton.autotune(configs=list(generated.configs), key=[])(held if options else plain)


def _always(value: Any) -> Any:
    return lambda _arguments: value


_MOST_SHOWN = 80
"""The most characters of an object that was passed in place of a kernel."""


def unwrap_kernel(
    kernel: Any,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """The JIT function inside autotuners and heuristics, and the keywords with what they add.

    An autotuner adds the first config that it does not prune; heuristics are computed from the
    arguments, as in a launch.

    Raises:
        ArgumentError: `kernel` is not one, a heuristic cannot be computed from the arguments, or an
            autotuner prunes all configs.
    """
    added: dict[str, Any] = {}
    current = as_triton_kernel(kernel)
    while isinstance(current, triton_api.Autotuner | triton_api.Heuristics):
        given = {
            **dict(zip(current.arg_names, args, strict=False)),
            **added,
            **constants,
            **keywords,
        }
        if isinstance(current, triton_api.Autotuner):
            config = _first_config(current, args, {**added, **keywords})
            added = {**config.all_kwargs(), **added}
            _set_blocks(config, given)
        else:
            for name, compute in current.values.items():
                if name not in given:
                    added[name] = given[name] = _heuristic(name, compute, given, current.fn)
        current = current.fn
    if not isinstance(current, triton_api.JITFunction):
        _check_is_no_launch(kernel)
        raise ArgumentError(
            _not_a_kernel(kernel),
            advice="Put @triton.jit (or @gluon.jit) above the function."
            if callable(kernel)
            else "Pass a function decorated with @triton.jit (or @gluon.jit).",
        )
    if isinstance(current, InductorKernel):
        positional = current.arg_names[: len(args)]
        added |= current.added({*positional, *added, *keywords})
    taken = {name: value for name, value in added.items() if name not in constants}
    return current, {**taken, **keywords}


def _first_config(autotuner: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The first config that the autotuner's own pruning leaves for these arguments."""
    configs = autotuner.configs
    if len(configs) > 1 and (autotuner.early_config_prune or autotuner.perf_model):
        with suppress(Exception):  # the user's, of arguments that are types, or without a GPU
            configs = triton_api.pruned_configs(autotuner, args, keywords)
    if not configs:
        raise ArgumentError(
            f"The autotuner of {autotuner.base_fn.__name__!r} prunes all of its "
            f"{counted(len(autotuner.configs), 'config')} for these arguments.",
            advice="Return at least one config from early_config_prune in prune_configs_by.",
        )
    return configs[0]


def _set_blocks(config: Any, given: Mapping[str, Any]) -> None:
    """Run the hook of a config, which may set blocks of descriptors, without tensors' memory."""
    if config.pre_hook is None or not any(
        hasattr(value, "block_shape") for value in given.values()
    ):
        return
    import torch

    values = {
        name: torch.empty_like(value, device="meta") if isinstance(value, torch.Tensor) else value
        for name, value in given.items()
    }
    with suppress(Exception):  # a hook that reads tensors
        config.pre_hook({**values, **config.all_kwargs()})


def _check_is_no_launch(thing: Any) -> None:
    """Refuse `add[(4,)]`, a kernel with its grid, which only waits for its arguments."""
    if not isinstance(thing, FunctionType) or thing.__closure__ is None:
        return
    # What `kernel[grid]` gives, Triton's and ours, is a function within `__getitem__(self, grid)`.
    held = dict(zip(thing.__code__.co_freevars, thing.__closure__))
    if "__getitem__.<locals>" not in thing.__qualname__ or not {"self", "grid"} <= held.keys():
        return
    kernel, grid = held["self"].cell_contents, held["grid"].cell_contents
    if isinstance(kernel, triton_api.JITFunction):
        name = kernel.__name__
        raise ArgumentError(
            f"{name}[{shown(grid)}] combines the kernel and its grid, which are separate "
            "arguments here.",
            advice=f"Write {name}, {shown(grid)}, ... instead.",
        )


def _not_a_kernel(thing: Any) -> str:
    """Return "'add' is not a Triton kernel.", on one line, however large the object is."""
    if isinstance(thing, ModuleType):
        return f"{thing.__name__} is a module, not a Triton kernel."
    text = shown(thing)
    if not callable(thing) and ("\n" in text or len(text) > _MOST_SHOWN):
        text = f"A value of type {type(thing).__name__}"
    return f"{text} is not a Triton kernel."


def _heuristic(
    name: str, compute: Callable[[dict[str, Any]], Any], given: dict[str, Any], inside: Any
) -> Any:
    try:
        return compute(given)
    except Exception as error:  # a function of the user
        advice = f"Pass values instead of types, or the result: {name}=..."
        configs = inside.configs if isinstance(inside, triton_api.Autotuner) else []
        if isinstance(error, KeyError) and any(error.args[0] in each.kwargs for each in configs):
            advice = (
                f"{error.args[0]} is a parameter of the configs: write @triton.heuristics below "
                "@triton.autotune."
            )
        raise ArgumentError(
            f"The heuristic for {name!r} cannot be computed from these arguments: {error!r}.",
            advice=advice,
        ) from error


def parameter_names(kernel: Any) -> Sequence[str]:
    """Return the names of a kernel's parameters, of any kind of kernel; none of another object."""
    names = getattr(as_triton_kernel(kernel), "arg_names", ())
    return names if isinstance(names, list | tuple) else ()


Role = Literal["pointer", "integer", "float", "descriptor"]

_ACCESSES = {"load", "store", "make_block_ptr", "make_tensor_descriptor", "advance"}
"""Calls whose first argument is a pointer; so is that of everything named atomic_..."""

_PASSES_POINTER_ON = {
    "to", "cast", "multiple_of", "max_contiguous", "max_constancy", "advance", "make_block_ptr",
}  # fmt: skip
"""Calls that return their first argument, or a pointer into the same tensor."""

_WHOLE_NUMBERS_FIRST = {"rand", "randn", "randint", "rand4x", "randn4x", "randint4x", "philox"}
"""Calls whose first argument, the seed, is a whole number."""

_WHOLE_NUMBERS_ONLY = {"range", "static_range", "cdiv", "arange"}

_NOT_AN_INDEX = {"value", "val", "other", "cmp"}
"""Keywords of an access that do not affect addresses."""


def _parameter_roles(kernel: Any, visiting: frozenset[int] = frozenset()) -> dict[str, Role]:
    """The role of each parameter of a kernel that is not a tl.constexpr.

    A parameter that some load, store or atomic uses as its base is a pointer, also inside helper
    functions. One that takes part in an address, a mask, a loop's bounds or a seed is a whole
    number. Whatever is left only takes part in arithmetic, and is a float. This is a reading of the
    source, not the compiler's knowledge: it can be wrong. `visiting`: functions being read.
    """
    names = {parameter.name for parameter in kernel.params if not parameter.is_constexpr}
    if id(kernel) in visiting:
        return dict.fromkeys(names, "float")
    reader = _Reader(kernel, names, visiting | {id(kernel)})
    return {name: reader.role(name) for name in names}


class _Reader:
    """Reads which names of a function flow into pointers, addresses, masks and loop bounds."""

    def __init__(self, kernel: Any, parameters: set[str], visiting: frozenset[int]) -> None:
        self.parameters = parameters
        self.function = kernel.fn
        self.visiting = visiting
        self.assigned: dict[str, list[ast.expr]] = {}
        self.pointers: set[str] = set()
        self.integers: set[str] = set()
        self.descriptors: set[str] = set()
        tree = kernel.parse()
        for node in ast.walk(tree):
            self._note_assignment(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._read_call(node)

    def role(self, name: str) -> Role:
        if name in self.pointers:
            return "pointer"
        if name in self.descriptors:
            return "descriptor"
        if name in self.integers:
            return "integer"
        return "pointer" if name.lower().endswith("ptr") else "float"

    # -- what a local name may hold ----------------------------------------------------------------

    def _note_assignment(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._note(target, node.value)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            self._note(node.target, node.value)
        elif isinstance(node, ast.For):
            self._note(node.target, node.iter)

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for element, part in zip(target.elts, parts, strict=False):
                self._note(element, part)

    # -- calls -------------------------------------------------------------------------------------

    def _read_call(self, call: ast.Call) -> None:
        name = called(call)
        helper = self._helper(call.func)
        if helper is not None:
            self._read_helper_call(call, helper)
        elif (owner := self._owner(call)) and name in _ACCESSES:
            self.descriptors.add(owner)
            self._count_as_integers(call.args[:1])
        elif name in _ACCESSES or name.startswith("atomic_"):
            self._read_access(call, name)
        elif name in _WHOLE_NUMBERS_ONLY:
            self._count_as_integers(call.args)
        elif name in _WHOLE_NUMBERS_FIRST:
            self._count_as_integers(call.args[:1])

    def _read_access(self, call: ast.Call, name: str) -> None:
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        pointer = call.args[0] if call.args else keywords.get("pointer", keywords.get("base"))
        if pointer is not None:
            if base := self._base(pointer, set()):
                self.pointers.add(base)
            self._count_as_integers([pointer])
        has_value = name == "store" or name.startswith("atomic_")
        self._count_as_integers(call.args[2 if has_value else 1 :])
        self._count_as_integers(
            [value for key, value in keywords.items() if key not in _NOT_AN_INDEX]
        )

    def _read_helper_call(self, call: ast.Call, helper: Any) -> None:
        roles = _parameter_roles(helper, self.visiting)
        names = [parameter.name for parameter in helper.params]
        given = dict(zip(names, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        for name, value in given.items():
            role = roles.get(name)
            if role == "pointer" and (base := self._base(value, set())):
                self.pointers.add(base)
            if role in ("pointer", "integer"):
                self._count_as_integers([value])

    def _owner(self, call: ast.Call) -> str:
        """The parameter of which a method is called; "" for any other call."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        return owner.id if isinstance(owner, ast.Name) and owner.id in self.parameters else ""

    def _helper(self, function: ast.expr) -> Any:
        value: Any = None
        scope: Mapping[str, Any] = triton_api.scope_of(self.function)
        if isinstance(function, ast.Name):
            value = scope.get(function.id)
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            value = getattr(scope.get(function.value.id), function.attr, None)
        is_users = not str(getattr(value, "__module__", "")).startswith("triton.")
        return value if isinstance(value, triton_api.JITFunction) and is_users else None

    # -- expressions -------------------------------------------------------------------------------

    def _base(self, expression: ast.expr, seen: set[str]) -> str | None:
        """The parameter that a pointer expression starts from: the first one of its sum."""
        for name in self._summands(expression):
            if name in self.parameters:
                return name
            if name in seen:
                continue
            for value in self.assigned.get(name, []):
                if base := self._base(value, seen | {name}):
                    return base
        return None

    def _summands(self, expression: ast.expr) -> Iterator[str]:
        """The names that a sum adds up, left to right, without products, which are offsets."""
        if isinstance(expression, ast.Name):
            yield expression.id
        elif isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add | ast.Sub):
            yield from self._summands(expression.left)
            yield from self._summands(expression.right)
        elif isinstance(expression, ast.Subscript):
            yield from self._summands(expression.value)
        elif isinstance(expression, ast.IfExp):
            yield from self._summands(expression.body)
            yield from self._summands(expression.orelse)
        elif isinstance(expression, ast.Call) and called(expression) in _PASSES_POINTER_ON:
            function = expression.func
            if isinstance(function, ast.Attribute) and function.attr == "to":
                yield from self._summands(function.value)
            elif expression.args:
                yield from self._summands(expression.args[0])
            for keyword in expression.keywords:
                if keyword.arg == "base":
                    yield from self._summands(keyword.value)

    def _count_as_integers(self, expressions: list[ast.expr]) -> None:
        """Every name behind such an expression, through local names, holds whole numbers."""
        waiting = list(expressions)
        seen: set[str] = set()
        while waiting:
            for node in _without_loads(waiting.pop()):
                if isinstance(node, ast.Name) and node.id not in seen:
                    seen.add(node.id)
                    waiting += self.assigned.get(node.id, [])
        self.integers |= seen & self.parameters


def _without_loads(expression: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression outside of loads, whose contents do not show an address."""
    waiting: list[ast.AST] = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.Call) and called(node) == "load"):
            waiting += ast.iter_child_nodes(node)


_ASSUMED: dict[Role, str] = {"pointer": "*fp32:16", "integer": "i32", "float": "fp32"}


def assume(kernel: Any, given: Collection[str] = ()) -> dict[str, StatedType]:
    """Types for the parameters without any, to be shown as assumptions.

    An annotation goes first, and so do the types of a kernel that Inductor generated. Else a
    parameter that the kernel loads from or stores to is "*fp32:16", one that takes part in
    addresses, masks and loops is "i32", and any other is "fp32". A tl.constexpr is never guessed.

    Args:
        given: names of the parameters whose value or type is known.

    Returns:
        Parameter name -> its type, with "annotation" or "assumption" as its origin;
        to be given to `bind` by name.

    Raises:
        ArgumentError: a parameter is a tensor descriptor, whose block shape cannot be guessed.
    """
    roles = _parameter_roles(kernel)
    types: dict[str, StatedType] = {}
    for parameter in kernel.params:
        if parameter.name in given or parameter.is_constexpr or parameter.has_default:
            continue
        if isinstance(kernel, InductorKernel):
            types[parameter.name] = StatedType(kernel.types[parameter.name], "annotation")
            continue
        if (annotated := annotated_type(parameter)) is not None:
            types[parameter.name] = StatedType(annotated, "annotation")
            continue
        role = roles[parameter.name]
        if role == "descriptor":
            raise ArgumentError(
                f"{parameter.name!r} of {kernel.__name__!r} is used as a tensor descriptor, but "
                "its block shape is not known.",
                advice=f'State it: {parameter.name}="tensordesc<fp16[128,64]>", with your type and '
                "shape.",
                position=triton_api.parameter_position(kernel, parameter.name),
            )
        types[parameter.name] = StatedType(_ASSUMED[role], "assumption")
    return types
