"""The processes that capture, trace and time a call, how long they may take, and how a call is sent
to them.
"""

from __future__ import annotations

import functools
import linecache
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cloudpickle

from kernellab.common.processes import Forked, Worker
from kernellab.errors import ArgumentError, WorkerLost

if TYPE_CHECKING:
    from kernellab.torch_api.pickling import Sent

# A call that is captured, as it was given.


@dataclass(frozen=True, eq=False)
class GivenCall:
    """A call as it was given: nothing of it is copied.

    Attributes:
        function: the function or the module.
        args, keywords: its arguments.
        request: the options of `kernellab.graph`, and the function's name.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    request: Mapping[str, Any]


# The processes that capture, trace and time, and how long they may take.


SECONDS = 600.0
"""How long a capture, a comparison or a measurement may take."""

WHO = "torch's compiler"


@functools.cache
def compiler_process() -> Worker:
    """Return the process that captures what cannot be captured in a copy of this one."""
    return Worker(WHO)


@functools.cache
def gpu_process() -> Worker:
    """Return the process that times on this machine's GPU; the capturing process emulates GPUs."""
    return Worker("torch on the GPU")


def can_copy_this_process() -> bool:
    """Whether a copy of this process can call torch. It cannot once CUDA is in use here, nor if
    torch's autograd has begun threads for a GPU, which builds of torch for CUDA do after a
    compilation even if there is none.
    """
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    is_built = torch.backends.cuda.is_built()  # type: ignore[no-untyped-call]
    return not is_built or Forked(_differentiates).result()


def _differentiates() -> bool:
    import torch

    try:
        torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return True


def call_in_copy(function: str, *arguments: Any) -> Any:
    """Call "module:function" in a copy of this process, and return its result.

    The copy has everything that this process has, so that nothing is sent, and whatever the
    function changes is lost with it.
    """
    called = functools.partial(_alone, pkgutil.resolve_name(function), *arguments)
    try:
        return Forked(called, WHO).result(SECONDS)
    except OSError as error:  # the system starts no process
        raise WorkerLost(f"The process that captures a graph cannot start: {error}") from error


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    import torch

    from kernellab.torch_api.emulation import let_operations_be_traced

    torch.set_num_threads(1)  # a copy has none of the threads of torch's pool
    let_operations_be_traced(in_copy=True)
    return function(*arguments)


# Functions and their arguments, for processes that are not copies of this one: those that run
# torch's tracers, time on a GPU, or capture while CUDA is in use here.


MOST_CELLS = 1_000_000
"""Characters of cells that are included, the latest cells first."""


def shipped(
    functions: Sequence[Any], things: Any, what: str, *, keep_devices: bool = False
) -> Sent:
    """Return pickled objects. The user's modules are pickled by value, as they are in this process.
    Tensors of a GPU arrive on the CPU.

    The source of a notebook's cells is included, because it is in no file and torch reads it.

    Args:
        functions: the functions whose modules are pickled by value unless they are installed.
        things: the objects to pickle.
        what: the name of the function in error messages.
        keep_devices: whether tensors of a GPU stay on it.

    Raises:
        ArgumentError: an object cannot be pickled.
    """
    from kernellab.torch_api import pickling

    try:
        with own_modules_by_value(*functions):
            return pickling.send(_WithCells(things), keep_devices=keep_devices)
    except Exception as error:  # anything may be raised by what is pickled
        raise ArgumentError(
            f"{what!r} cannot be sent to the process that captures the graph: "
            f"{type(error).__name__}: {error}",
            advice=(
                "The function, its arguments and the variables that it uses must be picklable. "
                "Remove open files and locks from them."
            ),
        ) from error


def call(function: str, sent: Sent) -> Any:
    """In the other process: call "module:function" with what was shipped."""
    called = pkgutil.resolve_name(function)
    with sent.settings_hold():
        return called(*sent.load())


class _WithCells:
    """Objects with the cells that this process knows; unpickling returns the objects."""

    def __init__(self, things: Any) -> None:
        self._things = things

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (_cells(), self._things)


def _cells() -> dict[str, list[str]]:
    """Return file name -> lines for code that IPython compiled from a cell."""
    texts: dict[str, list[str]] = {}
    left = MOST_CELLS
    for file, entry in reversed([*linecache.cache.items()]):
        if len(entry) != 4 or entry[1] is not None or file.startswith("<"):
            continue  # read from a file, or made by a program
        left -= sum(map(len, entry[2]))
        if left >= 0:
            texts[file] = list(entry[2])
    return texts


def _arrived(cells: dict[str, list[str]], things: Any) -> Any:
    for file, lines in cells.items():
        linecache.cache[file] = sum(map(len, lines)), None, lines, file
    return things


@contextmanager
def own_modules_by_value(*functions: Any) -> Iterator[None]:
    """While active, the user's own modules that functions come from are pickled by value: the other
    process may not find them, or find them edited.
    """
    with ExitStack() as stack:
        for function in _with_submodules(functions):
            name = getattr(function, "__module__", None) or type(function).__module__
            module = sys.modules.get(name)
            known = cloudpickle.list_registry_pickle_by_value()
            if module is not None and _is_the_users(module) and module.__name__ not in known:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _with_submodules(functions: Sequence[Any]) -> Iterator[Any]:
    import torch

    for function in functions:
        yield function
        if isinstance(function, torch.nn.Module):
            yield from function.modules()


def _is_the_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__ == "__main__":
        return False  # by value anyway
    return "site-packages" not in file and not file.startswith(sys.base_prefix)
