"""`TileKernel`: one launch line, sent to the interpreter or to the GPU."""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import ArgumentError, OptionError, UnsupportedOperation
from kernellab.records import Launch, Run, Specialization, Target
from kernellab.run_options import DEFAULT, RunOptions, split_keywords
from kernellab.specialize import bind, tensor_of
from kernellab.triton_api import Autotuner, GluonJITFunction, JITFunction

Grid = Any
"""One to three sizes, or a function from the kernel's parameters (by name) to them."""


class TileKernel(JITFunction):
    """A Triton kernel whose launch line works with and without a GPU.

    `kernel[grid](*args)` with CUDA tensors is Triton's own launch. With torch CPU tensors or NumPy arrays the interpreter runs the kernel, in place, as `target` would. Everything else is Triton's `JITFunction`: it compiles, other kernels call it, `triton.autotune` and `triton.heuristics` wrap it.

    Attributes:
        target: the GPU that the interpreter emulates; sm_90 unless a cell's `--target` says otherwise.
    """

    target: Target = DEFAULT_TARGET
    _last: Run | _GpuLaunch | None = None

    def __getitem__(self, grid: Grid) -> Callable[..., Any]:
        """The kernel with a grid, ready to be called with its arguments."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def run(self, *args: Any, grid: Grid, warmup: bool, **keywords: Any) -> Any:
        """Launch the kernel; what `kernel[grid](*args, **keywords)` calls.

        Keywords are parameters, options of the backend (`num_warps`, ...), and options of the interpreter: those of `RunOptions`. Where a name is a parameter too, it is the parameter, and `options={...}` says the option.

        Returns:
            A `Run` from the interpreter; Triton's compiled kernel from the GPU.

        Raises:
            ArgumentError: arguments that do not fit, or tensors on the CPU and on a GPU in one launch.
            OptionError: a keyword that is neither a parameter nor a launch option.
            GridError: a grid that no GPU would accept.
            CompileError: the kernel does not compile.
            UnsupportedOperation: the interpreter cannot run this kernel.
            KernelFault: the kernel left its tensors, or the like.
        """
        __tracebackhide__ = True
        keywords, options, run_options = split_keywords(keywords, self.arg_names)
        if self._goes_to_gpu(args, keywords):
            if run_options is not DEFAULT:
                raise self._only_interpreted(run_options)
            return self._run_on_gpu(args, grid, warmup, {**keywords, **options})
        for hook in self.pre_run_hooks:
            hook(*args, **keywords)
        call = bind(self, args, keywords, self.target, options=options)
        if warmup:
            return triton_api.compile_kernel(self, call.specialization, self.target, call.options)
        if self.is_gluon():
            raise UnsupportedOperation(
                f"{self.__name__!r} is a Gluon kernel, and the interpreter cannot run those until TTGIR runs",
                advice="It compiles for every target, and runs on a GPU with CUDA tensors.",
                position=triton_api.definition_of(self),
            )
        from kernellab import interpreter  # here, because a launch on a GPU needs none of it

        self._last = interpreter.launch(self, grid, call, self.target, run_options)
        return self._last

    def _goes_to_gpu(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
        """Whether Triton's driver should have this launch; without any tensor, the GPU if there is one."""
        devices = set(_devices((*args, *keywords.values())))
        if devices == {"cpu"}:
            return False
        if not devices:
            return triton_api.current_gpu() is not None
        if "cpu" in devices or "meta" in devices:
            raise self._wrong_devices(args, keywords)
        return True

    def _wrong_devices(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> ArgumentError:
        places = [
            f"{name} on {', '.join(devices)}"
            for name, value in {**dict(zip(self.arg_names, args, strict=False)), **keywords}.items()
            if (devices := list(_devices([value])))
        ]
        return ArgumentError(
            f"no device holds all tensors of this launch of {self.__name__!r}: {'; '.join(places)}",
            advice="Move all of them to the GPU (the kernel runs there) or to the CPU (the interpreter runs it).",
            position=triton_api.definition_of(self),
        )

    def _only_interpreted(self, options: RunOptions) -> OptionError:
        names = ", ".join(options.changed()) or "stage, order, seed and bounds"
        return OptionError(
            f"this launch of {self.__name__!r} goes to the GPU, and only the interpreter takes {names}",
            advice="Leave it out, or move the tensors to the CPU.",
            position=triton_api.definition_of(self),
        )

    def _run_on_gpu(
        self, args: Sequence[Any], grid: Grid, warmup: bool, keywords: Mapping[str, Any]
    ) -> Any:
        seen = grid = (grid,) if isinstance(grid, int) else grid
        if callable(grid):

            def seen_grid(parameters: Mapping[str, Any]) -> Any:
                nonlocal seen
                seen = grid(parameters)
                return seen

            compiled = super().run(*args, grid=seen_grid, warmup=warmup, **keywords)
        else:
            compiled = super().run(*args, grid=grid, warmup=warmup, **keywords)
        if not warmup and compiled is not None:
            values = {**dict(zip(self.arg_names, args, strict=False)), **keywords}
            facts = {name: _facts(value) for name, value in values.items()}
            self._last = _GpuLaunch(self.__name__, tuple(seen), compiled, facts)
        return compiled

    @property
    def last_run(self) -> Run | None:
        """The latest launch that was carried out, and where; None before the first."""
        if isinstance(self._last, _GpuLaunch):
            self._last = self._last.as_run()
        return self._last

    @property
    def last_launch(self) -> Launch | None:
        """The latest launch that was carried out; None before the first."""
        run = self.last_run
        return None if run is None else run.launch

    def __repr__(self) -> str:
        return f"TileKernel({self.module}:{self.fn.__qualname__})"


class GluonTileKernel(TileKernel, GluonJITFunction):
    """A Gluon kernel as a `TileKernel`: compiled as Gluon, launched on a GPU; the interpreter does not run it yet."""


# Where the arguments are


def _devices(values: Iterable[Any]) -> Iterator[str]:
    """The device types of all tensors among launch arguments: "cpu", "cuda", "xpu", ..."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value.device.type
        elif isinstance(value, numpy.ndarray):
            yield "cpu"
        elif isinstance(value, tuple):
            yield from _devices(value)
        elif hasattr(value, "base") and not isinstance(
            value, type
        ):  # descriptors, reinterpreted tensors
            yield from _devices([value.base])


def _facts(value: Any) -> Any:
    """What a launch's description needs of a value; never the tensor itself, which would keep its memory."""
    if isinstance(value, torch.Tensor):
        return torch.empty_like(value, device="meta")
    return value


def _described(value: Any) -> str:
    """ "float32[98432]", "1024"."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return repr(value)


@dataclass(frozen=True)
class _GpuLaunch:
    """A launch on the GPU, noted in a few microseconds and turned into records when somebody asks."""

    kernel: str
    grid: tuple[int, ...]
    compiled: Any
    arguments: Mapping[str, Any]

    def as_run(self) -> Run:
        source, target = self.compiled.src, self.compiled.metadata.target
        specialization = Specialization(
            signature=dict(source.signature),
            constants=dict(source.constants),
            attributes=dict(source.attrs),
            origins=dict.fromkeys(source.signature, "launch"),
        )
        x, y, z = (*self.grid, 1, 1)[:3]
        launch = Launch(
            kernel=self.kernel,
            grid=(x, y, z),
            specialization=specialization,
            arguments={
                name: _described(value)
                for name, value in self.arguments.items()
                if name in source.signature
            },
            options={
                name: value
                for name, value in self.arguments.items()
                if name not in source.signature
            },
        )
        return Run(launch, device="gpu", target=Target(target.backend, str(target.arch)))


# Becoming a TileKernel


def _tile_class(kernel: JITFunction) -> type[TileKernel]:
    return GluonTileKernel if kernel.is_gluon() else TileKernel


@contextmanager
def tile_kernels_in(file: str, target: Target) -> Iterator[list[TileKernel]]:
    """While active, `@triton.jit` and `@gluon.jit` on functions whose code comes from `file` make TileKernels.

    Gives the list of them, which grows as they are made. Kernels of other files stay what they are.
    """
    made: list[TileKernel] = []

    def adopt(kernel: JITFunction) -> None:
        kernel.__class__ = _tile_class(kernel)
        kernel.target = target
        made.append(kernel)

    with triton_api.kernels_become(adopt, file):
        yield made


def as_tile_kernel(kernel: Any) -> Any:
    """`kernel` with the same function and settings as a TileKernel, inside whatever autotuner or heuristics wrap it.

    Raises:
        ArgumentError: `kernel` is no Triton kernel.
    """
    if isinstance(kernel, TileKernel):
        return kernel
    if isinstance(kernel, JITFunction):
        return _remembered(kernel, _twin_of_function)
    if hasattr(kernel, "fn") and hasattr(kernel, "run"):
        if as_tile_kernel(kernel.fn) is kernel.fn:
            return kernel
        wrapper = _remembered(kernel, copy.copy)
        vars(wrapper).update(vars(kernel), fn=as_tile_kernel(kernel.fn))
        return wrapper
    raise ArgumentError(
        f"{kernel!r} is no Triton kernel",
        advice="Give a function decorated with @triton.jit, or a TileKernel.",
    )


_twins: dict[int, Any] = {}
"""Identity of a kernel or wrapper -> what `as_tile_kernel` made of it: a second launch finds the first one's caches."""


def _remembered(original: Any, make: Callable[[Any], Any]) -> Any:
    key = id(original)  # hashing a JIT function would read the source of everything that it calls
    if key not in _twins:
        _twins[key] = make(original)
        weakref.finalize(original, _twins.pop, key, None)
    return _twins[key]


def _twin_of_function(kernel: JITFunction) -> TileKernel:
    twin = _tile_class(kernel)(
        kernel.fn,
        version=kernel.version,
        do_not_specialize=kernel.do_not_specialize,
        do_not_specialize_on_alignment=kernel.do_not_specialize_on_alignment,
        debug=kernel.debug,
        noinline=kernel.noinline,
        repr=kernel._repr,
        launch_metadata=kernel.launch_metadata,
    )
    twin.pre_run_hooks = kernel.pre_run_hooks
    return twin


def run(kernel: Any, grid: Grid, *args: Any, **constants: Any) -> Run:
    """Launch a kernel as a function call; the same as `kernel[grid](*args, **constants)`, in place.

    Args:
        kernel: a TileKernel, a plain `@triton.jit` kernel, or either inside `triton.autotune` or `triton.heuristics`.
        grid: one to three sizes, or a function from the parameters (by name) to them.
        args: torch tensors, NumPy arrays, scalars.
        constants: constexprs, further parameters by name, and options: the backend's, such as `num_warps`, and the interpreter's own, which are

            stage: the IR to run, "ttir" by default.
            order: of the programs, "sequential" (by linear id, x fastest), "reversed" or "shuffled".
            seed: chooses the shuffled order, 0 by default.
            bounds: what accesses must stay inside, "storage" (the memory behind a tensor) by default, or "view".

            A name that is also a parameter of the kernel is the parameter; `options={...}` then says the option.

    Raises:
        ArgumentError, OptionError, GridError, CompileError, UnsupportedOperation, KernelFault: as `TileKernel.run`.
    """
    __tracebackhide__ = True
    ours = as_tile_kernel(kernel)
    ours.run(*args, grid=grid, warmup=False, **constants)
    result: Run = innermost(ours).last_run
    return result


def innermost(kernel: Any) -> Any:
    """The kernel inside autotuners and heuristics."""
    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


# Autotuning where nothing can be timed


def _launch_autotuned_on_cpu(
    autotuner: Autotuner, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """Launch with the first config that is not pruned, and say so once; leaves launches on a GPU to Triton.

    Hooks run as they do around Triton's own final launch: a config's `pre_hook` each time, and before the first launch the autotuner's own, which sets the tensors of `reset_to_zero` to zero.
    """
    kernel = innermost(autotuner)
    if not isinstance(kernel, TileKernel) or kernel._goes_to_gpu(args, keywords):
        return triton_api.LEFT_TO_TRITON
    first_launch = not hasattr(autotuner, "best_config")
    autotuner.nargs = dict(zip(autotuner.arg_names, args, strict=False))
    try:
        config = autotuner.prune_configs(dict(keywords))[0]
        _check_not_given(kernel, config, keywords)
        chosen = {**keywords, **config.all_kwargs()}
        named = {name: _as_tensor(value) for name, value in {**autotuner.nargs, **chosen}.items()}
        if first_launch and len(autotuner.configs) > 1:
            _say_not_tuned(kernel, autotuner, config)
            autotuner.pre_hook(named, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(named)
        result = autotuner.fn.run(*args, **chosen)
    finally:
        autotuner.nargs = None
    autotuner.best_config = config
    return result


def _as_tensor(value: Any) -> Any:
    """Hooks are written for tensors; NumPy arrays become tensors over the same memory."""
    return tensor_of(value) if isinstance(value, numpy.ndarray) else value


def _check_not_given(kernel: TileKernel, config: Any, keywords: Mapping[str, Any]) -> None:
    twice = sorted(config.kwargs.keys() & keywords.keys())
    if twice:
        raise ArgumentError(
            f"{', '.join(twice)} of {kernel.__name__!r} comes from the autotuner's configs, and the launch gives it too",
            advice="Leave it out of the launch.",
            position=triton_api.definition_of(kernel),
        )


def _say_not_tuned(kernel: TileKernel, autotuner: Autotuner, config: Any) -> None:
    print(
        f"{kernel.__name__}: not autotuned, because time on a CPU says nothing about a GPU. "
        f"The first of {len(autotuner.configs)} configs is used: {config}",
        file=sys.stderr,
    )


triton_api.offer_autotuned_launches(_launch_autotuned_on_cpu)
