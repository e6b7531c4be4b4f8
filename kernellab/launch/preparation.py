"""The steps before any launch, up to a launch that is bound and not carried out.

Where the memory of each argument is; unwrapping the kernel, sorting its keywords, running hooks and
binding; and `takes_launch`, the signature of the functions that take a launch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import numpy
import torch

from kernellab import triton_api
from kernellab.common.arguments import keyword_only, parameters_first
from kernellab.common.text import format_bytes, shown
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.binding import bind as bind_call
from kernellab.compiler.kernels import (
    InductorKernel,
    as_triton_kernel,
    parameter_names,
    unwrap_kernel,
)
from kernellab.compiler.targets import DEFAULT_TARGET, local_target, parse_target
from kernellab.errors import ArgumentError, GridError, OptionError
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.memory.address_space import (
    UnknownExtent,
    described,
    is_pointer,
    memory_behind,
)
from kernellab.interpreter.memory.buffers import extent_of
from kernellab.launch.argument_copies import LARGEST_COPY, copied, copied_back, storage_bytes
from kernellab.records import BoundLaunch, Target
from kernellab.records.launches import DEFAULT, RunOptions, split_keywords
from kernellab.triton_api import JITFunction

# Where the memory behind each argument of a launch is, found out once.


class ResolvedArgument(NamedTuple):
    """A tensor, an array, or another object with memory that a kernel gets."""

    tensor: torch.Tensor | None
    """The tensor over its memory; None of a NumPy array, which becomes a tensor when it is bound,
    and of an object that points to memory on a GPU."""
    device: str
    """The type of the device that the memory is on: "cpu", "cuda", "xpu", "meta"."""


class _Unusable(Exception):
    """An object without one block of memory.

    Attributes:
        what: what it is, continuing "argument 'x' is ".
        advice: what to pass instead.
    """

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice


class ResolvedArguments:
    """The arguments of a launch that have memory.

    Attributes:
        devices: the types of the devices that hold them.
    """

    def __init__(
        self, kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> None:
        """Resolve the arguments. Raises ArgumentError: one has no block of memory."""
        self._kernel = kernel
        self._args = args
        self._keywords = keywords
        try:
            self.devices = _devices((*args, *keywords.values()))
        except _Unusable:
            self._raise_unusable()

    def by_name(self) -> dict[str, Any]:
        """The arguments by parameter, those without memory too."""
        names = self._kernel.arg_names
        return {**dict(zip(names, self._args, strict=False)), **self._keywords}

    def with_memory(self) -> dict[str, list[ResolvedArgument]]:
        """The tensors behind each argument that has memory; several for a tuple."""
        resolved = {name: list(_resolved([value])) for name, value in self.by_name().items()}
        return {name: parts for name, parts in resolved.items() if parts}

    def check_one_device(self) -> None:
        """Refuse tensors on several kinds of devices, or on none. Raises ArgumentError: there are
        such.
        """
        if len(self.devices) < 2 and "meta" not in self.devices:
            return
        places = [
            f"{name} on {', '.join(part.device for part in parts)}"
            for name, parts in self.with_memory().items()
        ]
        raise ArgumentError(
            f"The tensors of this launch of {self._kernel.__name__!r} are not on one device: "
            f"{'; '.join(places)}.",
            advice=(
                "Move all of them to the GPU (the kernel runs there) or to the CPU (the "
                "interpreter runs it)."
            ),
            position=triton_api.definition_of(self._kernel),
        )

    def _raise_unusable(self) -> None:
        """Raise for the first argument without a block of memory."""
        kernel = self._kernel
        for name, value in self.by_name().items():
            try:
                list(_resolved([value]))
            except _Unusable as unusable:
                within = "a tuple with " if isinstance(value, tuple) else ""
                raise ArgumentError(
                    f"Argument {name!r} of {kernel.__name__!r} is {within}{unusable.what}.",
                    advice=unusable.advice,
                    position=triton_api.parameter_position(kernel, name)
                    if name in kernel.arg_names
                    else triton_api.definition_of(kernel),
                ) from None


_NUMBERS = frozenset({bool, int, float})


def _devices(values: Sequence[Any]) -> set[str]:
    """Return the types of the devices that hold values; every launch waits for it."""
    devices = set()
    for value in values:
        kind = type(value)
        if kind is torch.Tensor:
            devices.add(_device_of(value))
        elif kind not in _NUMBERS:
            devices.update(argument.device for argument in _resolved((value,)))
    return devices


def _resolved(values: Sequence[Any]) -> Iterator[ResolvedArgument]:
    """Yield what is behind those arguments that have memory, items of tuples too."""
    for value in values:
        if type(value) in _NUMBERS:
            continue
        if isinstance(value, torch.Tensor) and not is_pointer(value):
            yield ResolvedArgument(value, _device_of(value))
        elif isinstance(value, numpy.ndarray):
            yield ResolvedArgument(None, "cpu")
        elif isinstance(value, tuple):
            yield from _resolved(value)
        elif is_pointer(value):
            yield _resolved_pointer(value)
        elif (base := described(value)) is not None:
            yield from _resolved([base])


def _resolved_pointer(value: Any) -> ResolvedArgument:
    """An object with `data_ptr()`; without a device, or without a GPU, its memory is the CPU's."""
    try:
        device = "cpu" if local_target() is None else torch.device(value.device).type
    except Exception:  # other people's objects may raise anything
        device = "cpu"
    if device != "cpu":
        return ResolvedArgument(None, device)
    try:
        return ResolvedArgument(memory_behind(value), device)
    except UnknownExtent as error:
        raise _Unusable(f"a {type(value).__qualname__} {error}", error.advice) from error


def _device_of(tensor: torch.Tensor) -> str:
    """Return the type of a tensor's device. Raises _Unusable: no pointer leads to its elements."""
    try:
        if not tensor.is_nested and tensor.layout is torch.strided:
            device = "cpu" if tensor.is_cpu else tensor.device.type
            if device == "meta":
                return device
            has_memory = tensor.data_ptr() != 0 or tensor.numel() == 0
            if has_memory and not tensor.is_neg() and not (device == "cpu" and _is_cut_off(tensor)):
                return device
    except Exception:  # a subclass may raise anything
        pass
    raise _unusable(tensor)


def _is_cut_off(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's storage was shortened after the tensor was made."""
    needed = tensor.storage_offset() + extent_of(tensor.shape, tensor.stride())
    needed *= tensor.itemsize
    return bool(tensor.numel() and needed > tensor.untyped_storage().nbytes())


_PARTS = {
    "sparse_coo": "x.indices(), ",
    **dict.fromkeys(("sparse_csr", "sparse_bsr"), "x.crow_indices(), x.col_indices(), "),
    **dict.fromkeys(("sparse_csc", "sparse_bsc"), "x.ccol_indices(), x.row_indices(), "),
}
"""The tensors with the places of a sparse tensor's values, by layout."""


def _unusable(tensor: torch.Tensor) -> _Unusable:
    """Say why no pointer leads to a tensor's elements."""
    is_nested = bool(tensor.is_nested)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and not is_nested:
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        return _Unusable(
            f"a {kind}, a kind of tensor without memory",
            "Pass the plain tensor that holds its values.",
        )
    layout = str(tensor.layout).removeprefix("torch.")
    if is_nested:
        return _Unusable(
            f"a nested tensor (layout {layout}), whose elements are not in one block of memory",
            "Pass its values and its offsets as separate tensors: x.values(), x.offsets(); "
            "or x.to_padded_tensor(0.0).",
        )
    if tensor.layout is not torch.strided:
        return _Unusable(
            f"a tensor in the layout {layout}, whose elements are not in one block of memory",
            f"Pass x.to_dense(), or its parts: {_PARTS.get(layout, '')}x.values().",
        )
    if tensor.is_neg():
        return _Unusable(
            "a tensor that torch negates when it is read (is_neg()): its memory holds the negated "
            "values",
            "Pass x.resolve_neg().",
        )
    try:
        has_address = tensor.data_ptr() != 0
    except Exception:  # within vmap
        has_address = False
    if has_address:
        return _Unusable(
            "a tensor whose storage was shortened: it does not hold all of its elements",
            "Create the tensor again, or resize the storage back.",
        )
    return _Unusable(
        "a tensor that has no memory: it belongs to a torch transform (vmap, grad), or its storage "
        "was freed",
        "Launch the kernel outside of vmap and grad, on tensors that hold values.",
    )


# The steps before any launch: unwrapping the kernel, sorting its keywords, finding its tensors,
# running hooks, and binding.


Grid = Any
"""One to three sizes, or a function from the kernel's parameters (by name) to them."""


@dataclass(frozen=True)
class EntryPoint:
    """How a public function launches kernels.

    Attributes:
        name: the function's name for errors: "check".
        refuses: run option -> why the function does not take it.
        on_gpu: what happens to a launch whose tensors are on a GPU. "copied": the interpreter runs
            it on copies of the tensors on the CPU. "launched": Triton launches it, runs the hooks
            and binds. "bound": it is bound as any other, by a function that launches it itself.
        runs_hooks: whether the pre-run hooks of the kernel and of a config run.
        keeps_assertions: whether `tl.device_assert` is checked without `debug=True`, which Triton
            needs for it.
        steps: whether it follows the source's lines: of Gluon kernels it takes `completion`.
    """

    name: str
    refuses: Mapping[str, str] = field(default_factory=dict)
    on_gpu: Literal["copied", "launched", "bound"] = "copied"
    runs_hooks: bool = True
    keeps_assertions: bool = False
    steps: bool = False


def refused(why: str) -> Mapping[str, str]:
    """The `EntryPoint.refuses` of a function that decides by itself how a kernel runs."""
    return dict.fromkeys(("stage", "order", "seed", "bounds"), why)


RUN = EntryPoint("run", on_gpu="launched")
"""A launch line, `kernel[grid](...)`."""


class PreparedLaunch(NamedTuple):
    """A launch that is ready to run.

    It is a tuple because every launch makes one, and a frozen dataclass takes five times as long.
    """

    kernel: JITFunction
    """The kernel inside autotuners and heuristics."""
    grid: Grid
    """The given grid, or that of a kernel from Inductor."""
    args: Sequence[Any]
    """The arguments by position."""
    keywords: Mapping[str, Any]
    """Keywords of the kernel and of the backend, those from autotuners and heuristics included."""
    target: Target
    """The GPU that the interpreter emulates."""
    options: RunOptions
    """The interpreter's options; `DEFAULT` itself if the launch gives none."""
    bound: BoundCall | None
    """None if Triton launches the kernel on a GPU."""
    added: Mapping[str, Any] = {}
    """Options of the backend that the entry point added."""
    originals: Mapping[str, Any] = {}
    """By parameter, the arguments on a GPU that the launch has copies of."""
    notes: tuple[str, ...] = ()
    """Sentences that the result shows: that the arguments are copies from a GPU."""

    def copy_to_originals(self) -> None:
        """Write what the launch's tensors hold now to the tensors on a GPU that they are copies
        of; without such copies, do nothing.
        """
        copied_back(self.call.values, self.originals)

    @property
    def call(self) -> BoundCall:
        """The bound call of a launch that Triton does not make."""
        assert self.bound is not None, "Triton binds what it launches"
        return self.bound

    @property
    def own_call(self) -> BoundCall:
        """The bound call without the options that the entry point added."""
        if not self.added:
            return self.call
        given = {name: value for name, value in self.call.options.items() if name not in self.added}
        return replace(self.call, options=given)

    def sizes(self, *, may_be_empty: bool = False) -> tuple[int, int, int]:
        """Return the grid; a function is called with the arguments. `may_be_empty`: whether a size
        may be 0, as in a launch, which then runs nothing. Raises GridError: a grid that no GPU
        would accept.
        """
        return check_grid(self.grid, self.call.values, may_be_empty=may_be_empty)


def prepare(
    kernel: Any,
    grid: Grid,
    args: Sequence[Any],
    keywords: dict[str, Any],
    target: str | Target | None,
    entry_point: EntryPoint,
) -> PreparedLaunch:
    """Prepare a launch, in these steps: unwrap autotuners (with their first config) and heuristics,
    separate run options from parameters and backend options, find the tensors' devices, copy
    tensors from a GPU to the CPU if the entry point runs the kernel there, run the kernel's
    pre-run hooks as Triton does, and bind the arguments.

    Args:
        kernel: a kernel of any kind.
        grid, args, keywords: those of the launch. A kernel from Inductor has a grid if none is
            given. The entry point's own options are not among the keywords; see `takes_launch`.
        target: the GPU to emulate; None for the one that a launch would emulate.
        entry_point: the function that launches.

    Raises:
        ArgumentError: the object is not a kernel, the arguments do not fit, tensors are on the CPU
            and on a GPU, have no memory, or are more than 1 GiB on a GPU for a run on the CPU.
        OptionError: an option is unknown, has a wrong value, or the entry point does not take it.
        TargetError: there is no such target.
    """
    if not isinstance(kernel, JITFunction):
        kernel = as_triton_kernel(kernel)
    chosen = emulated_for(kernel) if target is None else parse_target(target)
    whole = kernel
    if not isinstance(kernel, JITFunction) or isinstance(kernel, InductorKernel):
        kernel, keywords = unwrap_kernel(kernel, args, keywords, {})
    check_is_grid(grid, entry_point.name, kernel)
    keywords, outright, options = split_keywords(keywords, kernel.arg_names)
    outright = {**_options_among(kernel, keywords, chosen), **outright}
    if grid is None and isinstance(kernel, InductorKernel):
        grid = kernel.own_grid
    if options is not DEFAULT and entry_point.refuses:
        _refuse_options(entry_point, kernel, options)
    originals: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    arguments = ResolvedArguments(kernel, args, keywords)
    if _goes_to_gpu(arguments, options):
        if entry_point.on_gpu == "launched":
            _refuse_run_options(kernel, options)
            triton_api.made_of(kernel)  # Triton itself misses helpers that were redefined
            if not arguments.devices:  # often by mistake: binding explains what does not fit
                bind_call(kernel, args, keywords, chosen, options=outright)
            keywords = {**keywords, **outright}
            return PreparedLaunch(kernel, grid, args, keywords, chosen, options, None)
        if entry_point.on_gpu == "copied":
            originals, size = _arguments_on_gpu(entry_point, kernel, arguments)
            if originals:
                values = {**arguments.by_name(), **copied(originals)}
                by_position = [values[name] for name in kernel.arg_names[: len(args)]]
                args = (*by_position, *args[len(by_position) :])
                keywords = {name: values[name] for name in keywords}
                notes = (_FROM_GPU.format(name=entry_point.name, size=format_bytes(size)),)
    if entry_point.runs_hooks:
        _run_config_hook(whole, args, keywords)
        for hook in kernel.pre_run_hooks:
            hook(*args, **keywords)
    added = _assertions(kernel, {**keywords, **outright}) if entry_point.keeps_assertions else {}
    call = bind_call(kernel, args, keywords, chosen, options={**outright, **added})
    return PreparedLaunch(
        kernel, grid, args, keywords, chosen, options, call, added, originals, notes
    )


def prepare_bound(
    launch: BoundLaunch, target: str | Target | None, entry_point: EntryPoint
) -> PreparedLaunch:
    """Prepare a bound launch; see `prepare`."""
    keywords = dict(launch.keywords)
    return prepare(launch.kernel, launch.grid, launch.args, keywords, target, entry_point)


def check_is_grid(grid: Any, entry_point: str, kernel: Any) -> None:
    """Refuse a tensor in place of a grid that the caller left out."""
    if isinstance(grid, torch.Tensor) and (grid.numel() > 3 or grid.is_floating_point()):
        name = getattr(kernel, "__name__", "kernel")
        got = "a nested tensor" if grid.is_nested else f"a tensor of shape {tuple(grid.shape)}"
        raise GridError(
            f"The grid must be one to three sizes or a function, got {got}.",
            advice=(
                "The grid is the number of programs, and follows the kernel: "
                f"{entry_point}({name}, (triton.cdiv(n, BLOCK),), ...)."
            ),
        )


@functools.cache
def _option_names(target: Target) -> frozenset[str]:
    return frozenset(triton_api.option_names(target))


def _options_among(
    kernel: JITFunction, keywords: Mapping[str, Any], target: Target
) -> Mapping[str, Any]:
    """Return the keywords of a launch that name a parameter and an option of the backend: Triton
    takes them for both (`parse_options` gets all keywords).
    """
    names = _option_names(target).intersection(keywords, kernel.arg_names)
    return {name: keywords[name] for name in names if keywords[name] is not None}


def _assertions(kernel: JITFunction, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options with which Triton keeps a kernel's assertions, without the checks of
    integer overflow that `debug=True` also adds; none if the launch decides, or there are none.
    """
    if kernel.debug or ("debug" in keywords and "debug" not in kernel.arg_names):
        return {}
    with suppress(RecursionError):  # binding explains a source that nests too deeply
        if triton_api.made_of(kernel).has_assertions:
            return {"debug": True, "sanitize_overflow": False}
    return {}


# The kernel


def innermost(kernel: Any) -> JITFunction:
    """Return the kernel inside autotuners and heuristics. Raises ArgumentError: the object is not a
    kernel.
    """
    for inside in _layers(kernel):
        if isinstance(inside, JITFunction):
            return inside
        if not hasattr(inside, "run"):
            break
    raise ArgumentError(
        f"{shown(kernel)} is not a Triton kernel.",
        advice="Pass a function decorated with @triton.jit, or a TileKernel.",
    )


def _layers(kernel: Any) -> Iterator[Any]:
    """Yield a kernel and the kernels inside it, a limited number in case it is a mock."""
    inside = as_triton_kernel(kernel)
    for _ in range(_MOST_LAYERS):
        yield inside
        if not hasattr(inside, "fn"):
            return
        inside = inside.fn


_MOST_LAYERS = 100
"""More decorators than a kernel has."""


def emulated_for(kernel: Any) -> Target:
    """Return the target that a launch of a kernel, of any kind, would emulate on the CPU."""
    own = next((layer.target for layer in _layers(kernel) if hasattr(layer, "target")), None)
    if isinstance(own, Target):
        return own
    emulation = triton_api.current_emulation()
    return DEFAULT_TARGET if emulation is None or emulation.target is None else emulation.target


# Options that a launch may not have


def _run_config_hook(kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Run the hook of an autotuner's first config, which may set the block of a descriptor."""
    while not isinstance(kernel, JITFunction | triton_api.Autotuner):
        kernel = kernel.fn
    config = None if isinstance(kernel, JITFunction) else kernel.configs[0]
    if config is not None and config.pre_hook is not None:
        given = dict(zip(kernel.arg_names, args, strict=False))
        config.pre_hook({**given, **keywords, **config.all_kwargs()})


def _refuse_options(entry_point: EntryPoint, kernel: JITFunction, options: RunOptions) -> None:
    """Raise OptionError if a launch has a run option that the entry point does not take."""
    refuses = entry_point.refuses
    for name, value in options.changed().items():
        why = refuses.get(name)
        if name == "completion" and entry_point.steps:
            why = (
                None
                if kernel.is_gluon() or entry_point.name == "trace"
                else "the source of a Triton kernel has no asynchronous operations; "
                "%tilestep --late follows those of the compiled kernel"
            )
        elif name == "completion":  # operations complete late only in a stage that can be chosen
            why = why or refuses.get("stage")
        if why is not None:
            raise OptionError(
                f"{name}={shown(value)} is not available: {why}.",
                advice=f"Remove {name}=.",
                position=triton_api.definition_of(kernel),
            )


def _refuse_run_options(kernel: JITFunction, options: RunOptions) -> None:
    """Raise OptionError if a launch on the GPU has options of the interpreter."""
    if options is DEFAULT:
        return
    names = ", ".join(options.changed()) or "stage, order, seed, bounds and completion"
    raise OptionError(
        f"Only the interpreter supports {names}, but this launch of {kernel.__name__!r} runs on "
        "the GPU.",
        advice=f"Remove {names}, or move the tensors to the CPU.",
        position=triton_api.definition_of(kernel),
    )


# Where the arguments are


def goes_to_gpu(kernel: JITFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether Triton's driver gets this launch, which has no options of the interpreter.
    Raises ArgumentError: tensors on the CPU and on a GPU, or without memory.
    """
    return _goes_to_gpu(ResolvedArguments(kernel, args, keywords), DEFAULT)


def _goes_to_gpu(arguments: ResolvedArguments, options: RunOptions) -> bool:
    """Return the same of resolved arguments. A launch without tensors goes to the GPU, if there is
    one and no option of the interpreter is given.
    """
    if arguments.devices == {"cpu"}:
        return False
    if not arguments.devices:
        return options is DEFAULT and local_target() is not None
    arguments.check_one_device()
    return True


_FROM_GPU = (
    "The tensors are on a GPU, so kernellab.{name} copied them ({size}) and ran the kernel on the "
    "CPU."
)


def _arguments_on_gpu(
    entry_point: EntryPoint, kernel: JITFunction, arguments: ResolvedArguments
) -> tuple[dict[str, Any], int]:
    """Return the arguments that hold tensors on a GPU, by name, and how many bytes these have.

    Raises:
        ArgumentError: more than may be copied to the CPU, or a pointer whose memory is not known.
    """
    values, resolved = arguments.by_name(), arguments.with_memory()
    originals = {name: values[name] for name in resolved}
    for name, parts in resolved.items():
        if any(part.tensor is None for part in parts):
            kind = type(values[name]).__qualname__
            raise ArgumentError(
                f"Argument {name!r} of {kernel.__name__!r} is a {kind} whose "
                f"memory is on a GPU, and {entry_point.name} runs kernels on the CPU.",
                advice="Pass the tensor that owns the memory.",
                position=triton_api.definition_of(kernel),
            )
    size = storage_bytes(originals)
    if size > LARGEST_COPY:
        raise ArgumentError(
            f"The tensors of this launch of {kernel.__name__!r} hold {format_bytes(size)} on a "
            f"GPU, and {entry_point.name}, which runs kernels on the CPU, copies at most "
            f"{format_bytes(LARGEST_COPY)} there.",
            advice="Pass smaller tensors, which show the same faults sooner, or copies on the "
            "CPU: x.cpu().",
            position=triton_api.definition_of(kernel),
        )
    return originals, size


# A launch that is bound but not run: the subject of `check`, `trace` and similar functions.


P = ParamSpec("P")
R = TypeVar("R")


def bind(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> BoundLaunch:
    """Return a launch of a kernel that `check`, `trace`, `debug`, `accesses`, `bisect`, `tune`,
    `profile`, `diagnose` and `run` take in place of the kernel, its grid and its arguments.

        launch = kernellab.bind(add, (4,), x, y, z, n, BLOCK=256)
        kernellab.check(launch)
        kernellab.trace(launch, programs=(3, 0, 0))

    The bound launch refers to the arguments, and does not copy them.

    Args:
        kernel, grid, args, keywords: as for `kernellab.run`.

    Raises:
        ArgumentError: the kernel is not a Triton kernel.
        GridError: a grid that no GPU would accept.
    """
    inside = innermost(kernel)
    check_is_grid(grid, "bind", inside)
    if isinstance(grid, type) or (grid is not None and not callable(grid)):
        check_grid(grid, {})
    return BoundLaunch(kernel, grid, args, keywords)


def bound_launch(
    called: str, kernel: Any, grid: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> BoundLaunch:
    """Return the launch that a function was given: bound, or as a kernel, its grid and its
    arguments. `called`: the function's name. Raises ArgumentError: a bound launch, and also a grid
    or arguments.
    """
    if not isinstance(kernel, BoundLaunch):
        return BoundLaunch(kernel, grid, args, keywords)
    if grid is not None or args or keywords:
        raise ArgumentError(
            f"{called} takes a bound launch ({kernel.name!r}) or a grid and arguments, not both.",
            advice="Pass only the bound launch, or only a grid and arguments.",
        )
    return kernel


def takes_launch(function: Callable[Concatenate[BoundLaunch, P], R]) -> Callable[..., R]:
    """Decorate a function of `(launch, *, OPTIONS)`, which is then called as
    `function(kernel, grid, *args, OPTIONS, **keywords)` or as `function(launch, OPTIONS)`. One with
    expected results also takes what is compared as `kernellab.equal` does: `function(launch, other,
    OPTIONS)` or `function(kernel, other, grid, *args, OPTIONS, **keywords)`.

    A keyword that is also a parameter of the kernel is the parameter, unless that is given by
    position. A launch that has a target, or expected results, has them there too, unless the caller
    gives others.
    """
    inherited = {"target", "expect"} & inspect.signature(function).parameters.keys()

    def with_launch(
        kernel: Any, grid: Any = None, args: Any = (), keywords: Any = None, **own: Any
    ) -> R:
        __tracebackhide__ = True
        is_bound = isinstance(kernel, BoundLaunch)
        if "expect" in inherited and (
            isinstance(grid, BoundLaunch) or hasattr(grid, "run") or (is_bound and callable(grid))
        ):
            other, grid, args = grid, args[0] if args else None, args[1:]
            if hasattr(other, "run"):
                other = bound_launch(function.__name__, other, grid, args, keywords)
            own.setdefault("expect", other)
        launch = bound_launch(function.__name__, kernel, grid, args, keywords)
        for name in inherited:
            if getattr(launch, name) is not None:
                own.setdefault(name, getattr(launch, name))
        return function(launch, **own)  # type: ignore[call-arg]

    with_launch.__name__ = function.__name__
    called = parameters_first(parameter_names, keyword_only(function))(with_launch)
    called.__signature__ = called.__signature__.replace(  # type: ignore[attr-defined]
        return_annotation=inspect.signature(function).return_annotation
    )
    return functools.wraps(function)(called)
