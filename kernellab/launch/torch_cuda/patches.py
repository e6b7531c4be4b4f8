"""The names of torch's, and `threading.Thread.start`, that are others while a thread is inside.

Each asks whether its caller's thread is inside, and is else what it replaces; so other threads are
left alone, and what a library took for good (`from torch.cuda import is_available`) is harmless
later.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from kernellab.launch.torch_cuda.answers import (
    OF_ACCELERATOR,
    OF_C,
    OF_CUDA,
    STAND_INS,
    version_of,
)
from kernellab.launch.torch_cuda.autocasting import entering, leaving
from kernellab.launch.torch_cuda.files import back_in_place, place_said
from kernellab.launch.torch_cuda.functions import on_default_device
from kernellab.launch.torch_cuda.generators import DefaultGenerators, Generator
from kernellab.launch.torch_cuda.joining import start_inside
from kernellab.launch.torch_cuda.sessions import Session, current_session
from kernellab.launch.torch_cuda.streams import AnyEvent, AnyStream
from kernellab.launch.torch_cuda.typed_tensors import TYPED_TENSORS, set_default_tensor_type
from kernellab.torch_api import emulation

Replacement = tuple[Any, str, Any]
"""A module or class, the name of an attribute, and what it is meanwhile."""


_ABSENT = object()
_FILES = (place_said, back_in_place)


class _Patches:
    """In place while any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._originals: list[tuple[Any, str, Any, Any]] = []

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                emulation.forget_answers_about_triton()
                for owner, name, value in _replacements():
                    self._originals.append((owner, name, vars(owner).get(name, _ABSENT), value))
                    setattr(owner, name, value)
                emulation.take_files(*_FILES)
                torch.version.__class__ = _Versions

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch.version.__class__ = ModuleType
                emulation.leave_files(*_FILES)
                for owner, name, original, value in reversed(self._originals):
                    if vars(owner).get(name) is not value:  # somebody else replaced it since
                        continue
                    if original is _ABSENT:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, original)
                self._originals.clear()
                emulation.forget_answers_about_triton()


_patches = _Patches()


@contextmanager
def patched() -> Iterator[None]:
    """While active, torch's questions are answered for the session that a thread is in."""
    _patches.enter()
    try:
        yield
    finally:
        _patches.leave()


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
    yield torch.backends.cuda, "is_built", _asking(torch.backends.cuda.is_built, lambda _: True)
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
    yield torch.autocast, "__enter__", entering(torch.autocast.__enter__)
    yield torch.autocast, "__exit__", leaving(torch.autocast.__exit__)
    context = emulation.DeviceContext
    by_torch = context.__torch_function__
    yield context, "__torch_function__", on_default_device(by_torch)
    yield threading.Thread, "start", start_inside(threading.Thread.start)


def _answered(module: ModuleType, answers: Mapping[str, Any]) -> Iterator[Replacement]:
    for name, answer in answers.items():
        original = vars(module).get(name)
        if callable(original):
            yield module, name, _asking(original, answer)
        elif module is emulation.C_MODULE:  # which a torch without CUDA lacks
            yield module, name, _asking(functools.partial(_lacking, name), answer)


def _lacking(name: str, *_: Any, **__: Any) -> Any:
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


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
