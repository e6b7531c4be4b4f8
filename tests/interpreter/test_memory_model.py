"""Loads and stores against a model that walks from element to element,
over whatever a kernel may hand them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernellab.interpreter.affine import AffineTile, BoxMask, Progression, as_array
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import AddressSpace
from kernellab.interpreter.memory.buffers import Buffer, OutOfBoundsAccess
from tests.cases.case import as_numpy, assert_same

PROGRAMS = 3
DTYPES = [
    torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2,
]  # fmt: skip
bounded = settings(max_examples=400, derandomize=True)


@dataclass
class Access:
    """What a load or store is called with, and the same in plain arrays
    of shape (PROGRAMS, *shape).
    """

    buffer: Buffer
    storage: np.ndarray
    origin: int
    shape: tuple[int, ...]
    offsets: Any
    mask: Any
    active: np.ndarray | None
    index: np.ndarray
    on: np.ndarray

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def call(self) -> tuple[Any, ...]:
        return self.buffer, self.offsets, self.rank

    @property
    def inside(self) -> np.ndarray:
        in_storage = (self.index >= 0) & (self.index < len(self.storage))
        if self.buffer.bounds == "storage":
            return in_storage
        view = self.buffer.tensor
        numbers = torch.arange(len(self.storage))
        own = numbers.as_strided(view.shape, view.stride(), self.origin)
        return in_storage & np.isin(self.index, own.numpy())

    def first_fault(self) -> tuple[int, ...] | None:
        """(program, *lane) of the first element that is on and outside, programs first."""
        faults = np.argwhere(self.on & ~self.inside)
        return tuple(faults[0].tolist()) if len(faults) else None

    def assert_is_the_fault(self, raised: OutOfBoundsAccess) -> None:
        first = self.first_fault()
        assert first is not None
        assert raised.program == first[0]
        assert raised.index == self.index[first] - self.origin
        for lane, expected in zip(raised.place, first[1:]):
            assert lane in (0, expected)  # 0 along dimensions that the access does not depend on


@st.composite
def accesses(draw: Any) -> Access:
    dtype = draw(st.sampled_from(DTYPES))
    size = draw(st.sampled_from([0, 1, 5, 40, 100]))
    start = draw(st.integers(0, size))
    numbers = torch.arange(size) % 100
    whole = (numbers % 2 == 1) if dtype == torch.bool else numbers.to(dtype)
    view = draw(st.sampled_from([whole[start:], whole[start::3], whole[:start], grid_in(whole)]))
    storage = torch.empty(0, dtype=dtype).set_(view.untyped_storage())
    bounds = draw(st.sampled_from(["storage", "storage", "view"]))
    buffer = Buffer("x", view, as_numpy(storage).dtype, bounds=bounds)
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3)))
    offsets, plain = draw(offset_tiles(shape, len(storage)))
    mask, on = draw(mask_tiles(shape))
    each = st.lists(st.booleans(), min_size=PROGRAMS, max_size=PROGRAMS)
    active = draw(st.one_of(st.none(), each))
    if active is not None:
        active = np.array(active if any(active) else [True] * PROGRAMS)
        on = on & active.reshape((-1,) + (1,) * len(shape))
    origin = int(view.storage_offset())
    index = np.broadcast_to(plain, (PROGRAMS, *shape)) + origin
    return Access(buffer, as_numpy(storage), origin, shape, offsets, mask, active, index, on)


def grid_in(whole: torch.Tensor) -> torch.Tensor:
    """A transposed matrix with holes between its rows, or what there is room for."""
    return whole[: len(whole) // 10 * 10].view(-1, 10)[:, 2:5].T


@st.composite
def offset_tiles(draw: Any, shape: tuple[int, ...], size: int) -> tuple[Any, np.ndarray]:
    """Offsets as an affine tile or an array, of all programs or of each;
    mostly near the storage.
    """
    near = st.integers(-2, max(size - 3, 1))
    if draw(st.booleans()):
        base: Any = draw(near)
        match draw(st.sampled_from(["all", "each", "evenly spaced"])):
            case "each":
                base = np.array([draw(near) for _ in range(PROGRAMS)])
            case "evenly spaced":
                base = Progression(base, draw(st.integers(-6, 6)), PROGRAMS)
        strides = tuple(draw(st.sampled_from([0, 1, 1, 2, 5, -1])) if n > 1 else 0 for n in shape)
        extents = tuple(n if s or draw(st.booleans()) else 1 for n, s in zip(shape, strides))
        tile = AffineTile(base, strides, extents, np.dtype(np.int64))
        plain = np.zeros((PROGRAMS, *shape), np.int64)
        plain += as_array(base).reshape((-1,) + (1,) * len(shape))
        for axis, (n, stride) in enumerate(zip(shape, strides)):
            plain += (np.arange(n) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        return tile, plain
    leading = draw(st.sampled_from([(), (PROGRAMS,), (1,)]))
    lazy = tuple(n if draw(st.booleans()) else 1 for n in shape)
    count = int(np.prod(leading + lazy))
    flat = draw(st.lists(near, min_size=count, max_size=count))
    array = np.array(flat, np.int64).reshape(leading + lazy)
    return array, np.broadcast_to(array, (PROGRAMS, *shape))


@st.composite
def mask_tiles(draw: Any, shape: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """No mask, a box (of all programs or of each), or any array."""
    everyone = (PROGRAMS, *shape)
    kind = draw(st.sampled_from(["none", "box", "box", "array"]))
    if kind == "none":
        return None, np.ones(everyone, bool)
    if kind == "array":
        lazy = tuple(n if draw(st.booleans()) else 1 for n in shape)
        leading = draw(st.sampled_from([(), (PROGRAMS,)]))
        count = int(np.prod(leading + lazy))
        flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        array = np.array(flags).reshape(leading + lazy)
        return array, np.broadcast_to(array, everyone)
    intervals, on = {}, np.ones(everyone, bool)
    for axis, n in enumerate(shape):
        if draw(st.booleans()):
            continue
        each = st.lists(st.integers(0, n), min_size=PROGRAMS, max_size=PROGRAMS)
        start, stop = (draw(st.one_of(st.integers(0, n), each.map(np.array))) for _ in range(2))
        intervals[axis] = (start, stop)
        position = np.arange(n).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        column = (-1,) + (1,) * len(shape)
        on &= (position >= np.reshape(start, column)) & (position < np.reshape(stop, column))
    return BoxMask(intervals, shape), on


def element_for(access: Access, draw: Any, per_lane: bool) -> np.ndarray:
    """Values of the buffer's type: one, one a program, or one an element."""
    shapes: list[tuple[int, ...]] = [(1,) * access.rank]
    if per_lane:
        shapes += [(PROGRAMS, *access.shape), access.shape, (PROGRAMS,) + (1,) * access.rank]
    shape = draw(st.sampled_from(shapes))
    numbers: np.ndarray = np.arange(int(np.prod(shape))).reshape(shape) + draw(st.integers(1, 50))
    if access.storage.dtype == np.bool_:
        numbers = numbers % 2 == 0
    return np.asarray(numbers.astype(access.storage.dtype))


@pytest.mark.slow
@bounded
@given(accesses(), st.data())
def test_loads(access: Access, data: Any) -> None:
    other = element_for(access, data.draw, per_lane=True) if data.draw(st.booleans()) else None
    other = other if access.mask is not None else None
    keywords = {"mask": access.mask, "other": other, "active": access.active}
    before = access.storage.copy()
    if access.first_fault() is not None:
        with pytest.raises(OutOfBoundsAccess) as raised:
            global_memory.load(*access.call, **keywords)
        access.assert_is_the_fault(raised.value)
        return
    got = global_memory.load(*access.call, **keywords)
    assert got.dtype == access.storage.dtype
    off = np.zeros((), access.storage.dtype) if other is None else other
    expected = np.broadcast_to(off, access.on.shape).copy()
    for place in np.argwhere(access.on):
        expected[tuple(place)] = access.storage[access.index[tuple(place)]]
    takes_part = np.ones(PROGRAMS, bool) if access.active is None else access.active
    everyone = np.broadcast_to(got, access.on.shape)
    assert_same(everyone[takes_part], expected[takes_part])
    assert_same(access.storage, before)


@pytest.mark.slow
@bounded
@given(accesses(), st.data())
def test_stores(access: Access, data: Any) -> None:
    value = element_for(access, data.draw, per_lane=True)
    expected = access.storage.copy()
    keywords = {"mask": access.mask, "active": access.active}
    if access.first_fault() is not None:
        with pytest.raises(OutOfBoundsAccess) as raised:
            global_memory.store(*access.call, value, **keywords)
        access.assert_is_the_fault(raised.value)
        assert_same(access.storage, expected)  # nothing was written
        return
    global_memory.store(*access.call, value, **keywords)
    everyone = np.broadcast_to(value, access.on.shape)
    for place in np.argwhere(access.on):  # program after program, lane after lane
        expected[access.index[tuple(place)]] = everyone[tuple(place)]
    assert_same(access.storage, expected)


@pytest.mark.parametrize("cut", range(PROGRAMS))
def test_programs_that_write_to_one_place_write_in_order(cut: int) -> None:
    """The second and third program overwrite what the one before them wrote,
    whichever of them is cut short by its mask.
    """
    out = torch.zeros(8)
    buffer = Buffer("out", out, np.dtype(np.float32))
    offsets = AffineTile(np.array([0, 1, 2]), (1,), (4,), np.dtype(np.int64))
    stops = np.array([4, 4, 4])
    stops[cut] = 3
    value = np.array([[1.0], [2.0], [3.0]], np.float32)
    global_memory.store(buffer, offsets, 1, value, mask=BoxMask({0: (0, stops)}, (4,)))
    expected = np.zeros(8, np.float32)
    for program in range(PROGRAMS):
        expected[program : program + stops[program]] = program + 1
    assert out.tolist() == expected.tolist()


# Addresses


@dataclass
class Addressed:
    """An access through addresses into three tensors;
    `lanes` lists (program, *lane), tensor and element in program order.
    """

    tensors: list[torch.Tensor]
    addresses: np.ndarray
    mask: np.ndarray | None
    active: np.ndarray | None
    lanes: list[tuple[tuple[int, ...], int, int]]

    @property
    def call(self) -> tuple[Any, ...]:
        kind = as_numpy(self.tensors[0]).dtype
        space = AddressSpace([Buffer(f"x{i}", t, kind) for i, t in enumerate(self.tensors)])
        return space.elements(kind), self.addresses, self.addresses.ndim - 1

    @property
    def keywords(self) -> dict[str, Any]:
        return {"mask": self.mask, "active": self.active}

    def contents(self) -> list[list[Any]]:
        return [as_numpy(tensor).tolist() for tensor in self.tensors]


@st.composite
def addressed(draw: Any) -> Addressed:
    dtype = draw(st.sampled_from([torch.int8, torch.int32, torch.float64]))
    tensors = [torch.arange(7).to(dtype) * (i + 1) for i in range(3)]
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 4]), min_size=0, max_size=2)))
    everyone = (PROGRAMS, *shape)
    count = int(np.prod(everyone))
    targets = st.tuples(
        st.sampled_from(draw(st.sampled_from([[0], [0, 2], [0, 1, 2]]))), st.integers(0, 6)
    )
    chosen = draw(st.lists(targets, min_size=count, max_size=count))
    wanted = [tensors[number][element].data_ptr() for number, element in chosen]
    addresses = np.array(wanted).reshape(everyone)
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    mask = np.array(draw(flags)).reshape(everyone) if draw(st.booleans()) else None
    some = np.array(draw(st.lists(st.booleans(), min_size=PROGRAMS, max_size=PROGRAMS)))
    active = some if some.any() and draw(st.booleans()) else None
    on = np.ones(everyone, bool) if mask is None else mask
    on = on if active is None else on & active.reshape((-1,) + (1,) * len(shape))
    addresses = np.where(on, addresses, 12345)  # lanes that are off may point anywhere
    lanes = [(place, *target) for place, target in zip(np.ndindex(*everyone), chosen) if on[place]]
    return Addressed(tensors, addresses, mask, active, lanes)


@pytest.mark.slow
@bounded
@given(addressed())
def test_loads_through_addresses(access: Addressed) -> None:
    contents = access.contents()
    off = np.full(access.addresses.shape, 77, as_numpy(access.tensors[0]).dtype)
    found = global_memory.load(*access.call, other=off, **access.keywords)
    expected = off.copy()
    for place, number, element in access.lanes:
        expected[place] = contents[number][element]
    takes_part = slice(None) if access.active is None else access.active
    everyone = np.broadcast_to(found, expected.shape)
    assert_same(everyone[takes_part], expected[takes_part])


@pytest.mark.slow
@bounded
@given(addressed())
def test_stores_and_atomics_through_addresses(access: Addressed) -> None:
    contents = access.contents()
    kind = as_numpy(access.tensors[0]).dtype
    value = np.arange(access.addresses.size).reshape(access.addresses.shape).astype(kind)
    global_memory.store(*access.call, value, **access.keywords)
    for place, number, element in access.lanes:
        contents[number][element] = value[place]
    assert access.contents() == contents

    operation = "fadd" if kind.kind == "f" else "add"
    extent = access.addresses.shape[1:], PROGRAMS
    found = global_memory.atomic(*access.call, operation, value, *extent, **access.keywords)
    expected = np.zeros_like(value)
    for place, number, element in access.lanes:
        expected[place] = contents[number][element]
        contents[number][element] = (kind.type(contents[number][element]) + value[place]).item()
    assert found is not None
    assert_same(found, expected)
    assert access.contents() == contents
