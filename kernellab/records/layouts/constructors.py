"""Layouts made by hand, from an encoding or by families, and encodings' spelling."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kernellab.common import processes
from kernellab.common.arguments import at_most, check_flags, is_whole
from kernellab.common.text import shown, split_at_commas
from kernellab.errors import LayoutError, WorkerError, WorkerLost, nearest
from kernellab.records.layouts.linear import LinearTile, Shape, sizes

if TYPE_CHECKING:
    from kernellab.records.layouts import Layout, RegisterLayout, SharedLayout, TensorMemoryLayout

# How encodings are spelled: the keys of each family and what each holds, to say which one is
# wrong where Triton refuses an encoding.
#
# Triton alone decides what it takes. Nothing here refuses anything.


@dataclass(frozen=True)
class Kind:
    """The kind of a key's value."""

    words: str
    pattern: str
    """Of the whole text of a value of the kind."""


_NUMBERS = r"\[\s*(\d+\s*(,\s*\d+\s*)*)?\]"
_NUMBER = Kind("a non-negative integer", r"\d+(\s*:\s*\w+)?")
_LIST = Kind("a list of integers, as in [1, 0]", _NUMBERS)
_VECTORS = Kind(
    "a list of basis vectors, as in [[0, 1], [0, 2]]",
    rf"\[\s*({_NUMBERS}\s*(,\s*{_NUMBERS}\s*)*)?\]",
)
_WORD = Kind("true or false", "true|false")
_LAYOUT = Kind("an encoding, as in #ttg.blocked<{...}>", r"#[\w.]+\s*<.*>")
_BASES = Kind("lists of basis vectors by name, as in {warp = [[0, 1]]}", r"\{.*\}")


@dataclass(frozen=True)
class _Key:
    name: str
    kind: Kind
    instead: str = ""
    """The key that another version of Triton has in its place."""


def _keys(**kinds: Kind) -> tuple[_Key, ...]:
    return tuple(_Key(name, kind) for name, kind in kinds.items())


_BOXES = _keys(sizePerThread=_LIST, threadsPerWarp=_LIST, warpsPerCTA=_LIST, order=_LIST)
_PRODUCT = _keys(warpsPerCTA=_LIST, instrShape=_LIST)
_SWIZZLED = _keys(vec=_NUMBER, perPhase=_NUMBER, maxPhase=_NUMBER, order=_LIST)
_NEEDED: dict[str, tuple[_Key, ...]] = {
    "#ttg.blocked": _BOXES,
    "#ttg.slice": _keys(dim=_NUMBER, parent=_LAYOUT),
    "#ttg.dot_op": _keys(opIdx=_NUMBER, parent=_LAYOUT),
    "#ttg.nvidia_mma": (_Key("versionMajor", _NUMBER), *_PRODUCT),
    "#ttg.amd_mfma": (_Key("version", _NUMBER, "versionMajor"), *_PRODUCT),
    "#ttg.amd_wmma": (_Key("version", _NUMBER), _Key("ctaLayout", _BASES, "warpsPerCTA")),
    "#ttg.linear": _keys(register=_VECTORS, lane=_VECTORS, warp=_VECTORS, block=_VECTORS),
    "#ttg.swizzled_shared": _SWIZZLED,
    "#ttg.amd_rotating_shared": _SWIZZLED,
    "#ttg.nvmma_shared": _keys(
        swizzlingByteWidth=_NUMBER, transposed=_WORD, elementBitWidth=_NUMBER
    ),
    "#ttg.padded_shared": (_Key("order", _LIST, "offset"), _Key("shape", _LIST, "offset")),
    "#ttg.shared_linear": _keys(offset=_VECTORS, alignment=_NUMBER),
    "#ttng.tensor_memory_encoding": (
        *_keys(blockM=_NUMBER, blockN=_NUMBER), _Key("colStride", _NUMBER, "unpacked"),
    ),
}  # fmt: skip
"""Keys that a layout is not made without."""
_OPTIONAL = {
    "kWidth": _NUMBER, "versionMinor": _NUMBER, "isTransposed": _WORD, "isTranspose": _WORD,
    "fp4Padded": _WORD, "block": _VECTORS,
}  # fmt: skip
"""Keys that some families may do without, which hold the same in each of them."""


def misspelling(encoding: str, diagnostic: str) -> str:
    """Which part of a refused encoding is misspelled, as a sentence; "" if none is known to be.

    Args:
        encoding: as TTGIR writes it, with no aliases; its parents are looked at too.
        diagnostic: what Triton says, which decides whether a key unknown here is unknown there.
    """
    if not _is_balanced(encoding):
        return ""  # brackets that do not match: Triton says so, and what is a key is a guess
    diagnostic = diagnostic.replace(encoding, "")
    for family, body in _parts(encoding):
        if family not in _NEEDED:
            if "unknown attribute" not in diagnostic:
                continue
            close = nearest(family, _NEEDED)
            return f"{family} is not a layout. {close or 'There are ' + ', '.join(_NEEDED) + '.'}"
        problem = _misread(family, body) or _misspelled_key(
            family, dict(_entries(body)), diagnostic
        )
        if problem:
            return problem
    return ""


def misspelled_error(encoding: str, problem: str, detail: str) -> LayoutError:
    """The error of a misspelled encoding; the detail says what Triton made of it."""
    return LayoutError(problem, advice=f"The encoding is {encoding}\n{detail}")


_PADDINGS = r"\[\s*\d+\s*:\s*\+\s*\d+\s*(,\s*\d+\s*:\s*\+\s*\d+\s*)*\]"


def _misread(family: str, body: str) -> str:
    """The part of a body that is neither key and value nor an allowed list of paddings."""
    if family == "#ttg.padded_shared" and not re.match(_PADDINGS, body.strip()):
        return f"{family} must begin with its paddings (interval and size), as in [32:+4] {{...}}."
    unread = next((entry for entry in _flat(body) if not _NAMED.fullmatch(entry)), None)
    if unread is not None:
        return f"{unread!r} in {family} must be a key with its value, NAME = VALUE."
    return ""


def _misspelled_key(family: str, entries: dict[str, str], diagnostic: str) -> str:
    needed = {key.name: key for key in _NEEDED[family]}
    kinds = _OPTIONAL | {name: key.kind for name, key in needed.items()}
    missing = [k for k in needed.values() if k.name not in entries and k.instead not in entries]
    strange = [name for name in entries if name not in kinds]
    for key in missing:
        other = next((name for name in strange if nearest(name, [key.name])), "")
        if other:
            return f"{family} has no key {other!r}. Did you mean {key.name!r}, {key.kind.words}?"
    for name in strange:
        if re.search(rf"\b{re.escape(name)}\b", diagnostic):
            return f"{family} has no key {name!r}. Its keys are {', '.join(needed)}."
    for name, value in entries.items():
        if name in kinds and not re.fullmatch(kinds[name].pattern, value, re.DOTALL):
            return f"{name!r} of {family} must be {kinds[name].words}, got {value or 'nothing'}."
    if missing:
        return f"{family} needs the key {missing[0].name!r}, {missing[0].kind.words}."
    return ""


# Taking a text apart


def _parts(encoding: str) -> Iterator[tuple[str, str]]:
    """Family and body of an encoding and of each inside: ("#ttg.slice", "{dim = 1, ...}")."""
    for match in re.finditer(r"(#\w+\.\w+)\s*<", encoding):
        yield match[1], encoding[match.end() : _end(encoding, match.end())]


def _is_balanced(text: str) -> bool:
    """Return whether every bracket is closed by one of the same kind."""
    opened = []
    for letter in text:
        if letter in "<[{(":
            opened.append("<[{(".index(letter))
        elif letter in ">]})" and (not opened or opened.pop() != ">]})".index(letter)):
            return False
    return not opened


def _end(text: str, start: int) -> int:
    """The position at which a bracket before `start` is closed; the text's end if it is not."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] in "<[{(") - (text[place] in ">]})")
        if depth == 0:
            return place
    return len(text)


_NAMED = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)


def _entries(body: str) -> Iterator[tuple[str, str]]:
    for entry in _flat(body):
        if named := _NAMED.fullmatch(entry):
            yield named[1], named[2].strip()


def _flat(body: str) -> Iterator[str]:
    for entry in filter(None, split_at_commas(body)):
        braced = re.fullmatch(r"(?:\[.*\]\s*)?\{(.*)\}", entry, re.DOTALL)
        if braced:
            yield from _flat(braced[1])
        else:
            yield entry


# Layouts made by hand, for teaching: read from an encoding, or by one constructor for each
# family.

Sizes = Sequence[int] | int
"""Whole numbers by dimension; of a tile with one dimension its number alone will do."""


class MadeByHand:
    """What `Layout` has of constructors."""

    @staticmethod
    def parse(encoding: str, shape: Sizes, target: object = None) -> Layout:
        """The layout that an encoding gives a tile.

        Triton computes it in the worker process, since it aborts on some; the answer is kept.

        Args:
            encoding: as TTGIR writes it, with no aliases: "#ttg.blocked<{...}>".
            shape: of the tile, in elements.
            target: the GPU ("sm_90", "gfx942") that is to have such a layout; None for any.

        Raises:
            LayoutError: the encoding, its shape, or the layout on this target is not valid.
            TargetError: no such target.
        """
        if not isinstance(encoding, str):
            raise LayoutError(
                f"{encoding!r} is not an encoding.",
                advice="Pass it as a string, as TTGIR prints it.",
            )
        if len(encoding) > _LONGEST_ENCODING:
            raise LayoutError(
                f"encoding must have at most {_LONGEST_ENCODING:,} characters, got "
                f"{len(encoding):,}."
            )
        return _ask(encoding, _shape(shape), None if target is None else str(target))

    @staticmethod
    def blocked(
        *,
        shape: Sizes,
        size_per_thread: Sizes,
        threads_per_warp: Sizes,
        warps_per_cta: Sizes,
        order: Sizes,
    ) -> RegisterLayout:
        """Each thread holds a box of neighbors, warps boxes of those, the program boxes of these.

        Args:
            shape: of the tile; as below, a whole number will do for one dimension.
            size_per_thread, threads_per_warp, warps_per_cta: the boxes, by dimension.
            order: the dimensions, the fastest first.

        Raises LayoutError, here as in all that follow: what is given does not fit together.
        """
        fields = _fields(
            sizePerThread=_list(size_per_thread), threadsPerWarp=_list(threads_per_warp),
            warpsPerCTA=_list(warps_per_cta), order=_list(order),
        )  # fmt: skip
        return _registers(f"ttg.blocked<{fields}>", shape)

    @staticmethod
    def slice(*, shape: Sizes, dim: int, parent: Layout) -> RegisterLayout:
        """The parent's layout without its dimension `dim`: what a reduction along it leaves."""
        return _registers(f"ttg.slice<{{dim = {dim}, parent = {_encoding(parent)}}}>", shape)

    @staticmethod
    def dot_operand(
        *, shape: Sizes, operand: int, parent: Layout, k_width: int = 0
    ) -> RegisterLayout:
        """A matmul's operand in registers.

        Args:
            operand: 0 for A, 1 for B.
            k_width: neighbors along K in a thread; for mma.sync 32 over the element's bits.
        """
        width = {"kWidth": k_width} if k_width else {}
        fields = _fields(opIdx=operand, parent=_encoding(parent), **width)
        return _registers(f"ttg.dot_op<{fields}>", shape)

    @staticmethod
    def nvidia_mma(
        *, shape: Sizes, version: int, warps_per_cta: Sizes, instruction_shape: Sizes
    ) -> RegisterLayout:
        """The result of mma.sync (version 2, instruction shape [16, 8]) or wgmma (version 3, [16,
        N, K]: one warp's part).

        Blackwell's products (version 5) are in tensor memory: `Layout.tensor_memory`.
        """
        warps, size = _list(warps_per_cta), _list(instruction_shape)
        fields = _fields(versionMajor=version, versionMinor=0, warpsPerCTA=warps, instrShape=size)
        return _registers(f"ttg.nvidia_mma<{fields}>", shape)

    @staticmethod
    def amd_mfma(
        *,
        shape: Sizes,
        version: int,
        warps_per_cta: Sizes,
        instruction_shape: Sizes,
        is_transposed: bool = False,
    ) -> RegisterLayout:
        """A CDNA result: version 2 is gfx90a, 3 gfx942, 4 gfx950; instruction shape [M, N, K]."""
        turned = _word("is_transposed", is_transposed)
        warps, size = _list(warps_per_cta), _list(instruction_shape)
        fields = _fields(version=version, warpsPerCTA=warps, instrShape=size, isTransposed=turned)
        return _registers(f"ttg.amd_mfma<{fields}>", shape)

    @staticmethod
    def amd_wmma(
        *, shape: Sizes, version: int, warp_bases: Sequence[Sizes] = (), is_transposed: bool = False
    ) -> RegisterLayout:
        """The 16x16 result of an RDNA matrix instruction: version 1 is gfx11, 2 gfx12.

        `warp_bases` says, bit by bit of the warp's number, how many instructions further its part
        is. Triton 3.6 spells this encoding in another way: there, `parse` it.
        """
        turned = _word("is_transposed", is_transposed)
        layout = _fields(warp=_lists("warp_bases", warp_bases))
        fields = _fields(version=version, isTranspose=turned, ctaLayout=layout)
        return _registers(f"ttg.amd_wmma<{fields}>", shape)

    @staticmethod
    def linear(
        *,
        shape: Sizes,
        register: Sequence[Sizes],
        lane: Sequence[Sizes],
        warp: Sequence[Sizes] = (),
        block: Sequence[Sizes] = (),
    ) -> RegisterLayout:
        """Any linear layout of registers, by its basis vectors."""
        inputs = {"register": register, "lane": lane, "warp": warp, "block": block}
        fields = _fields(**{name: _lists(name, vectors) for name, vectors in inputs.items()})
        return _registers(f"ttg.linear<{fields}>", shape)

    @staticmethod
    def swizzled_shared(
        *, shape: Sizes, vector: int, per_phase: int, max_phase: int, order: Sizes
    ) -> SharedLayout:
        """Shared memory with rows of vectors of `vector` elements, permuted by XOR with the row.

        Args:
            shape: of the tile.
            vector: elements that stay together.
            per_phase: rows in a sequence that are permuted alike.
            max_phase: how many permutations there are; 1 for none.
            order: the dimensions, the fastest first.
        """
        fields = _fields(vec=vector, perPhase=per_phase, maxPhase=max_phase, order=_list(order))
        return _shared(f"ttg.swizzled_shared<{fields}>", shape)

    @staticmethod
    def amd_rotating_shared(
        *, shape: Sizes, vector: int, per_phase: int, max_phase: int, order: Sizes
    ) -> SharedLayout:
        """As `swizzled_shared`, with other permutations after `max_phase` * `per_phase` rows."""
        fields = _fields(vec=vector, perPhase=per_phase, maxPhase=max_phase, order=_list(order))
        return _shared(f"ttg.amd_rotating_shared<{fields}>", shape)

    @staticmethod
    def nvmma_shared(
        *, shape: Sizes, swizzling_byte_width: int, element_bit_width: int, transposed: bool = False
    ) -> SharedLayout:
        """Shared memory for TMA, wgmma and tcgen05, swizzled over 0, 32, 64 or 128 bytes."""
        fields = _fields(
            swizzlingByteWidth=swizzling_byte_width,
            transposed=_word("transposed", transposed),
            elementBitWidth=element_bit_width,
        )
        return _shared(f"ttg.nvmma_shared<{fields}>", shape)

    @staticmethod
    def padded_shared(
        *, shape: Sizes, paddings: Sequence[tuple[int, int]], order: Sizes
    ) -> SharedLayout:
        """Shared memory with `padding` elements after every `interval`, for each pair."""
        pairs = ", ".join(f"{interval}:+{padding}" for interval, padding in _pairs(paddings))
        fields = _fields(order=_list(order), shape=_list(shape))
        return _shared(f"ttg.padded_shared<[{pairs}] {fields}>", shape)

    @staticmethod
    def shared_linear(
        *, shape: Sizes, offset: Sequence[Sizes], block: Sequence[Sizes] = (), alignment: int = 16
    ) -> SharedLayout:
        """Any linear layout of shared memory, by its basis vectors; the alignment is in bytes."""
        blocks = {"block": _lists("block", block)} if block else {}
        fields = _fields(offset=_lists("offset", offset), **blocks)
        return _shared(f"ttg.shared_linear<{fields}, alignment = {alignment}>", shape)

    @staticmethod
    def tensor_memory(
        *, shape: Sizes, block_m: int, block_n: int, column_stride: int = 1
    ) -> TensorMemoryLayout:
        """Blackwell's tensor memory, in blocks of `block_m` rows (64 or 128) and `block_n` columns.

        `column_stride` is 1 for elements that are side by side,
        and 32 over their bits for narrow ones with a column each.
        """
        made = MadeByHand.parse(
            f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, "
            f"colStride = {column_stride}>",
            shape,
        )
        return cast("TensorMemoryLayout", made)


# Asking for a layout made by hand

_MAKE = "kernellab.compiler.layout_parsing:make"
"""The function that the worker process calls: only Triton knows layouts, and it aborts on some."""


_LONGEST_ENCODING = 2_000
"""Characters: those of Triton's tests have at most some hundred, and messages repeat them."""


@cache
def _ask(encoding: str, shape: Shape, target: str | None) -> Layout:
    try:
        made: Layout = processes.call(_MAKE, encoding, shape, target)
    except WorkerError as death:
        if not death.died or isinstance(death, WorkerLost):
            raise
        said = _assertion(death.last_words)
        misspelled = misspelling(encoding, said)
        if misspelled:
            ended = f"Triton crashes on this encoding{f': {said}' if said else ''}."
            raise misspelled_error(encoding, misspelled, ended) from death
        raise LayoutError(
            (f"Triton cannot lay out a tile of {sizes(shape)} with {encoding}: its process crashed")
            + (f", and said: {said}." if said else "."),
            advice="Pass an encoding that fits the shape and that a GPU has.",
        ) from death
    return made


def _assertion(words: str) -> str:
    """What an aborting process says, without the place in Triton's sources; "" for nothing."""
    match = re.search(r"Assertion [`'](.*)' failed|(?:LLVM ERROR|error): (.*)", words)
    return (match[1] or match[2]) if match else ""


def _shape(given: object) -> Shape:
    try:
        return _whole_numbers(given)
    except TypeError:
        raise LayoutError(
            f"The shape of a tile must be integers, got {shown(given)}.",
            advice="Pass its sizes: (128, 64).",
        ) from None


_MOST_NUMBERS = 100
"""Of a shape, an order, a vector, or of bits or paddings: no layout has so many."""


def _whole_numbers(given: object) -> Shape:
    """Numbers by dimension; raises TypeError for anything else."""
    numbers = (given,) if isinstance(given, int) else at_most(cast(Any, given), _MOST_NUMBERS)
    return tuple(operator.index(number) for number in cast(Any, numbers))


def _encoding(parent: object) -> str:
    if not isinstance(parent, LinearTile):
        raise LayoutError(
            f"parent must be a layout, got {parent!r}.",
            advice="Create it with Layout.parse, or with a constructor such as Layout.blocked.",
        )
    return parent.encoding


def _fields(**fields: object) -> str:
    return f"{{{', '.join(f'{name} = {value}' for name, value in fields.items())}}}"


def _registers(encoding: str, shape: Sizes) -> RegisterLayout:
    return cast("RegisterLayout", MadeByHand.parse(f"#{encoding}", shape))


def _shared(encoding: str, shape: Sizes) -> SharedLayout:
    return cast("SharedLayout", MadeByHand.parse(f"#{encoding}", shape))


def _list(given: Sizes, what: str = "The sizes and the order of a layout") -> str:
    try:
        return f"[{', '.join(map(str, _whole_numbers(given)))}]"
    except TypeError:
        raise LayoutError(
            f"{what} must be integers, got {shown(given)}.",
            advice="Pass one integer for each dimension: (1, 4).",
        ) from None


def _lists(name: str, vectors: Sequence[Sizes]) -> str:
    given: Any = vectors  # whatever somebody wrote
    items = at_most(given, _MOST_NUMBERS)
    if items is None:
        raise LayoutError(
            f"{name} must be a list of vectors, got {shown(vectors)}.",
            advice=(
                "Pass one vector for each bit, each with a number for each dimension: "
                f"{name}=[(0, 1), (0, 2)]."
            ),
        )
    return f"[{', '.join(_list(vector, f'The vectors of {name}') for vector in items)}]"


def _pairs(paddings: Any) -> list[tuple[int, int]]:
    given = at_most(paddings, _MOST_NUMBERS)
    pairs: list[Any] = [None] if given is None else given
    for pair in pairs:
        is_pair = isinstance(pair, Sequence) and len(pair) == 2 and all(map(is_whole, pair))
        if not is_pair:
            raise LayoutError(
                f"paddings must be pairs of an interval and a padding, got {shown(paddings)}.",
                advice="Pass paddings=[(128, 8)].",
            )
    return pairs


def _word(name: str, boolean: bool) -> str:
    check_flags(**{name: boolean})
    return "true" if boolean else "false"
