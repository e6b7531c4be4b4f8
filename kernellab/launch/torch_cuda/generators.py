"""Random numbers of the emulated GPU: as on a GPU, what a generator will give follows from a seed
and an offset, and the CPU's generator has no part in it. The numbers are other ones than a GPU's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from kernellab.launch.torch_cuda.marks import GPU, names_gpu
from kernellab.launch.torch_cuda.sessions import current_session
from kernellab.launch.torch_cuda.stand_ins import StandIn

_STEP = 4
"""What one call adds to the offset, at least: Philox gives four numbers at once, and torch refuses
offsets that are not a multiple of that."""

_WORD = 2**64


class _UnderWay(threading.local):
    named = 0
    making = 0


_under_way = _UnderWay()


class Generator(torch.Generator, metaclass=StandIn):
    """As `torch.Generator`, of the GPU or of the CPU."""

    original = torch.Generator

    def __new__(cls, device: Any = "cpu") -> Any:
        if not names_gpu(device):
            return cls.original(device)
        make: Any = super().__new__
        made: Generator = make(cls, "cpu")
        made._seed, made._offset = made.original.initial_seed(made), 0
        return made

    _seed: int
    _offset: int

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where it makes numbers."""
        return GPU

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew."""
        self._seed, self._offset = int(seed) % _WORD, 0
        return self

    def seed(self) -> int:
        """Begin anew, no one knows where."""
        self.manual_seed(super().seed())
        return self._seed

    def initial_seed(self) -> int:
        """Where it began."""
        return self._seed

    def get_offset(self) -> int:
        """How far it has come since."""
        return self._offset

    def set_offset(self, offset: int) -> Generator:
        """Go on from there."""
        self._offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as 16 bytes."""
        words = (self._seed, self._offset)
        return torch.frombuffer(
            bytearray(b"".join(word.to_bytes(8, "little") for word in words)), dtype=torch.uint8
        )

    def set_state(self, new_state: torch.Tensor) -> Generator:
        """Go on from there."""
        state = bytes(new_state.cpu().tolist())
        if new_state.dtype != torch.uint8 or len(state) != 16:
            raise RuntimeError("RNG state is wrong size: a GPU's has 16 bytes, seed and offset")
        self._seed, self._offset = (
            int.from_bytes(state[start : start + 8], "little") for start in (0, 8)
        )
        return self

    def clone_state(self) -> Generator:
        """Another one that is as far."""
        other: Generator = type(self)(GPU)
        return other.set_state(self.get_state())

    @contextmanager
    def draws(self) -> Iterator[None]:
        """While active, torch's code for the CPU that is given this generator draws from here."""
        self.original.manual_seed(self, self._next())
        _under_way.named += 1
        try:
            yield
        finally:
            _under_way.named -= 1

    @contextmanager
    def draws_by_default(self) -> Iterator[None]:
        """While active, torch's code for the CPU that is given none draws from here."""
        state = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self._next())
        try:
            yield
        finally:
            torch.default_generator.set_state(state)

    def _next(self) -> int:
        """What the numbers of the next call follow from."""
        now = (self._seed + self._offset * 0x9E3779B97F4A7C15) % _WORD
        self._offset += _STEP
        return now


def is_named() -> bool:
    """Return whether the current call has a generator as an argument."""
    return _under_way.named > 0


@contextmanager
def making_on_gpu() -> Iterator[None]:
    """While active, what this thread makes is for the GPU, though no tensor there has a part."""
    _under_way.making += 1
    try:
        yield
    finally:
        _under_way.making -= 1


@contextmanager
def other_peoples_code() -> Iterator[None]:
    """While active, other people's code runs, whose own calls say themselves what they are for."""
    before = _under_way.making, _under_way.named
    _under_way.making = _under_way.named = 0
    try:
        yield
    finally:
        _under_way.making, _under_way.named = before


def makes_on_gpu() -> bool:
    """Whether that is so."""
    return _under_way.making > 0


def default_generator() -> Generator:
    """That of this thread's session; it began as the CPU's had."""
    session = current_session()
    assert session is not None
    if session.generator is None:
        session.generator = Generator(GPU).manual_seed(torch.initial_seed())
    made: Generator = session.generator
    return made


class DefaultGenerators(Sequence[Any]):
    """`torch.cuda.default_generators`: inside that of the one GPU, outside torch's own."""

    def __init__(self, original: Sequence[Any]) -> None:
        self._original = original

    def _all(self) -> Sequence[Any]:
        return self._original if current_session() is None else (default_generator(),)

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, number: Any) -> Any:
        return self._all()[number]
