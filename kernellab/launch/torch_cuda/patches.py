"""The names of torch's, and `threading.Thread.start`, that are others while a thread is inside.

Each checks whether its caller's thread is inside, and otherwise is what it replaces; so other
threads are left alone, and what a library took for good (`from torch.cuda import is_available`) is
harmless later.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from kernellab.common.replacing import Replacement, WhileAnyThread, all_replaced
from kernellab.launch.torch_cuda.answers import (
    OF_ACCELERATOR,
    OF_C,
    OF_CUDA,
    STAND_INS,
    version_of,
)
from kernellab.launch.torch_cuda.autocasting import following
from kernellab.launch.torch_cuda.files import back_in_place, place_said
from kernellab.launch.torch_cuda.functions import (
    context_seeing_gpu,
    on_default_device,
    seeing_gpu,
)
from kernellab.launch.torch_cuda.generators import DefaultGenerators, Generator
from kernellab.launch.torch_cuda.joining import start_inside
from kernellab.launch.torch_cuda.operations import made_unseen
from kernellab.launch.torch_cuda.sessions import Session, current_session
from kernellab.launch.torch_cuda.streams import AnyEvent, AnyStream
from kernellab.launch.torch_cuda.typed_tensors import TYPED_TENSORS, set_default_tensor_type
from kernellab.torch_api import emulation

_FILES = (place_said, back_in_place)


@contextmanager
def patched() -> Iterator[None]:
    """While active, torch's questions are answered for the session that a thread is in."""
    with _in_place:
        yield


@contextmanager
def _all_in_place() -> Iterator[None]:
    emulation.forget_answers_about_triton()
    try:
        with all_replaced(_replacements()):
            emulation.take_files(*_FILES)
            torch.version.__class__ = _Versions
            try:
                yield
            finally:
                torch.version.__class__ = ModuleType
                emulation.leave_files(*_FILES)
    finally:
        emulation.forget_answers_about_triton()


_in_place = WhileAnyThread(_all_in_place)


def _replacements() -> Iterator[Replacement]:
    for module in emulation.CUDA_MODULES:
        yield from _answered(module, OF_CUDA)
    yield from _answered(emulation.C_MODULE, OF_C)
    for name, stand_in in STAND_INS.items():
        yield torch.cuda, name, stand_in
    for accelerator in emulation.ACCELERATOR_MODULES:
        yield from _answered(accelerator, OF_ACCELERATOR)
    questions = emulation.triton_questions()
    for name in emulation.QUESTIONS_OF_TRITON:
        function = vars(questions)[name]
        yield questions, name, _asking(function, functools.partial(_unremembered, function))
    yield questions, "has_triton", _asking(vars(questions)["has_triton"], lambda _session: True)
    built = torch.backends.cuda.is_built
    yield torch.backends.cuda, "is_built", _asking(built, functools.partial(_is_built, built))
    yield torch, "Generator", Generator
    yield torch.cuda, "default_generators", DefaultGenerators(torch.cuda.default_generators)
    yield torch, "Stream", AnyStream
    yield torch, "Event", AnyEvent
    for name, typed in TYPED_TENSORS.items():
        yield torch.cuda, name, typed
    by_type = torch.set_default_tensor_type
    answer = functools.partial(set_default_tensor_type, by_type)
    yield torch, "set_default_tensor_type", _asking(by_type, answer)
    yield torch, "compile", _asking(torch.compile, functools.partial(_compile, torch.compile))
    yield torch, "set_autocast_enabled", following(torch.set_autocast_enabled)
    yield torch.Tensor, "__new__", made_unseen(torch.Tensor.__new__)
    converter, mode = emulation.FakeTensorConverter, emulation.FakeTensorMode
    yield converter, "from_real_tensor", seeing_gpu(converter.from_real_tensor)
    yield mode, "avoid_device_init", property(_asking(mode.avoid_device_init.fget, _untouched))
    fakes = emulation.FAKE_TENSORS
    yield fakes, "init_gpu_context", _asking(fakes.init_gpu_context, _untouched)
    tracing, constants = emulation.TRACING, "unset_fake_temporarily"
    yield tracing, constants, context_seeing_gpu(vars(tracing)[constants])
    context = emulation.DeviceContext
    by_torch = context.__torch_function__
    yield context, "__torch_function__", on_default_device(by_torch)
    yield threading.Thread, "start", start_inside(threading.Thread.start)


def _answered(module: ModuleType, answers: Mapping[str, Any]) -> Iterator[Replacement]:
    for name, answer in answers.items():
        original = vars(module).get(name)
        if callable(original):
            yield module, name, _asking(original, answer)
        elif name.startswith("_") and module in (emulation.C_MODULE, torch.cuda):
            # a torch without CUDA does not have it
            missing = functools.partial(_missing_function, module.__name__, name)
            yield module, name, _asking(missing, answer)


def _missing_function(module: str, name: str, *_: Any, **__: Any) -> Any:
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _asking(original: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but that inside the answer is given."""

    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        session = current_session()
        if session is None:
            return original(*args, **kwargs)
        return answer(session, *args, **kwargs)

    return asked


def _unremembered(function: Any, _session: Session, *args: Any) -> Any:
    return function.__wrapped__(*args)


def _is_built(is_built: Callable[[], bool], _session: Session) -> bool:
    """Whether torch was built for a GPU: torch itself goes on to use what such a build has."""
    return is_built() or not sys._getframe(2).f_globals.get("__name__", "").startswith("torch.")


def _untouched(_session: Session, _mode: Any) -> bool:
    """Whether tracing keeps off the GPU, as it does where there is none."""
    return True


class _Versions(ModuleType):
    """`torch.version`, which says of what torch was built for."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("cuda", "hip"):
            session = current_session()
            if session is not None:
                return version_of(session.target, name)
        return super().__getattribute__(name)


def _compile(
    compile_: Callable[..., Any], session: Session, model: Any = None, **options: Any
) -> Any:
    """`torch.compile`: the function itself; its code for a GPU could not run."""
    if model is None:
        return functools.partial(_compile, compile_, session, **options)
    return model
