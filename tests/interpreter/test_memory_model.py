"""Loads, stores and atomics against models that walk from element to element."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
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
    """What a load or store is called with, and the same in arrays of shape (PROGRAMS, *shape)."""

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
    def call(self) -> tuple[Any, Any, int]:
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
        first: Any = self.first_fault()
        assert (raised.program, raised.index) == (first[0], self.index[first] - self.origin)
        for lane, expected in zip(raised.place, first[1:]):
            assert lane in (0, expected)  # 0 along dimensions that the access does not depend on


@st.composite
def accesses(draw: Any) -> Access:
    dtype = draw(st.sampled_from(DTYPES))
    size = draw(st.sampled_from([0, 1, 5, 40, 100]))
    start = draw(st.integers(0, size))
    numbers = torch.arange(size) % 100
    whole = (numbers % 2 == 1) if dtype == torch.bool else numbers.to(dtype)
    grid = whole[: size // 10 * 10].view(-1, 10)[:, 2:5].T
    view = draw(st.sampled_from([whole[start:], whole[start::3], whole[:start], grid]))
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


@st.composite
def offset_tiles(draw: Any, shape: tuple[int, ...], size: int) -> tuple[Any, np.ndarray]:
    """Offsets as an affine tile or an array, of all programs or each; mostly near the storage."""
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


def element_for(access: Access, draw: Any) -> np.ndarray:
    """Values of the buffer's type: one, one a program, or one an element."""
    ones, every = (1,) * access.rank, access.shape
    shape = draw(st.sampled_from([ones, (PROGRAMS, *every), every, (PROGRAMS, *ones)]))
    numbers: np.ndarray = np.arange(int(np.prod(shape))).reshape(shape) + draw(st.integers(1, 50))
    if access.storage.dtype == np.bool_:
        numbers = numbers % 2 == 0
    return np.asarray(numbers.astype(access.storage.dtype))


@pytest.mark.slow
@bounded
@given(accesses(), st.data())
def test_loads(access: Access, data) -> None:
    other = element_for(access, data.draw) if data.draw(st.booleans()) else None
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
def test_stores(access: Access, data) -> None:
    value = element_for(access, data.draw)
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
def test_programs_that_write_to_one_place_write_in_order(cut) -> None:
    """The second and third program overwrite what those before wrote, whichever mask is short."""
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


@dataclass
class Addressed:
    """An access to three tensors by address; `lanes` lists (program, *lane), tensor, element."""

    tensors: list[torch.Tensor]
    addresses: np.ndarray
    mask: np.ndarray | None
    active: np.ndarray | None
    lanes: list[tuple[tuple[int, ...], int, int]]

    @property
    def call(self) -> tuple[Any, Any, int]:
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
def test_loads_through_addresses(access) -> None:
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
    shape = access.addresses.shape[1:]
    options = access.keywords
    found = global_memory.atomic(*access.call, operation, value, shape, PROGRAMS, **options)
    expected = np.zeros_like(value)
    for place, number, element in access.lanes:
        expected[place] = contents[number][element]
        contents[number][element] = (kind.type(contents[number][element]) + value[place]).item()
    assert found is not None
    assert_same(found, expected)
    assert access.contents() == contents


# Atomics against their definition: a loop that reads, changes and writes


FLOATS = [np.dtype(kind) for kind in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
INTEGERS = [np.dtype(f"i{size}") for size in (1, 2, 4, 8)]
fewer = settings(max_examples=300, derandomize=True)


INTEGER_RULES: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__, "and": int.__and__, "or": int.__or__, "xor": int.__xor__, "max": max,
    "min": min, "umax": max, "umin": min, "exchange": lambda _, operand: operand,
}  # fmt: skip
"""For numbers as large as they like, of those that are compared as unsigned integers too."""


def integer_rule(operation: str, state: int, operand: int, kind: np.dtype) -> int:
    """What is left of the result in the integer type."""
    count = 1 << 8 * kind.itemsize
    if operation.startswith("u"):
        state, operand = state % count, operand % count
    result = INTEGER_RULES[operation](state, operand) % count
    return result - count if result >= count // 2 else result


@st.composite
def places(draw: Any) -> tuple[int, np.ndarray]:
    """How many elements there are, and which an atomic goes to: once, often, or almost always."""
    size = draw(st.integers(1, 12))
    if draw(st.booleans()):
        targets = draw(st.lists(st.integers(0, size - 1), unique=True))
    else:
        few = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=30))
        crowd = [few[0]] * draw(st.sampled_from([0, 0, 64, 65, 200]))
        targets = few[:5] + crowd + few
    return size, np.array(targets, np.int64)


@pytest.mark.slow
@fewer
@given(places(), st.sampled_from(INTEGERS), st.sampled_from(sorted(INTEGER_RULES)), st.data())
def test_integers(where, kind, operation, data) -> None:
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    limits = np.iinfo(kind)
    elements = random.integers(limits.min, limits.max, size, kind, endpoint=True)
    operands = random.integers(limits.min, limits.max, len(targets), kind, endpoint=True)
    state, expected = elements.tolist(), []
    for target, operand in zip(targets.tolist(), operands.tolist()):
        expected.append(state[target])
        state[target] = integer_rule(operation, state[target], operand, kind)
    unasked = elements.copy()
    found = global_memory.update_in_turns(operation, elements, targets, operands)
    assert (found.dtype, found.tolist()) == (kind, expected)
    assert elements.tolist() == state
    global_memory.apply_in_turns(operation, unasked, targets, operands)
    assert unasked.tolist() == state


@pytest.mark.slow
@fewer
@given(places(), st.sampled_from(FLOATS), st.sampled_from(["fadd", "exchange"]), st.data())
def test_floats(where, kind, operation, data) -> None:
    """Every sum is rounded: in another order, or with fewer roundings, some bit would differ."""
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e30])
    numbers = random.standard_normal(size + len(targets)) * 10.0 ** random.integers(-5, 5)
    some_special = random.random(len(numbers)) < data.draw(st.sampled_from([0.0, 0.05]))
    with np.errstate(all="ignore"):
        numbers = np.where(some_special, random.choice(special, len(numbers)), numbers).astype(kind)
        elements, operands = numbers[:size].copy(), numbers[size:]
        state, expected = list(elements), []
        for target, operand in zip(targets.tolist(), operands):
            expected.append(state[target])
            total = kind.type(state[target] + operand)
            state[target] = operand if operation == "exchange" else total
        unasked = elements.copy()
        found = global_memory.update_in_turns(operation, elements, targets, operands)
        global_memory.apply_in_turns(operation, unasked, targets, operands)
    nan = np.isnan(np.array(state, kind).astype(np.float64))
    assert found.dtype == kind
    for got, want in ((found, np.array(expected, kind)), (elements, np.array(state, kind))):
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
        assert np.array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])
    assert unasked[~nan].tobytes() == elements[~nan].tobytes()


@settings(max_examples=30, derandomize=True)
@given(places(), st.sampled_from([2, 4, 8]), st.data())
def test_compare_and_swap(where, width, data) -> None:
    """Of few values, so that many comparisons hold."""
    size, targets = where
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    values = random.integers(0, np.iinfo(f"u{width}").max, 3, f"u{width}", endpoint=True)
    elements = random.choice(values, size)
    compared, new = random.choice(values, len(targets)), random.choice(values, len(targets))
    state, expected = elements.tolist(), []
    for target, old, replacement in zip(targets.tolist(), compared.tolist(), new.tolist()):
        expected.append(state[target])
        state[target] = replacement if state[target] == old else state[target]
    found = global_memory.swap_in_turns(elements, targets, compared, new)
    assert (found.dtype, found.tolist()) == (elements.dtype, expected)
    assert elements.tolist() == state


@pytest.mark.parametrize("addresses", [1, 1000])
def test_a_million_collisions_take_no_loop_over_elements(addresses) -> None:
    """A ticket counter, and a histogram with a few crowded bins."""
    random = np.random.default_rng(0)
    targets = np.minimum(random.geometric(0.01, 1_000_000), addresses) - 1
    elements = np.zeros(addresses, np.int64)
    found = global_memory.update_in_turns("add", elements, targets, np.ones(len(targets), np.int64))
    assert elements.tolist() == np.bincount(targets, minlength=addresses).tolist()
    for address in range(0, addresses, 100):
        assert np.array_equal(found[targets == address], np.arange(elements[address]))
