"""Launches written as standalone scripts, and the smaller launches that a launch can become."""

from __future__ import annotations

import base64
import math
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernellab import triton_api
from kernellab.checker.arguments import is_uninitialized
from kernellab.compiler.registered_passes import RegisteredPass
from kernellab.errors import ArgumentError
from kernellab.interpreter.memory.buffers import extent_of
from kernellab.launch.preparation import PreparedLaunch
from kernellab.records import Target
from kernellab.records.display import described

RECIPES = ("zeros", "ones", "arange", "randn")
"""The contents that a tensor may get instead, the simplest first."""

_LISTED = 32
"""The most elements that are written one by one."""


@dataclass(frozen=True)
class ScriptTensor:
    """A tensor that a script makes.

    Attributes:
        shape, dtype: those of the tensor.
        order: its dimensions, that with the largest stride first; None of a tensor that is not
            dense in memory, whose size then is not changed.
        given: the argument, or the part of it with this shape.
        recipe: one of `RECIPES`, or "given".
        marked: whether it counts as uninitialized memory.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...] | None
    given: torch.Tensor
    recipe: str = "given"
    marked: bool = False

    @classmethod
    def of(cls, tensor: torch.Tensor) -> ScriptTensor:
        """The tensor of a script that holds what an argument holds now."""
        order = tuple(sorted(range(tensor.ndim), key=tensor.stride, reverse=True))
        dense = tensor.permute(order).is_contiguous()
        shape, marked = tuple(tensor.shape), is_uninitialized(tensor)
        return cls(shape, tensor.dtype, order if dense else None, tensor.detach(), marked=marked)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements."""
        if self.order is None:
            return self.given.stride()
        strides, step = [0] * len(self.shape), 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= max(1, self.shape[axis])
        return tuple(strides)

    def resized(self, size: Callable[[int], int]) -> ScriptTensor:
        """The tensor with other sizes; `size` takes the old ones."""
        shape = tuple(map(size, self.shape))
        if self.order is None or shape == self.shape:
            return self
        part = self.given[tuple(slice(0, extent) for extent in shape)]
        return replace(self, shape=shape, given=part)

    def text(self) -> str:
        made = self._dense() if self.order is not None else self._strided()
        return f"kernellab.uninitialized({made})" if self.marked else made

    def _dense(self) -> str:
        assert self.order is not None
        shape = tuple(self.shape[axis] for axis in self.order)
        made = _contents(self.recipe, shape, self.dtype, self.given.permute(self.order))
        if list(self.order) == sorted(self.order):
            return made
        back = tuple(self.order.index(axis) for axis in range(len(self.order)))
        return f"{made}.permute({back})"

    def _strided(self) -> str:
        count = extent_of(self.shape, self.strides)
        memory = self.given.as_strided((count,), (1,))
        made = _contents(self.recipe, (count,), self.dtype, memory)
        return f"{made}.as_strided({self.shape}, {self.strides})"


def _contents(recipe: str, shape: tuple[int, ...], dtype: torch.dtype, given: torch.Tensor) -> str:
    sizes = shape[0] if len(shape) == 1 else shape
    kind = "" if dtype == torch.float32 else f", dtype={dtype}"
    cast = "" if dtype == torch.float32 else f".to({dtype})"
    recipe = recipe if math.prod(shape) else "zeros"
    if recipe in ("zeros", "ones"):
        return f"torch.{recipe}({sizes}{kind})"
    if recipe == "arange":
        return f"torch.arange({math.prod(shape)}).reshape({sizes}).to({dtype})"
    if recipe == "randn":
        return f"torch.randn({sizes}, generator=torch.Generator().manual_seed(0)){cast}"
    numbers = given.to(torch.complex128 if dtype.is_complex else torch.float64)
    if given.numel() <= _LISTED and bool(numbers.isfinite().all()) and not dtype.is_complex:
        whole = not dtype.is_floating_point
        return f"torch.tensor({(given if whole else numbers).tolist()}, dtype={dtype})"
    packed = base64.b64encode(zlib.compress(_bytes_of(given), 1)).decode()
    return (
        f"torch.frombuffer(bytearray(zlib.decompress(base64.b64decode(\n    {packed!r}\n"
        f"))), dtype=torch.uint8).view({dtype}).reshape({sizes})"
    )


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


# What a script has beside its tensors, and how it becomes smaller.


def module_text(kernel: Any, others: Sequence[Any], beside: Any = None) -> str:
    """The text of a module that has the kernel and other functions, with all that they use. Raises
    ArgumentError: they use something that no text can have.
    """
    written = triton_api.standalone_text(kernel, others, beside)
    if written.missing:
        raise ArgumentError(
            f"A script cannot have what {kernel.__name__} uses: {', '.join(written.missing)}.",
            advice="A kernel may use numbers, text, types, libraries, and functions from files.",
        )
    return written.text.rstrip()


def fewer_than(number: int) -> Iterator[int]:
    """Yield smaller numbers, the smallest first: powers of two, then those after the largest."""
    step = 1
    while step < number:
        yield step
        step *= 2
    largest = step // 2
    while (step := step // 2) >= 1:
        if number - step > largest:
            yield number - step


@dataclass(frozen=True)
class SameAs:
    """An argument that is the tensor of another parameter too."""

    parameter: str


@dataclass(frozen=True)
class OtherLaunch:
    """A launch of another kernel with the tensors of a script's.

    Attributes:
        shared: its parameters that are parameters of the script's launch, by name.
        grid: None for that of the script's launch.
    """

    prepared: PreparedLaunch
    shared: Mapping[str, str]
    grid: Any

    @classmethod
    def of(cls, prepared: PreparedLaunch, first: PreparedLaunch) -> OtherLaunch:
        """The launch, which shares tensors, and the numbers of one name and value.

        Raises:
            ArgumentError: a tensor is not one of the script's, or a script cannot have a value.
        """
        shared = {}
        for name, value in prepared.call.values.items():
            its = [n for n, v in first.call.values.items() if _is_same(value, v, name == n)]
            if its:
                shared[name] = its[0]
            elif not _is_writable(value):
                raise _cannot_have(prepared, name, "the first launch does not have")
        is_same = not callable(prepared.grid) and prepared.grid == first.grid
        return cls(prepared, shared, None if is_same else prepared.grid)

    def text(self, script: LaunchScript) -> str:
        """Return an expression for this launch in the script of another."""
        values = {
            name: script.values[self.shared[name]] if name in self.shared else value
            for name, value in self.prepared.call.values.items()
        }
        grid = script.sizes if self.grid is None else self.grid
        given = [
            f"{name}={script._value(self.shared[name]) if name in self.shared else literal_text(v)}"
            for name, v in values.items()
        ]
        given += [f"{name}={value!r}" for name, value in self.prepared.own_call.options.items()]
        arguments = ", ".join(given)
        sizes = grid(values) if callable(grid) else grid
        return f"kernellab.bind({self.prepared.kernel.__name__}, {sizes}, {arguments})"


def _is_same(value: Any, other: Any, has_its_name: bool) -> bool:
    if isinstance(value, torch.Tensor) and isinstance(other, torch.Tensor):
        return value.data_ptr() == other.data_ptr() and value.shape == other.shape
    return has_its_name and type(value) is type(other) and bool(value == other)


@dataclass(frozen=True)
class LaunchScript:
    """A launch, and a question about it.

    Attributes:
        kernel: the plain kernel, whose helpers and globals the script has.
        source: the text of the kernel, which may differ from that of `kernel`.
        values: what each parameter gets: a ScriptTensor, SameAs, or a value with a literal.
        expect: a function of the expected results, and its name in the script; or another kernel,
            and its launch; or None.
        question: the last lines, which pass `launch` to a function.
        passes: registered passes of the compiler, which are functions.
    """

    kernel: Any
    source: str
    grid: Any
    values: Mapping[str, Any]
    options: Mapping[str, Any]
    expect: tuple[Any, str | OtherLaunch] | None
    question: str
    passes: tuple[RegisteredPass, ...] = ()

    @classmethod
    def of(
        cls,
        prepared: PreparedLaunch,
        expect: Any,
        question: str,
        passes: tuple[RegisteredPass, ...] = (),
    ) -> LaunchScript:
        """The script of a launch.

        Raises:
            ArgumentError: a script cannot have one of its arguments, the function `expect`, or a
                pass.
        """
        for each in passes:
            if triton_api.python_function(each.rewrite) is None:
                raise ArgumentError(
                    f"A script cannot contain the registered pass {each.name}.",
                    advice="Register a function that is defined with `def` in a file or a cell.",
                )
        values: dict[str, Any] = {}
        for name, value in prepared.call.values.items():
            values[name] = _script_value(prepared, name, value, values)
        grid = prepared.grid if callable(prepared.grid) else prepared.sizes(may_be_empty=True)
        options = dict(prepared.own_call.options)
        named: tuple[Any, str | OtherLaunch] | None
        if isinstance(expect, PreparedLaunch):
            named = expect.kernel, OtherLaunch.of(expect, prepared)
        else:
            named = None if expect is None else _named_function(expect)
        source = str(prepared.kernel.src)
        return cls(prepared.kernel, source, grid, values, options, named, question, passes)

    @property
    def sizes(self) -> tuple[int, ...]:
        grid = self.grid(dict(self.values)) if callable(self.grid) else self.grid
        grid = (grid,) if isinstance(grid, int) else tuple(grid)
        return (*grid, *(1,) * (3 - len(grid)))

    def text(self) -> str:
        """Return the script. Raises ArgumentError: the kernel uses something that no script can
        have.
        """
        functions = [value for value in self.values.values() if _is_function(value)]
        beside = None
        if self.expect is not None and isinstance(self.expect[1], OtherLaunch):
            beside = self.expect[0] if self.expect[0] is not self.kernel else None
        elif self.expect is not None and self.expect[0] is not None:
            functions.append(self.expect[0])
        functions += [triton_api.python_function(each.rewrite) for each in self.passes]
        module = module_text(triton_api.with_source(self.kernel, self.source), functions, beside)
        lines = [
            f"{name} = {value.parameter if isinstance(value, SameAs) else value.text()}"
            for name, value in self.values.items()
            if isinstance(value, ScriptTensor | SameAs)
        ]
        if self.expect is not None and self.expect[1] != "expected":
            other = self.expect[1]
            text = other.text(self) if isinstance(other, OtherLaunch) else other
            lines.append(f"expected = {text}")
        lines += [f"kernellab.register_pass({p.name}, after={p.after!r})" for p in self.passes]
        body = "\n".join([*lines, f"launch = kernellab.bind({self._arguments()})", self.question])
        packed = [f"import {name}" for name in ("base64", "zlib") if f"{name}." in body]
        layouts = sorted({name for value in self.values.values() for name in _modules_of(value)})
        imports = [*packed, "import torch", "import kernellab", *(f"import {m}" for m in layouts)]
        future, annotations, rest = module.partition("from __future__ import annotations\n")
        before = annotations if annotations else ""
        return "\n".join(
            [*([before] if before else []), *imports, rest or future, "", "", body, ""]
        )

    def _arguments(self) -> str:
        sizes = list(self.sizes)
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes.pop()
        grid = f"({sizes[0]},)" if len(sizes) == 1 else str(tuple(sizes))
        given = [f"{name}={self._value(name)}" for name in self.values]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        return ", ".join([self.kernel.__name__, grid, *given])

    def _value(self, name: str) -> str:
        value = self.values[name]
        return name if isinstance(value, ScriptTensor | SameAs) else literal_text(value)

    def with_source(self, source: str, parameters: Collection[str]) -> LaunchScript:
        """Return the same with another text of the kernel, which may have fewer parameters."""
        values = {name: value for name, value in self.values.items() if name in parameters}
        other = None if self.expect is None else self.expect[1]
        if isinstance(other, OtherLaunch) and not {*other.shared.values()} <= {*parameters}:
            return self
        return replace(self, source=source, values=values)

    def smaller(self) -> Sequence[Callable[[LaunchScript], Iterator[LaunchScript]]]:
        """Return what to try: families of smaller scripts."""
        kind = type(self)
        return kind.smaller_sizes, kind.smaller_grids, kind.simpler_contents, kind.fewer_options

    def smaller_sizes(self) -> Iterator[LaunchScript]:
        """Yield the launch with a smaller number in sizes and tensors, with or only in blocks."""
        numbers = {value for value in self.values.values() if is_whole(value) and value > 1}
        plain = [name for name in self.values if not self._is_block(name)]
        blocks = [name for name in self.values if self._is_block(name)]
        for number in sorted(numbers, reverse=True):
            for fewer in fewer_than(number):
                yield self._with(number, fewer, plain)
                yield self._with(number, fewer, [*plain, *blocks])
                yield self._with(number, fewer, blocks)

    def _is_block(self, name: str) -> bool:
        return bool(self.kernel.params[self.kernel.arg_names.index(name)].is_constexpr)

    def _with(self, number: int, fewer: int, names: Collection[str]) -> LaunchScript:
        known = {value for value in self.values.values() if is_whole(value)}
        for value in self.values.values():
            known |= set(value.shape) if isinstance(value, ScriptTensor) else set()

        def resized(value: int) -> int:
            quotient, rest = divmod(value, number)
            return quotient * fewer if not rest and quotient in {1, *known} else value

        values = dict(self.values)
        for name in names:
            if isinstance(values[name], ScriptTensor):
                values[name] = values[name].resized(resized)
            elif is_whole(values[name]):
                values[name] = resized(values[name])
        return replace(self, values=values)

    def smaller_grids(self) -> Iterator[LaunchScript]:
        """Yield the launch with fewer programs along one axis."""
        yield replace(self, grid=(1, 1, 1))
        for axis, size in enumerate(self.sizes):
            for fewer in fewer_than(size):
                yield replace(self, grid=(*self.sizes[:axis], fewer, *self.sizes[axis + 1 :]))

    def simpler_contents(self) -> Iterator[LaunchScript]:
        """Yield the launch with simple contents in all tensors, or in one, and simple floats."""
        tensors = [name for name, value in self.values.items() if isinstance(value, ScriptTensor)]
        for names in (tensors, *([name] for name in tensors)):
            for recipe in RECIPES:
                simpler = {
                    name: replace(self.values[name], recipe=recipe)
                    for name in names
                    if recipe in _simpler_than(self.values[name].recipe)
                }
                yield replace(self, values={**self.values, **simpler})
        for name, value in self.values.items():
            for simple in (0.0, 1.0) if isinstance(value, float) and value != 0 else ():
                yield replace(self, values={**self.values, name: min(simple, value)})

    def fewer_options(self) -> Iterator[LaunchScript]:
        """Yield the launch without one of its options."""
        for name in self.options:
            kept = {key: value for key, value in self.options.items() if key != name}
            yield replace(self, options=kept)


def _simpler_than(recipe: str) -> Sequence[str]:
    return RECIPES[: RECIPES.index(recipe)] if recipe in RECIPES else RECIPES


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_function(value: Any) -> bool:
    return isinstance(value, triton_api.JITCallable)


def _is_writable(value: Any) -> bool:
    return _is_function(value) or triton_api.literal_of(value) is not None


def literal_text(value: Any) -> str:
    """An expression for a value that `triton_api.literal_of` knows, or the name of a function."""
    if _is_function(value):
        return str(value.fn.__name__)
    literal = triton_api.literal_of(value)
    assert literal is not None, "checked when the script was made"
    return literal.text


def _modules_of(value: Any) -> Collection[str]:
    literal = triton_api.literal_of(value)
    return () if literal is None else literal.modules


def _script_value(
    prepared: PreparedLaunch, name: str, value: Any, others: Mapping[str, Any]
) -> Any:
    if isinstance(value, torch.Tensor):
        for other, before in others.items():
            if not isinstance(before, ScriptTensor) or not _shares(before.given, value):
                continue
            if before.shape == tuple(value.shape) and before.given.stride() == value.stride():
                return SameAs(other)
            raise _cannot_have(prepared, name, f"shares memory with {other!r} in another shape")
        return ScriptTensor.of(value)
    if _is_writable(value):
        return value
    raise _cannot_have(prepared, name, f"is of type {type(value).__name__}")


def _shares(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        bool(tensor.numel())
        and tensor.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def _cannot_have(prepared: PreparedLaunch, name: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"A script cannot contain the argument {name!r} of {prepared.kernel.__name__!r}, which "
        f"{why}.",
        advice="A script can contain numbers, text, types, and tensors that do not overlap.",
        position=triton_api.parameter_position(prepared.kernel, name),
    )


def _named_function(expect: Any) -> tuple[Any, str]:
    """The function of the expected results, as a script has it, and its name; None for torch's."""
    for library in ("torch", "torch.nn.functional", "torch.linalg", "torch.special"):
        own = getattr(expect, "__name__", "")
        if own and getattr(sys.modules.get(library), own, None) is expect:
            return None, f"{library}.{own}"
    function = triton_api.python_function(expect)
    if function is None:
        raise ArgumentError(
            f"expect must be a function that a script can contain, got {described(expect)}.",
            advice="Pass a function of torch, or one that is defined with `def` in a file or a "
            "cell and takes the tensors as its arguments.",
        )
    return function, str(expect.__name__)


def _by_name(kernel: Any, by_path: Mapping[tuple[int, ...], Any]) -> dict[str, Any] | None:
    """What belongs to parameters, by name; None if some of it belongs to items of a tuple."""
    if any(len(path) != 1 for path in by_path):
        return None
    return {kernel.arg_names[path[0]]: value for path, value in by_path.items()}


@dataclass(frozen=True)
class CompileScript:
    """A compilation, by Triton alone.

    Attributes:
        kernel, source: as of a LaunchScript.
        hints: what is promised of the others, as Triton writes it.
    """

    kernel: Any
    source: str
    signature: Mapping[str, Any]
    constants: Mapping[str, Any]
    hints: Mapping[str, Any]
    options: Mapping[str, Any]
    target: Target

    @classmethod
    def of(cls, prepared: PreparedLaunch) -> CompileScript:
        """The script of the compilation that a launch needs.

        Raises:
            ArgumentError: a script cannot have one of its constants, or a tuple.
        """
        kernel, known = prepared.kernel, prepared.call.specialization
        constants, hints = _by_name(kernel, known.constants), _by_name(kernel, known.attributes)
        if constants is None or hints is None or not all(map(_is_writable, constants.values())):
            raise ArgumentError(
                f"A script cannot have the constants of {kernel.__name__!r}.",
                advice="Constants of a script are numbers, text, types and functions.",
            )
        given = dict(prepared.own_call.options)
        types, target = dict(known.signature), prepared.target
        return cls(kernel, str(kernel.src), types, constants, hints, given, target)

    def text(self) -> str:
        """Return the script. Raises ArgumentError: the kernel uses something that no script can
        have.
        """
        functions = [value for value in self.constants.values() if _is_function(value)]
        module = module_text(triton_api.with_source(self.kernel, self.source), functions)
        layouts = sorted({name for value in self.constants.values() for name in _modules_of(value)})
        source = triton_api.ast_source_class(self.kernel)
        places = {name: (place,) for place, name in enumerate(self.signature)}
        constants = ", ".join(f"{places[k]}: {literal_text(v)}" for k, v in self.constants.items())
        hints = ", ".join(f"{places[name]}: {value!r}" for name, value in self.hints.items())
        lines = [
            *(f"import {name}" for name in layouts),
            "from triton.backends.compiler import GPUTarget",
            f"from {source.__module__} import {source.__name__}",
            "",
            f"source = {source.__name__}(",
            f"    {self.kernel.__name__},",
            f"    {dict(self.signature)!r},",
            f"    {{{constants}}},",
            f"    {{{hints}}},",
            ")",
            f"target = {triton_api.gpu_target(self.target)!r}",
            f"triton.compile(source, target=target, options={dict(self.options)!r})",
        ]
        return "\n".join([module, "", "", *lines, ""])

    @property
    def values(self) -> Mapping[str, Any]:
        return self.signature

    def with_source(self, source: str, parameters: Collection[str]) -> CompileScript:
        """Return the same with another text of the kernel, which may have fewer parameters."""
        signature, constants, hints = (
            {name: value for name, value in given.items() if name in parameters}
            for given in (self.signature, self.constants, self.hints)
        )
        return replace(self, source=source, signature=signature, constants=constants, hints=hints)

    def smaller(self) -> Sequence[Callable[[CompileScript], Iterator[CompileScript]]]:
        """Return what to try: families of smaller scripts."""
        return CompileScript.smaller_constants, CompileScript.fewer_options

    def smaller_constants(self) -> Iterator[CompileScript]:
        """Yield the compilation with a smaller constant."""
        for name, value in self.constants.items():
            for fewer in fewer_than(value) if is_whole(value) else ():
                yield replace(self, constants={**self.constants, name: fewer})

    def fewer_options(self) -> Iterator[CompileScript]:
        """Yield the compilation without one of its options or promises."""
        for name in self.options:
            kept = {key: value for key, value in self.options.items() if key != name}
            yield replace(self, options=kept)
        for name in self.hints:
            yield replace(self, hints={k: v for k, v in self.hints.items() if k != name})


AnyScript = LaunchScript | CompileScript
