"""In the confined process: other people's host code runs on tensors of random numbers, and what it
does is written down as data: its launches, its copies and its fills.

Kernels are compiled here and not run. The parent replays the record with the real inputs, so that
nothing that this process computes can become a result.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

import torch
import triton.testing
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from kernellab import triton_api
from kernellab.common.patches import all_replaced, replaced
from kernellab.common.saved_files import value_to_json
from kernellab.common.text import error_text, remember_source
from kernellab.compiler.binding import BoundCall
from kernellab.errors import Diagnostic, KernelLabError
from kernellab.judging.code import (
    MOST_CONFIGS,
    Code,
    HostCall,
    HostRequest,
    Outcome,
    PackedKernel,
    TensorView,
    leaves,
    mapped,
    run_confined,
    tensors_within,
)
from kernellab.launch.autotuners import autotuned_launches_taken, untimed_choice
from kernellab.launch.cuda_tensors import place
from kernellab.launch.dispatch import end_trial
from kernellab.launch.interception import Interception, values_of_relaunch
from kernellab.launch.preparation import RUN, Grid, prepare
from kernellab.launch.torch_cuda import torch_answers_for
from kernellab.records import Target
from kernellab.records.display import described
from kernellab.torch_api.emulation import (
    OperationMode,
    changed_arguments,
    draws_numbers,
    identity_of,
    python_function,
)
from kernellab.triton_api import EmulatedDriver
from kernellab.triton_api.compilation import DESCRIPTORS, descriptor_parts, is_dtype
from kernellab.triton_api.kernel_contents import unpack
from kernellab.triton_api.pipeline import list_passes, shared_bytes

MODULE = "submission"
"""The name of the module that a submission runs as."""

_MOST_STEPS = 20_000
_WRITES = ("fill", "to", "constant", "computed")
_LONGEST = 500


def record_confined(request: HostRequest, seconds: float) -> Outcome:
    """Record a submission in a confined process; the clean process calls this."""
    _find_assembler(request.target)
    return run_confined(lambda: recorded(request), request.target, seconds)


@functools.cache
def _find_assembler(target: Target) -> None:
    """Have Triton run ptxas for its version, which it keeps: a confined process cannot run it."""
    with contextlib.suppress(KernelLabError):
        list_passes(target, {})


def recorded(request: HostRequest) -> bytes:
    """Return as JSON what the calls do, or what keeps the submission from running."""
    recorder = HostRecorder(request)
    with (
        torch.no_grad(),
        _nothing_is_timed(),
        _addresses_of_a_gpu(),
        autotuned_launches_taken(),
        triton_api.emulated(recorder),
        torch_answers_for(request.target, recorder),
    ):
        return json.dumps(recorder.run()).encode()


class HostRecorder(Interception):
    """Takes the launches and the operations of torch of a submission, and writes them down."""

    _is_torchs = True

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request.target)
        self._request = request
        self._files = _files_of(request.code)
        self._storages: list[torch.UntypedStorage] = []  # kept, so that no address is used twice
        self._numbers: dict[int, int] = {}
        self._kernels: dict[int, tuple[int, Any]] = {}
        self._modules: list[dict[str, Any]] = []
        self._made: dict[Any, int] = {}
        self._described: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        self._bases: list[torch.Tensor] = []
        self._fixed: set[int] = set()
        self._unnoted: set[int] = set()

    @property
    def driver(self) -> EmulatedDriver:
        return self._own_driver

    # The calls

    def run(self) -> dict[str, Any]:
        """Return the record of all calls."""
        for number, size in enumerate(self._request.storages):
            base = torch.empty(size, dtype=torch.uint8)
            place(base, "gpu")
            self._bases.append(base)
            assert self.number_of(base.untyped_storage()) == number
        self._fill(-1)
        with _Operations(self) as operations, replaced(threading.Thread, run=self._thread):
            try:
                called = self._subject(operations)
            except BaseException as error:  # other people's Python may raise anything
                return {"problem": self._raised(error)}
            if not isinstance(called, triton_api.JITFunction) and not callable(called):
                is_kernel = isinstance(called, triton_api.Autotuner | triton_api.Heuristics)
                if not is_kernel:
                    return {"instead": self._instead(called)[:_LONGEST]}
            setup = self._taken_steps()
            self._unnoted = set()
            calls = [*self._request.calls]
            recorded, configs = [], 1
            for number, call in enumerate(calls):  # which grow by one for each further config
                with operations.paused():
                    self._fill(number)
                config = max(0, number + 1 - len(self._request.calls))
                with untimed_choice(config) as choice:
                    recorded.append(self._recorded(called, call))
                if "problem" in recorded[0]:  # on which the verdict is
                    recorded *= len(calls)
                    break
                if number == 0:
                    configs = choice.count
                    calls += [call] * (min(configs, MOST_CONFIGS) - 1)
        return {
            "setup": setup,
            "calls": recorded,
            "configs": configs,
            "kernels": self._described,
            "modules": self._modules,
            "storages": [storage.nbytes() for storage in self._storages],
        }

    @property
    def _thread(self) -> Callable[[threading.Thread], None]:
        """Return the function of a thread, whose operations are written down too."""
        by_thread = threading.Thread.run

        def run(thread: threading.Thread) -> None:
            with _Operations(self):
                by_thread(thread)

        return run

    def _subject(self, operations: _Operations) -> Any:
        """Return what is called: of a class, an object of it."""
        code = self._request.code
        if isinstance(code, PackedKernel):
            return unpack(code.content)
        sys.path[:0] = code.folders
        module = ModuleType(MODULE)
        module.__package__ = code.package
        sys.modules[MODULE] = module
        for part in code.parts:
            remember_source(part.file, part.text)
            exec(compile(part.text, part.file, "exec"), vars(module))  # noqa: S102 - in confinement
        named = vars(module).get(code.name)
        if not isinstance(named, type):
            return named
        constructor, views = self._request.constructor or (), self._request.parameters
        if not issubclass(named, torch.nn.Module):
            return named(*constructor)
        places: list[str] = []
        if views:
            with operations.paused():
                places = _places_of_parameters(named, constructor)
        # What initializes a parameter does not count, as its values are those of the reference.
        self._unnoted = {view.storage for view in views.values()}
        parameters = {name: self._tensor(view) for name, view in views.items()}
        names = iter(places)
        with _registrations(lambda _, __, value: _same(parameters.get(next(names, "")), value)):
            made = named(*constructor)
        made = made.cuda().eval()
        for name, value in parameters.items():
            _give_parameter(made, name, value)
        return made

    def _instead(self, called: Any) -> str:
        """Describe the object in place of a kernel or a function."""
        code = self._request.code
        if isinstance(code, PackedKernel) or code.name in vars(sys.modules[MODULE]):
            return f"{described(called)} is neither a kernel nor a function"
        scope = vars(sys.modules[MODULE]).items()
        own = [name for name, value in scope if getattr(value, "__module__", "") == MODULE]
        return f"the file does not define {code.name!r}" + f"; it defines {', '.join(own)}" * bool(
            own
        )

    def _recorded(self, called: Any, call: HostCall) -> dict[str, Any]:
        args = [self._input(value) for value in call.args]
        keywords = {name: self._input(value) for name, value in call.keywords.items()}
        try:
            if call.grid is None:
                result = called(*args, **keywords)
            elif isinstance(called, triton_api.JITFunction):
                result = self.take_launch(None, called, args, call.grid, False, keywords)
            else:
                result = called[call.grid](*args, **keywords)
            kept = (value for value in leaves(result) if not isinstance(value, _Compiled))
            outputs = [*map(self.encoded, kept)]
        except BaseException as error:  # other people's Python may raise anything
            return {"steps": self._taken_steps(), "problem": self._raised(error)}
        return {"steps": self._taken_steps(), "outputs": outputs}

    def _taken_steps(self) -> list[dict[str, Any]]:
        taken, self._steps = self._steps, []
        return taken

    def _raised(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, KernelLabError):
            return error.diagnostic.to_json()
        words = f"the code raises {error_text(error)}"[:_LONGEST]
        return {**Diagnostic("error", "code-error", words).to_json(), "line": self._line_in(error)}

    def _line_in(self, error: BaseException) -> int:
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename in self._files:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    # Tensors

    def _fill(self, number: int) -> None:
        """Put random numbers into the inputs; zeros where an integer may be an index. The second
        time they are large, or zeros, so that Python that reads them does something else.
        """
        generator = torch.Generator().manual_seed(number + 1 + 1000 * self._request.is_again)
        scale = (number % 2 and 1e4) if self._request.is_again else 1.0
        views = {
            view.storage: view
            for view in (*leaves(self._request.parameters), *leaves(self._request.calls))
            if isinstance(view, TensorView)
        }
        for number, view in views.items():
            base = self._bases[number].view(view.dtype)
            if view.dtype.is_floating_point:
                base.copy_(torch.randn(base.shape, generator=generator) * scale)
            else:
                base.zero_()

    def _tensor(self, view: TensorView) -> torch.Tensor:
        base = self._bases[view.storage].view(view.dtype)
        return base.as_strided(view.shape, view.strides, view.offset)

    def _input(self, value: Any) -> Any:
        return mapped(value, lambda x: self._tensor(x) if isinstance(x, TensorView) else x)

    def number_of(self, storage: torch.UntypedStorage) -> int:
        """Return the number of a storage."""
        known = identity_of(storage)
        if known not in self._numbers:
            self._numbers[known] = len(self._storages)
            self._storages.append(storage)
        return self._numbers[known]

    def encoded(self, value: Any) -> Any:
        """Return a value as types that JSON has.

        Raises:
            TypeError: it has no such form.
        """
        if type(value) is int and (pointed := self._pointed_at(value)):
            return {"address": pointed[0], "offset": pointed[1]}
        if isinstance(value, torch.Tensor):
            return {
                "storage": self.number_of(value.untyped_storage()),
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "strides": list(value.stride()),
                "offset": int(value.storage_offset()),
            }
        number = next((kind for kind in (bool, int, float) if isinstance(value, kind)), None)
        if number is not None:  # or of a class below, such as numpy.float64 or an IntEnum
            return value_to_json(number(value))
        if value is None or type(value) is str:
            return value_to_json(value)
        if isinstance(value, torch.dtype):
            return {"torch": str(value).removeprefix("torch.")}
        if is_dtype(value):
            return {"triton": str(value)}
        if isinstance(value, list | tuple):
            return {"items": [self.encoded(item) for item in value]}
        if isinstance(value, triton_api.JITFunction):
            return {"function": self._kernel(value)}
        if isinstance(value, DESCRIPTORS):
            return {"descriptor": self.encoded(value.base), "parts": descriptor_parts(value)}
        raise TypeError(f"{type(value).__name__} is not a value that a judged launch may have")

    def is_fixed(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has the same contents for all inputs."""
        return self.number_of(tensor.untyped_storage()) in self._fixed

    def fix(self, tensor: torch.Tensor, is_fixed: bool) -> None:
        """Note whether the latest contents of a tensor are the same for all inputs."""
        storage = tensor.untyped_storage()
        if not is_fixed:
            self._fixed.discard(self.number_of(storage))
        elif tensor.nbytes == storage.nbytes():
            self._fixed.add(self.number_of(storage))

    def constant(self, tensor: torch.Tensor) -> dict[str, Any]:
        """Return the step that sets a tensor. The addresses in it, such as those of a table of
        pointers, are described by their storage and offset, because they differ in the replay.
        """
        content, pointers = tensor.detach().cpu().contiguous().clone(), []
        if content.dtype == torch.int64:
            flat = content.view(-1)
            for number, value in enumerate(flat.tolist()):
                if pointed := self._pointed_at(value):
                    pointers.append([number, *pointed])
                    flat[number] = 0
        data = base64.b64encode(bytes(content.view(-1).view(torch.uint8).tolist())).decode()
        return {"constant": self.encoded(tensor), "bytes": data, "pointers": pointers}

    def _pointed_at(self, address: int) -> tuple[int, int] | None:
        """Return the storage and the offset of an address; None for a number that is not one."""
        for number, storage in enumerate(self._storages):
            if 0 <= address - storage.data_ptr() < storage.nbytes():
                return number, address - storage.data_ptr()
        return None

    # What it does

    def note(self, **step: Any) -> None:
        """Write down a step."""
        written = next((step[kind] for kind in _WRITES if kind in step), None)
        if written is not None and written["storage"] in self._unnoted:
            return
        if len(self._steps) >= _MOST_STEPS:
            raise RuntimeError(f"a call makes more than {_MOST_STEPS:,} steps")
        self._steps.append({**step, "line": self._current_line()})

    def _current_line(self) -> int:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename not in self._files:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno

    def take_launch(
        self,
        run_natively: Any,
        kernel: Any,
        args: Sequence[Any],
        grid: Grid,
        warmup: bool,
        keywords: Mapping[str, Any],
    ) -> Any:
        """Write a launch down; the kernel is compiled as far as Triton's front end."""
        del run_natively  # nothing is launched
        try:
            launch = prepare(kernel, grid, args, dict(keywords), self.target, RUN)
            call = launch.call
            if warmup:
                return _Compiled(self, kernel, call)
            end_trial(kernel, call, self.target)
            sizes = launch.sizes(may_be_empty=True)
            step = {
                "launch": self._kernel(kernel),
                "module": self._module(kernel, call),
                "grid": list(sizes),
                "values": {name: self.encoded(value) for name, value in call.values.items()},
                "options": {name: self.encoded(value) for name, value in call.options.items()},
            }
        except (KernelLabError, TypeError) as error:
            self.note(failed=str(kernel.__name__), why=self._raised(error)["what"])
            raise
        self.note(**step)
        for value in tensors_within(call.values):
            self.fix(value, is_fixed=False)
        return _Compiled(self, kernel, call)

    def _kernel(self, kernel: Any) -> int:
        if id(kernel) not in self._kernels:
            self._kernels[id(kernel)] = (len(self._described), kernel)
            self._described.append({"functions": triton_api.facts_of(kernel)})
        return self._kernels[id(kernel)][0]

    def _module(self, kernel: Any, call: Any) -> int:
        """Return the number of the module of a launch."""
        options = repr(sorted(call.options.items(), key=lambda item: item[0]))
        specialization = call.specialization
        key = (id(kernel), repr(specialization), options)
        if key not in self._made:
            text, _ = triton_api.front_end_text(kernel, specialization, self.target, call.options)
            self._made[key] = len(self._modules)
            self._modules.append({"text": text})
        return self._made[key]


class _Compiled:
    """The result of a launch or a `warmup`, in place of Triton's compiled kernel. There is no
    machine code here, because the assembler must not run: its registers are the most that a thread
    may have.
    """

    def __init__(self, recorder: HostRecorder, kernel: Any, call: BoundCall) -> None:
        self._recorder, self._kernel, self._call = recorder, kernel, call
        self.name = kernel.__name__

    def _init_handles(self) -> None:
        """There is nothing to load."""

    @property
    def n_regs(self) -> int:
        self._recorder.note(assumed="n_regs")
        return _MOST_REGISTERS

    @property
    def n_spills(self) -> int:
        self._recorder.note(assumed="n_spills")
        return 0

    @functools.cached_property
    def metadata(self) -> SimpleNamespace:
        target = self._recorder.target
        options = {**triton_api.backend_options(target), **self._call.options}
        shared = shared_bytes(self._kernel, self._call.specialization, target, self._call.options)
        return SimpleNamespace(**{**options, "name": self.name, "shared": shared})

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, stream: Any = None) -> Any:
            del stream
            values = values_of_relaunch(self._kernel, self._call.specialization, args)
            keywords = {**values, **self._call.options}
            return self._recorder.take_launch(None, self._kernel, (), grid, False, keywords)

        return launch


_MOST_REGISTERS = 255
"""Of a thread (CUDA C++ Programming Guide, technical specifications)."""


@contextlib.contextmanager
def _nothing_is_timed() -> Iterator[None]:
    """While active, Triton's benchmarks call a function once, and all take the same time."""

    def timed(fn: Callable[[], Any], *_: Any, quantiles: Any = None, **options: Any) -> Any:
        fn()
        is_all = options.get("return_mode") == "all"
        return [1.0] * (len(quantiles) if quantiles else 1) if quantiles or is_all else 1.0

    with replaced(triton.testing, do_bench=timed, do_bench_cudagraph=timed):
        yield


def _addresses_of_a_gpu() -> AbstractContextManager[None]:
    """While active, tensors and storages report other addresses, above those of any process: if the
    heap begins below 4 GiB, a number may be an address, and Triton treats such an address as an
    int32.
    """
    own = torch.UntypedStorage.data_ptr

    def of_storage(storage: torch.UntypedStorage) -> int:
        return (address := own(storage)) and address + (1 << 48)

    def of_tensor(tensor: torch.Tensor) -> int:
        start = of_storage(tensor.untyped_storage())
        return start and start + int(tensor.storage_offset()) * tensor.element_size()

    return all_replaced(
        [(torch.UntypedStorage, "data_ptr", of_storage), (torch.Tensor, "data_ptr", of_tensor)]
    )


def _files_of(code: Code) -> frozenset[str]:
    if isinstance(code, PackedKernel):
        return frozenset()
    return frozenset(part.file for part in code.parts)


@contextlib.contextmanager
def _registrations(hook: Callable[[torch.nn.Module, str, Any], Any]) -> Iterator[None]:
    """Call `hook` for each parameter and buffer that a module registers, which may replace it."""
    with (
        register_module_parameter_registration_hook(hook),
        register_module_buffer_registration_hook(hook),
    ):
        yield


def _places_of_parameters(made_by: Any, constructor: Sequence[Any]) -> list[str]:
    """Return the names of a module's parameters and buffers, in the order of their registration."""
    seen: list[tuple[torch.nn.Module, str]] = []
    with _registrations(lambda module, name, _: seen.append((module, name))):
        made = made_by(*constructor)
    paths = {id(module): path for path, module in made.named_modules()}
    return [f"{paths.get(id(module), '?')}.{name}".lstrip(".") for module, name in seen]


def _same(own: torch.Tensor | None, value: Any) -> Any:
    """Return the tensor that replaces a registered one; None if it does not."""
    if own is None or value is None or own.shape != value.shape:
        return None
    is_parameter = isinstance(value, torch.nn.Parameter)
    return torch.nn.Parameter(own, requires_grad=False) if is_parameter else own


def _give_parameter(module: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    """Let a parameter or a buffer of a module be a tensor; one that is missing is left out."""
    path, _, own = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
        before = getattr(owner, own)
    except AttributeError:
        return
    if isinstance(before, torch.nn.Parameter):
        setattr(owner, own, torch.nn.Parameter(value, requires_grad=False))
    else:
        setattr(owner, own, value)


# The operations of torch

_ALLOCATIONS = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
)
_FILLS = frozenset(
    {"zeros", "zeros_like", "new_zeros", "zero_", "ones", "ones_like", "new_ones", "full",
     "full_like", "new_full", "fill_", "scalar_tensor"}
)  # fmt: skip
_COPIES = frozenset({"clone", "_to_copy", "copy_", "contiguous"})
_LARGEST_CONSTANT = 1 << 20
"""The most bytes of a tensor that does not depend on inputs, such as torch.arange(n) / 2."""
_READS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_MOVES = frozenset(
    {"constant_pad_nd", "flip", "index", "index_select", "narrow_copy", "repeat", "roll", "rot90"}
)
"""Operations that only move elements of their first argument; other tensors among their arguments
say where to."""


class _Operations(OperationMode):
    """Records for each operation of torch whether it moves data, sets it or computes it."""

    def __init__(self, recorder: HostRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._is_paused = False

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While active, nothing is written down."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inner = python_function(func)
        if inner is not None and not self._is_paused:
            with self:
                return inner(*args, **kwargs)
        result = func(*args, **kwargs)
        if not self._is_paused:
            with self.paused():
                self._note(func, args, kwargs, result)
        return result

    def _note(self, operation: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = str(operation).split(".")[1]
        recorder = self._recorder
        note, encoded = recorder.note, recorder.encoded
        made, given = [*tensors_within(result)], [*tensors_within((args, kwargs))]
        is_lifted = name.startswith("lift_fresh")  # what torch.tensor([1, 2]) does
        is_fixed = is_lifted or all(map(recorder.is_fixed, given))
        masks = [value for value in given[1:] if value.dtype is torch.bool]
        chosen_by = masks if name == "index" else given
        if not _READS.isdisjoint(operation.tags) and not all(map(recorder.is_fixed, chosen_by)):
            note(read=name)
        elif name in _ALLOCATIONS:
            recorder.number_of(made[0].untyped_storage())  # whose address may become an argument
        elif name in _FILLS and all(map(recorder.is_fixed, given[1:])):
            if made[0].numel():
                note(fill=encoded(made[0]), value=encoded(made[0].flatten()[0].item()))
                recorder.fix(made[0], is_fixed=True)
        elif name in _COPIES and torch.can_cast(given[-1].dtype, made[0].dtype):
            source = given[-1]
            note(copy=encoded(source), to=encoded(made[0]))
            recorder.fix(made[0], recorder.is_fixed(source))
        elif name in ("cat", "stack"):
            self._note_joined(name, args, kwargs, made[0])
            recorder.fix(made[0], is_fixed)
        elif name in _MOVES and all(map(recorder.is_fixed, given[1:])):
            self._note_moved(operation, args, kwargs, made[0])
            recorder.fix(made[0], is_fixed)
        else:
            before = {value.untyped_storage().data_ptr() for value in given if not is_lifted}
            new = [value for value in made if value.untyped_storage().data_ptr() not in before]
            size = sum(value.nbytes for value in made)
            is_fixed &= size <= _LARGEST_CONSTANT and not draws_numbers(operation)
            for value in (*new, *tensors_within(changed_arguments(operation, args, kwargs))):
                step = {"computed": encoded(value), "by": name}
                note(**(recorder.constant(value) if is_fixed else step))
                recorder.fix(value, is_fixed)

    def _note_joined(self, name: str, args: Any, kwargs: Any, made: torch.Tensor) -> None:
        dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
        start = 0
        for number, part in enumerate(args[0]):
            if name == "stack":
                place = made.select(dim, number)
            else:
                place = made.narrow(dim, start, part.shape[dim])
                start += part.shape[dim]
            self._recorder.note(copy=self._recorder.encoded(part), to=self._recorder.encoded(place))

    def _note_moved(self, operation: Any, args: Any, kwargs: Any, made: torch.Tensor) -> None:
        """Write down from which element of the first argument each element of a result comes."""
        source, *rest = args
        numbers = torch.arange(source.numel()).view(source.shape)
        place(numbers, "gpu")
        if operation._schema.name == "aten::constant_pad_nd":
            value = self._recorder.encoded([*rest, 0][1])
            self._recorder.note(fill=self._recorder.encoded(made), value=value)
            rest[1:] = [-1]
        places = operation(numbers, *rest, **kwargs).flatten()
        steps = torch.diff(places, prepend=torch.zeros(1, dtype=torch.int64))
        self._recorder.note(
            moved=self._recorder.encoded(source), to=self._recorder.encoded(made),
            places=base64.b64encode(zlib.compress(steps.numpy().tobytes())).decode(),
        )  # fmt: skip
