"""The values of a trace, stored compactly: equal ones once, large ones as a summary."""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import ml_dtypes
import numpy

from kernellab.common.saved_files import SavedValue
from kernellab.common.text import index_text
from kernellab.errors import NotRecorded


@dataclass(frozen=True, eq=False)
class TilePointer:
    """A pointer, or a tile of pointers: an argument, and how many elements beyond its first.

    Attributes:
        argument: the name of the kernel's argument; "" for addresses, in bytes.
        offsets: int64, in elements of the pointee type.
    """

    argument: str
    offsets: numpy.ndarray

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TilePointer):
            return NotImplemented
        same = self.argument == other.argument
        return same and numpy.array_equal(self.offsets, other.offsets)

    def __repr__(self) -> str:
        start = self.argument or "address"
        if self.offsets.ndim == 0:
            return f"{start} + {int(self.offsets)}"
        return f"{start} + {numpy.array2string(self.offsets, threshold=6, edgeitems=2)}"


# The visible parts of a value that may be too large to keep: its summary and its thumbnail.


THUMBNAIL_SIDE = 64
"""Rows and columns of a thumbnail, at most."""


@dataclass(frozen=True)
class Summary:
    """The facts that are kept of every value, however large.

    Attributes:
        shape: () for a scalar.
        dtype: NumPy's name, "float32", "bfloat16", "bool"; "" for values that are not numbers.
        low, high, mean: of elements that are not NaN, or None; a mask's `mean` is its share.
        nans, infinities: how many elements are NaN, and how many infinite.
    """

    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None
    mean: float | None
    nans: int = 0
    infinities: int = 0

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def range_text(self) -> str:
        """ "0.25", "0 .. 1.5", "all NaN", "empty", with NaNs and infinities; "3 of 8 on"."""
        if self.dtype == "bool" and self.mean is not None:
            on = round(self.mean * self.size)
            if on in (0, self.size):
                return "all on" if on else "all off"
            return f"{on:,} of {self.size:,} on"
        words = []
        if self.low is not None and self.high is not None:
            ends = [number_text(self.low), number_text(self.high)]
            words.append(ends[0] if ends[0] == ends[1] else " .. ".join(ends))
        elif self.size == 0:
            words.append("empty")
        if self.nans:
            words.append("all NaN" if self.nans == self.size else f"{self.nans:,} NaN")
        if self.infinities:
            words.append(f"{self.infinities:,} infinite")
        return ", ".join(words)


def number_text(number: float) -> str:
    """At most six digits: "1024", "0.333333", "-1.5e+10"."""
    if isinstance(number, int) or (math.isfinite(number) and number == int(number)):
        return str(int(number)) if abs(number) < 1e15 else f"{number:.6g}"
    return f"{number:.6g}"


_PART = 1 << 18
"""Elements that are looked at together: of a large array never a second one is made."""


def summarize(value: Any) -> Summary:
    """The summary of a NumPy array, of a pointer's offsets, or of a constant."""
    if isinstance(value, TilePointer):
        value = value.offsets
    if isinstance(value, bool | int | float):
        value = numpy.asarray(value) if abs(value) < 2**63 else numpy.asarray(float(value))
    elif not isinstance(value, numpy.ndarray | numpy.generic):
        return Summary((), "", None, None, None)
    array = numpy.asarray(value)
    if array.size <= _PART:
        return _summary_of_part(array)
    flat = array.reshape(-1)
    parts = [_summary_of_part(flat[at : at + _PART]) for at in range(0, flat.size, _PART)]
    return joined_summaries(parts, tuple(array.shape))


def joined_summaries(parts: Sequence[Summary], shape: tuple[int, ...]) -> Summary:
    """The summary of an array of that shape whose elements are those of the parts, one or more."""
    known = [part for part in parts if part.low is not None]
    numbers = sum(part.size - part.nans for part in known)
    mean = sum(
        part.mean * ((part.size - part.nans) / numbers) for part in known if part.mean is not None
    )
    return Summary(
        shape,
        parts[0].dtype,
        min((part.low for part in known if part.low is not None), default=None),
        max((part.high for part in known if part.high is not None), default=None),
        float(mean) if known else None,
        sum(part.nans for part in parts),
        sum(part.infinities for part in parts),
    )


def _summary_of_part(array: numpy.ndarray) -> Summary:
    shape, dtype = tuple(array.shape), array.dtype.name
    if array.dtype.kind in "biu":
        if not array.size:
            return Summary(shape, dtype, None, None, None)
        return Summary(shape, dtype, int(array.min()), int(array.max()), float(array.mean()))
    if array.dtype.kind != "f":  # bfloat16, fp8
        array = array.astype(numpy.float32)
    with numpy.errstate(all="ignore"):
        nan = numpy.isnan(array)
        nans = int(nan.sum())
        infinities = int(numpy.isinf(array).sum())
        numbers = array[~nan] if nans else array
        if not numbers.size:
            return Summary(shape, dtype, None, None, None, nans)
        mean = float(numbers.mean(dtype=numpy.float64))
    return Summary(shape, dtype, float(numbers.min()), float(numbers.max()), mean, nans, infinities)


def thumbnail_of(value: Any, side: int = THUMBNAIL_SIDE) -> numpy.ndarray:
    """A small float32 picture of a tile: rows of its last dimension,
    neighbors averaged if there are too many.

    A tile of one dimension is folded into rows, in reading order; places left over in the last
    row repeat the last element. Where a NaN or an infinity is among the neighbors, it shows.
    """
    if isinstance(value, TilePointer):
        value = value.offsets
    array = numpy.asarray(value)
    rows, columns = picture_extents(array.shape, side)
    down, across = picture_edges(rows, side), picture_edges(columns, side)
    picture = numpy.zeros((down.size - 1, across.size - 1), numpy.float32)
    flat = array.reshape(-1)
    for top, bottom in _groups(down, columns):
        height = int(down[bottom] - down[top])
        band = _rows_between(flat, columns, int(down[top]), height)
        for left, right in _groups(across, height):
            part = band[:, across[left] : across[right]]
            edges = down[top : bottom + 1] - down[top], across[left : right + 1] - across[left]
            picture[top:bottom, left:right] = _averaged(part, *edges)
    return picture


def picture_edges(extent: int, side: int) -> numpy.ndarray:
    """Where the cells of an axis of a picture begin, and the end of the last one."""
    cells = min(extent, side)
    return numpy.append(numpy.arange(cells) * extent // max(cells, 1), extent)


def _groups(edges: numpy.ndarray, across: int) -> Iterator[tuple[int, int]]:
    """An axis's cells, from and to, that are averaged: as many as have `_PART` elements."""
    first, last = 0, edges.size - 1
    while first < last:
        reach = edges[first] + _PART // max(across, 1)
        after = max(int(numpy.searchsorted(edges, reach, side="right")) - 1, first + 1)
        yield first, after
        first = after


def _rows_between(flat: numpy.ndarray, columns: int, first: int, count: int) -> numpy.ndarray:
    rows = flat[first * columns : (first + count) * columns]
    left_over = count * columns - rows.size
    if left_over:
        rows = numpy.concatenate([rows, numpy.repeat(rows[-1:], left_over)])
    return rows.reshape(count, columns)


def _averaged(part: numpy.ndarray, down: numpy.ndarray, across: numpy.ndarray) -> numpy.ndarray:
    """The means of the cells between edges, float64; of single elements these themselves."""
    if part.dtype.kind not in "fiub":
        part = part.astype(numpy.float32)
    with numpy.errstate(all="ignore"):  # unwritten memory may hold any bits
        result = part.astype(numpy.float64)
        for axis, edges in enumerate((down, across)):
            if edges.size - 1 < result.shape[axis]:
                counts = numpy.diff(edges)
                sums = numpy.add.reduceat(result, edges[:-1], axis=axis)
                result = sums / (counts[:, None] if axis == 0 else counts)
    return result


def picture_extents(shape: tuple[int, ...], side: int = THUMBNAIL_SIDE) -> tuple[int, int]:
    """Rows and columns in which a tile of that shape is drawn, before neighbors are averaged."""
    size = math.prod(shape)
    if not size:
        return 0, 0
    if len(shape) >= 2:
        return size // shape[-1], shape[-1]
    if size <= side:
        return 1, size
    width = 1 << math.ceil(math.log2(math.sqrt(size)))
    return -(-size // width), width


LARGEST_EXACT = 64 * 1024
"""The largest value kept exactly by default, in bytes: a 128x128 tile of float32."""

TOTAL_EXACT = 256 * 1024 * 1024
"""Once so many bytes of variables are kept exactly, further ones are kept as summaries."""

TOTAL_MEMORY = 256 * 1024 * 1024
"""The most bytes that are kept for memory: arguments, what is written, and where."""

_PENDING_BYTES = 32 * 1024 * 1024
"""The bytes of new values that are held before they are compared and compressed."""

_UNPACKED_ONCE = 1 << 20
"""What is seen of larger values, in bytes, is kept once somebody has looked."""

_COMPRESSION = 1

Kind = Literal["tile", "pointer", "constant"]


@dataclass(eq=False, repr=False)
class StoredValue:
    """One distinct value of a trace.

    Attributes:
        kind: "tile" (an array or a NumPy scalar), "pointer", or "constant" (anything else).
        digest: equal for equal values, and only for them.
        dtype, shape: of the array; of a pointer's offsets.
        argument: what a pointer points into.
        data: the array, or its elements compressed; None if only a summary is kept.
    """

    kind: Kind
    digest: bytes
    dtype: str
    shape: tuple[int, ...]
    argument: str = ""
    data: numpy.ndarray | bytes | None = None
    constant: Any = None
    known_summary: Summary | None = None
    known_thumbnail: numpy.ndarray | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the value itself is kept, not its summary alone."""
        return self.kind == "constant" or self.data is not None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * dtype_named(self.dtype).itemsize if self.dtype else 0

    def exact(self) -> Any:
        """The value: an array (0-d: a NumPy scalar), a TilePointer, or a constant. Raises
        NotRecorded: only a summary was kept.
        """
        if self.kind == "constant":
            return self.constant
        if self.data is None:
            raise NotRecorded(
                f"Only a summary of this value was kept: {self.type_text()}, {self.text()}, "
                f"{self.nbytes:,} bytes.",
                advice=(
                    "Call trace.at(step), which computes a variable again, or keep the value: "
                    f"kernellab.trace(..., exact_bytes={self.nbytes})."
                ),
            )
        return self.as_value(self._array())

    def copied(self) -> numpy.ndarray:
        """The array, which is not shared. Raises as `exact`."""
        if isinstance(self.data, bytes):
            return self._array()
        value = self.exact()
        return numpy.array(value.offsets if isinstance(value, TilePointer) else value)

    def as_value(self, array: numpy.ndarray) -> Any:
        """The value of a kernel's variable for this array."""
        if self.kind == "pointer":
            return TilePointer(self.argument, array)
        return array[()] if array.ndim == 0 else array

    @property
    def summary(self) -> Summary:
        """Shape, dtype, range, mean, NaNs."""
        if self.known_summary is None:
            self._look()
            assert self.known_summary is not None
        return self.known_summary

    def summary_of(self, array: numpy.ndarray) -> Summary:
        """`summary`, from the array where somebody has unpacked it."""
        if self.known_summary is None:
            self.known_summary = summarize(array)
        return self.known_summary

    def _look(self) -> None:
        """Make the summary, and the thumbnail too of an array that takes long to unpack."""
        value = self.exact()
        self.known_summary = summarize(value)
        if self.nbytes > _UNPACKED_ONCE:
            self.known_thumbnail = thumbnail_of(value)

    @property
    def thumbnail(self) -> numpy.ndarray:
        """A picture of at most 64 by 64; see `thumbnail_of`."""
        if self.known_thumbnail is not None:
            return self.known_thumbnail
        if self.kind == "constant":
            return numpy.zeros((0, 0), numpy.float32)
        if self.nbytes > _UNPACKED_ONCE:
            self._look()
            assert self.known_thumbnail is not None
            return self.known_thumbnail
        return thumbnail_of(self._array())

    def text(self) -> str:
        """One short line: the value itself if it is a scalar, else its range."""
        if self.kind == "constant":
            return repr(self.constant)
        if not self.shape and self.is_exact:
            value = self.exact()
            if self.kind == "pointer":
                return repr(value)
            return str(bool(value)) if self.dtype == "bool" else number_text(value.item())
        range_text = self.summary.range_text
        return (
            f"{self.argument or 'address'} + {range_text}" if self.kind == "pointer" else range_text
        )

    def type_text(self) -> str:
        """ "float32[128]", "pointer[64, 64]", "int"; "descriptor" and the like."""
        if self.kind == "constant":
            return _word_of(self.constant)
        shape = index_text(self.shape)
        return f"pointer{shape}" if self.kind == "pointer" else f"{self.dtype}{shape}"

    def __repr__(self) -> str:
        if self.kind == "constant":
            return f"<{self.text()}>" if not self.text().startswith("<") else self.text()
        return f"<{self.type_text()}: {self.text()}>"

    def pack(self) -> None:
        """Compress the data, if it is not yet."""
        if isinstance(self.data, numpy.ndarray):
            self.data = compressed(self.data)

    def packed(self) -> bytes | None:
        """The compressed data; None if only a summary is kept."""
        if isinstance(self.data, numpy.ndarray):
            return compressed(self.data)
        return self.data

    def _array(self) -> numpy.ndarray:
        if isinstance(self.data, bytes):
            return decompressed(self.data, self.dtype, self.shape)
        assert self.data is not None
        return self.data


def _word_of(constant: Any) -> str:
    if constant is None:
        return "none"
    if not isinstance(constant, SavedValue):
        return type(constant).__name__
    if _DTYPE.fullmatch(constant.shown):
        return "dtype"
    named = re.match(r"<(?:class '[\w.]*\.)?(\w+)|(\w+)\(", constant.shown)
    word = (named[1] or named[2]).removesuffix("Function") if named else ""
    return {"JIT": "function", "": "object"}.get(word, word)


_DTYPE = re.compile(r"(u?int|fp|bf|pointer<)\d*\w*>?")
"""How Triton writes its dtypes."""


_NUMPYS_OWN = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)


@lru_cache(maxsize=64)
def dtype_named(name: str) -> numpy.dtype:
    """The dtype of numbers or booleans of that name, those of ml_dtypes included. Raises TypeError:
    there is none, as objects, texts and records are not numbers.
    """
    if name in _NUMPYS_OWN:
        return numpy.dtype(name)
    kind = getattr(ml_dtypes, name, None)
    if not isinstance(kind, type) or numpy.dtype(kind).name != name:
        raise TypeError(f"{name!r} is not a type of numbers")
    return numpy.dtype(kind)


def compressed(array: numpy.ndarray) -> bytes:
    """The elements deflated byte plane by byte plane: exponents compress, mantissas do not."""
    flat = numpy.ascontiguousarray(array).reshape(-1)
    planes = flat.view(numpy.uint8).reshape(-1, array.dtype.itemsize).T
    return zlib.compress(planes.tobytes(), _COMPRESSION)


_STEP = 1 << 16
"""Compressed bytes that are unpacked at once."""

_MOST_AT_ONCE = 1 << 20
"""Bytes that come of them at once."""


def inflated(data: bytes, size: int) -> Iterator[bytes]:
    """Deflated data, which must unpack to `size` bytes, part by part; not a part more is unpacked.
    Raises ValueError: it does not, at the latest when the last part was taken.
    """
    unpacking = zlib.decompressobj()
    left = size
    try:
        for at in range(0, len(data), _STEP):
            waiting: bytes = data[at : at + _STEP]
            while waiting and not unpacking.eof:
                # One byte more, so that the end is seen.
                content = unpacking.decompress(waiting, min(left + 1, _MOST_AT_ONCE))
                waiting = unpacking.unconsumed_tail
                left -= len(content)
                if left < 0:
                    raise ValueError(f"compressed data is not of {size:,} bytes")
                yield content
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if left or not unpacking.eof:
        raise ValueError(f"compressed data is not of {size:,} bytes")


def decompressed(data: bytes, dtype: str, shape: tuple[int, ...]) -> numpy.ndarray:
    """What `compressed` made `data` of. Raises ValueError: it is damaged."""
    kind, count = dtype_named(dtype), math.prod(shape)
    elements = numpy.empty((count, kind.itemsize), numpy.uint8)
    at = 0
    for part in inflated(data, elements.size):
        numbers = numpy.frombuffer(part, numpy.uint8)
        while numbers.size:
            plane, first = divmod(at, count)
            some = numbers[: count - first]
            elements[first : first + some.size, plane] = some
            at, numbers = at + some.size, numbers[some.size :]
    return elements.reshape(-1).view(kind).reshape(shape)


class ValueStore:
    """Values by number. Equal values are kept once.

    Adding is cheap: a value is compared and summarized when it is needed,
    or when many have accumulated. The values that are added must not change afterwards.
    """

    def __init__(
        self, largest: int = LARGEST_EXACT, total: int = TOTAL_EXACT, memory: int = TOTAL_MEMORY
    ) -> None:
        """An empty store.

        Args:
            largest: bytes of the largest value that is kept exactly by default.
            total: bytes of all of them.
            memory: bytes of those that are to be kept however large they are.
        """
        self.largest = largest
        self._left = total
        self._memory_left = memory
        self._distinct: list[StoredValue] = []
        self._by_digest: dict[bytes, int] = {}
        self._places: list[int] = []
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._whole: set[int] = set()
        """Pending numbers that are kept exactly whatever their size."""
        self._numbers: dict[int, int] = {}
        """id of a pending object, which thereby stays alive -> its number."""

    def add(self, value: Any, *, whole: bool = False) -> int:
        """The number of a value: a NumPy array or scalar, something that NumPy makes an array of,
        a TilePointer, or any other object.

        With `whole` it is kept exactly however large it is, while there is space,
        even if an equal one was added before without.
        """
        number = self._numbers.get(id(value), len(self))
        if whole:
            self._whole.add(number)
        if number < len(self):
            return number
        self._numbers[id(value)] = number
        self._pending.append(value)
        self._pending_bytes += getattr(value, "nbytes", 0)
        if self._pending_bytes > _PENDING_BYTES:
            self._settle()
            for stored in self._distinct:
                stored.pack()
        return number

    def __getitem__(self, number: int) -> StoredValue:
        if self._pending:
            self._settle()
        return self._distinct[self._places[number]]

    def __len__(self) -> int:
        return len(self._places) + len(self._pending)

    def distinct(self) -> Iterator[StoredValue]:
        self._settle()
        return iter(self._distinct)

    def places(self) -> list[int]:
        """For each number, its value's place among the distinct ones."""
        self._settle()
        return self._places

    @classmethod
    def restored(cls, distinct: list[StoredValue], places: list[int]) -> ValueStore:
        store = cls()
        store._distinct, store._places = distinct, places
        store._by_digest = {stored.digest: place for place, stored in enumerate(distinct)}
        return store

    def _settle(self) -> None:
        for value in self._pending:
            kind, argument, array = _taken_apart(value)
            digest = _digest(kind, argument, value if array is None else array)
            place = self._by_digest.get(digest)
            whole = len(self._places) in self._whole
            if place is None:
                place = self._by_digest[digest] = len(self._distinct)
                self._distinct.append(self._stored(kind, argument, value, array, digest, whole))
            elif (
                whole
                and array is not None
                and not self._distinct[place].is_exact
                and self._takes(array.nbytes, whole)
            ):
                self._distinct[place] = _exactly(kind, digest, argument, array)
            self._places.append(place)
        self._pending, self._pending_bytes = [], 0
        self._whole.clear()
        self._numbers.clear()

    def _stored(
        self,
        kind: Kind,
        argument: str,
        value: Any,
        array: numpy.ndarray | None,
        digest: bytes,
        whole: bool,
    ) -> StoredValue:
        if array is None:
            plain = type(value) in (type(None), bool, int, float, str)
            constant = value if plain else SavedValue(repr(value))
            return StoredValue("constant", digest, "", (), constant=constant)
        if self._takes(array.nbytes, whole):
            return _exactly(kind, digest, argument, array)
        return StoredValue(
            kind,
            digest,
            array.dtype.name,
            tuple(array.shape),
            argument,
            known_summary=summarize(array),
            known_thumbnail=thumbnail_of(array),
        )

    def _takes(self, nbytes: int, whole: bool) -> bool:
        """Return whether there is space for so many bytes; if so, reserve them."""
        if whole and nbytes <= self._memory_left:
            self._memory_left -= nbytes
            return True
        if nbytes <= min(self.largest, self._left):
            self._left -= nbytes
            return True
        return False


def _exactly(kind: Kind, digest: bytes, argument: str, array: numpy.ndarray) -> StoredValue:
    base = array.base
    if isinstance(base, numpy.ndarray) and base.nbytes > array.nbytes:
        array = array.copy()  # a small window would keep something larger alive
    name, shape = array.dtype.name, tuple(array.shape)
    return StoredValue(kind, digest, name, shape, argument, data=array)


def _taken_apart(value: Any) -> tuple[Kind, str, numpy.ndarray | None]:
    if isinstance(value, TilePointer):
        return "pointer", value.argument, numpy.asarray(value.offsets)
    if hasattr(value, "dtype") and hasattr(value, "__array__"):
        return "tile", "", numpy.asarray(value)
    return "constant", "", None


def _digest(kind: Kind, argument: str, value: Any) -> bytes:
    if not isinstance(value, numpy.ndarray):
        head = f"{kind} {type(value).__name__} {value!r}"
        return hashlib.blake2b(head.encode(), digest_size=16).digest()
    head = f"{kind} {argument} {value.dtype.name} {value.shape} "
    known = hashlib.blake2b(head.encode(), digest_size=16)
    known.update(numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8).data)
    return known.digest()
