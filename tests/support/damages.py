"""Damage to saved files, at random: to bytes, JSON, texts, zip files and what lies in them."""

import base64
import gzip
import io
import json
import random
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial, reduce
from typing import Any

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**9, 10**18, 10**90, 1.5, -0.0, 1e300,
    -1e300, "", "x", "é\u2028\0</script>", "\ud800", "a" * 10_000, "/dev/zero", [], {}, [[]],
    [10**9, 10**9], [-1], [0, 10**12], {"float": "nan"}, {"float": "inf"}, {"tuple": [1, [2]]},
    {"dict": [[1, 2]]}, {"dict": [[[], 2]]}, {"shown": 5}, {"": None}, "float64", "object", "O",
    "bfloat16", "pointer", "constant", "\u202e\u0301" * 500, "\u2066\ufeff\u0000\x1b[31m",
    "../../../../etc/passwd", 10**63, -(10**99), [None] * 3000,
    {str(number): number for number in range(3000)}, {"tuple": []}, {"dict": []}, "int4",
    "complex128", "float8_e4m3fn", "datetime64",
)  # fmt: skip

LITERALS = (
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 5000, "[" * 5000 + "]" * 5000,
    '{"a":' * 3000 + "1" + "}" * 3000, "[" * 70 + "]" * 70, "1.0", "1E5", "-0",
)  # fmt: skip
"""What stands in a JSON text and is no value of Python's."""


def bytes_damaged(content: bytes, chance: random.Random) -> bytes:
    """A few bytes are others, or missing, or there twice; or the end is."""
    data = bytearray(content)
    match chance.randrange(5):
        case 0:
            return bytes(data[: chance.randrange(len(data))])
        case 1:
            start = chance.randrange(len(data))
            del data[start : start + chance.choice((1, 2, 30, 1000))]
        case 2:
            start = chance.randrange(len(data))
            data[start:start] = data[start : start + chance.choice((1, 8, 1000))]
        case _:
            for _ in range(chance.choice((1, 1, 2, 20))):
                data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def json_damaged(content: bytes, chance: random.Random) -> bytes:
    """Some values of a JSON text are nasty ones, or those of another place, or gone."""
    if chance.random() < 0.1:
        return bytes_damaged(content, chance)
    data = json.loads(content)
    marks = {}
    for number in range(chance.choice((1, 1, 1, 2, 3))):
        where = _a_place(data, chance)
        if where is None:
            return json.dumps(chance.choice(NASTY)).encode()
        holder, key = where
        match chance.randrange(14):
            case 0:
                del holder[key]
            case 8:
                _swap(holder, key, _a_place(data, chance))
            case 9:
                holder[key] = _of_another_kind(holder[key], chance)
            case 10 if isinstance(holder, dict):
                holder[chance.choice((f"{key} ", "", "\ud800", key.upper(), "x" * 5000))] = holder[
                    key
                ]
            case 11 if isinstance(holder, dict):
                marks[f'"@twice{number}@"'] = json.dumps(key)
                holder[f"@twice{number}@"] = deepcopy(chance.choice(NASTY))
            case 12 if isinstance(holder[key], str):
                holder[key] = _other_content(holder[key], chance)
            case 13 if isinstance(holder[key], list | dict) and len(json.dumps(holder[key])) < 999:
                holder[key] = [holder[key]] * chance.choice((100, 1000))
            case 1:
                other = _a_place(data, chance)
                if other is not None:
                    holder[key] = json.loads(json.dumps(other[0][other[1]]))
            case 2:
                marks[f'"@mark{number}@"'] = chance.choice(LITERALS)
                holder[key] = f"@mark{number}@"
            case 3 if isinstance(holder[key], list):
                holder[key] = holder[key] * chance.choice((0, 2, 3))
            case 4 if type(holder[key]) is int:
                holder[key] += chance.choice((-1, 1, 2, 1000, 10**6))
            case _:
                holder[key] = deepcopy(chance.choice(NASTY))
    text = json.dumps(data)
    for mark, literal in marks.items():
        text = text.replace(mark, literal)
    return text.encode()


def _swap(holder: Any, key: Any, other: tuple[Any, Any] | None) -> None:
    if other is not None:
        there, name = other
        holder[key], there[name] = deepcopy(there[name]), deepcopy(holder[key])


def _of_another_kind(value: Any, chance: random.Random) -> Any:
    """Nearly the same: a number as a text, a text as its letters, anything in a list."""
    wrapped: list[Any] = [[value], {"value": value}, {"tuple": [value]}, str(value)[:2000]]
    if isinstance(value, int | float):
        wrapped += [-value, value + 0.5, bool(value), value * 2**40, {"float": str(value)}]
    if isinstance(value, str):
        wrapped += [
            list(value[:500]),
            value[:-1],
            value * 3,
            f" {value}",
            value.encode("utf-8", "replace").hex(),
        ]
    if isinstance(value, list):
        wrapped += [dict(enumerate(value[:500])), value[::-1], value[1:]]
    if isinstance(value, dict):
        wrapped += [list(value), list(value.items()), list(value.values())]
    return deepcopy(chance.choice(wrapped))


def _other_content(text: str, chance: random.Random) -> str:
    """Bytes within a text in base64 are damaged; of another text, some lines, numbers or words."""
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        content = b""
    if len(content) >= 8:
        return base64.b64encode(bytes_damaged(content, chance)).decode()
    if not text.strip():
        return chance.choice(("\0", " " * 5000, "\n" * 5000))
    return text_damaged(text.encode("utf-8", "replace"), chance).decode("utf-8", "replace")


def _a_place(data: Any, chance: random.Random) -> tuple[Any, Any] | None:
    """A container and a key in it, as often high as deep."""
    found = None
    while isinstance(data, dict | list) and data:
        key = chance.choice(list(data)) if isinstance(data, dict) else chance.randrange(len(data))
        found = data, key
        data = data[key]
        if chance.random() < 0.12:
            break
    return found


def text_damaged(content: bytes, chance: random.Random) -> bytes:
    """A line, or a number or word in it, is gone, there twice, or another; or a few bytes are."""
    if chance.random() < 0.3:
        return bytes_damaged(content, chance)
    lines = content.decode().split("\n")
    for _ in range(chance.choice((1, 1, 3))):
        place = chance.randrange(len(lines)) if lines else 0
        lines = lines or [""]
        found = list(re.finditer(r"[\w.]+", lines[place]))
        match chance.randrange(5):
            case 0:
                del lines[place : place + chance.choice((1, 5))]
            case 1:
                lines[place] *= 3
            case 2 if found:
                one = chance.choice(found)
                word = chance.choice(("9" * 30, "-1", "0", "1e400", "x" * 5000, "\0", "é", "nan"))
                lines[place] = lines[place][: one.start()] + word + lines[place][one.end() :]
            case 3:
                lines.insert(place, chance.choice(lines))
            case _:
                lines.insert(place, chance.choice(("\n" * 5000, "{" * 2000, '"', "x" * 200_000)))
    return "\n".join(lines).encode()


def gzip_damaged(content: bytes, chance: random.Random) -> bytes:
    """The JSON within, or the gzip file around it."""
    if chance.random() < 0.2:
        return bytes_damaged(content, chance)
    return gzip.compress(json_damaged(gzip.decompress(content), chance), 1)


def zip_damaged(content: bytes, chance: random.Random) -> bytes:
    """The JSON within, the values, an entry, or the zip file around them."""
    entries = unzipped(content)
    match chance.randrange(14):
        case 0 | 1:
            return bytes_damaged(content, chance)
        case 10:
            return _with_odd_members(entries, chance)
        case 11:
            entries["values"] = chance.choice(_NO_VALUES)
        case 12 | 13:
            _other_value(entries, chance)
        case 2:
            name = chance.choice(list(entries))
            entries[name] = bytes_damaged(entries[name], chance)
        case 3:
            entries["trace.json"], entries["values"] = entries["values"], entries["trace.json"]
        case 4:
            return _with_header(content, chance)
        case _:
            entries["trace.json"] = json_damaged(entries["trace.json"], chance)
    method = chance.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA))
    return zipped(entries, method if chance.random() < 0.3 else zipfile.ZIP_DEFLATED)


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, one in entries.items():
            archive.writestr(name, one)
    return made.getvalue()


def unzipped(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _with_odd_members(entries: dict[str, bytes], chance: random.Random) -> bytes:
    """Beside the good entries, or in their place, ones that lead elsewhere, or many, or twice."""
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that come twice
        archive.comment = b"c" * chance.choice((0, 0, 65535))
        for name, one in entries.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = chance.choice((0, 0o120777 << 16, 0o010644 << 16, 0x10))
            member.create_system = 3
            member.extra = chance.choice((b"", struct.pack("<HHQQ", 1, 16, 2**63, 2**63), b"\1\0"))
            archive.writestr(member, chance.choice((one, one, b"/etc/passwd", b"")))
        kind = chance.randrange(4)
        for number in range(chance.choice((1, 20_000)) if kind else 0):
            name = ("../../x", "trace.json", f"{number}")[kind - 1]
            archive.writestr(name, entries[name] if name in entries and number < 3 else b"")
    return made.getvalue()


_NO_VALUES = (
    b"",
    b"\x93NUMPY\x01\0v\0{'descr': '|O', 'fortran_order': False, 'shape': (9999999999,), }",
    b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    zlib.compress(bytes(1 << 24), 9),
    zlib.compress(bytes(1000))[:-5],
    zlib.compress(bytes(1000), wbits=-15),
    gzip.compress(bytes(1000)),
    bytes(100_000),
)


def _other_value(entries: dict[str, bytes], chance: random.Random) -> None:
    """A value of a trace is another array: of another size, of NaNs, deflated wrongly."""
    document = json.loads(entries["trace.json"])
    kept = [one for one in document["values"] if "data" in one or "thumbnail" in one]
    if not kept:
        return
    value = chance.choice(kept)
    key = "data" if "data" in value else "thumbnail"
    size = chance.choice((0, 1, 4, 32, 96, 4096, 1 << 20))
    content = zlib.compress(chance.choice((bytes(size), b"\xff" * size, chance.randbytes(size))))
    if chance.random() < 0.2:
        content = bytes_damaged(content, chance)
    value[key][:2] = [len(entries["values"]), len(content)]
    if chance.random() < 0.5:
        value["dtype"] = chance.choice(("uint8", "float16", "bfloat16", "bool", "int64", "float64"))
    if key == "data" and chance.random() < 0.7:
        value["shape"] = chance.choice(([size], [size, 1], [1] * 16 + [size], [0, 2**40], []))
    entries["values"] += content
    entries["trace.json"] = json.dumps(document).encode()


_HEADERS = (b"PK\x01\x02", b"PK\x03\x04")


def _with_header(content: bytes, chance: random.Random) -> bytes:
    """Fields of the zip's own lists are others: version, flags, method, sizes."""
    data = bytearray(content)
    places = [n for n in range(len(data) - 30) if content[n : n + 4] in _HEADERS]
    place = chance.choice(places)
    first = 4 if data[place + 2] == 3 else 6
    offset = place + first + 2 * chance.randrange(3)
    struct.pack_into("<H", data, offset, chance.choice((0, 1, 8, 12, 14, 93, 99, 65535)))
    if chance.random() < 0.3:
        struct.pack_into("<I", data, place + first + 14, chance.choice((0, 1, 2**31, 2**32 - 1)))
    return bytes(data)


Path = tuple[str | int, ...]
"""Keys and places of a value in JSON, from the outside."""


def with_mark(content: bytes, mark: str, every: int) -> Iterator[tuple[Path, bytes]]:
    """A file of JSON for every so many kinds of text in it: that text, or name, ends in `mark`."""
    data, pack = json_within(content)
    kinds = {
        (tuple(key for key in path if isinstance(key, str)), is_name): path
        for path, is_name in _texts(data)
    }
    for (_, is_name), path in list(kinds.items())[::every]:
        changed = deepcopy(data)
        *above, last = path
        holder = reduce(lambda part, key: part[key], above, changed)
        if is_name:
            holder[f"{last}{mark}"] = holder.pop(last)
        else:
            holder[last] += mark
        yield path, pack(json.dumps(changed).encode())


def _texts(data: Any, path: Path = ()) -> Iterator[tuple[Path, bool]]:
    """The places of texts and, with True, of names."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(data, dict):
            yield (*path, key), True
        if isinstance(value, str):
            yield (*path, key), False
        elif isinstance(value, dict | list):
            yield from _texts(value, (*path, key))


def json_within(content: bytes) -> tuple[Any, Callable[[bytes], bytes]]:
    """The JSON in a file, and a function that packs other JSON into a file of the same kind."""
    if content.startswith(b"\x1f\x8b"):
        return json.loads(gzip.decompress(content)), partial(gzip.compress, compresslevel=1)
    if not content.startswith(b"PK"):
        return json.loads(content), bytes
    entries = unzipped(content)
    return json.loads(entries["trace.json"]), lambda text: zipped({**entries, "trace.json": text})


def table_damaged(content: bytes, chance: random.Random) -> bytes:
    """Cells of a table are those of other places, or none, or columns and rows are."""
    if chance.random() < 0.4:
        return text_damaged(content, chance)
    rows = [line.split('","') for line in content.decode().split("\n")]
    for _ in range(chance.choice((1, 1, 4))):
        row = chance.choice([one for one in rows if one] or [[""]])
        place = chance.randrange(len(row))
        match chance.randrange(6):
            case 0:
                other = chance.choice(rows)
                _swap(row, place, (other, chance.randrange(len(other))) if other else None)
            case 1:
                row[place] = chance.choice(_NASTY_CELLS)
            case 2:
                row *= chance.choice((2, 2000))
            case 3:
                del row[place]
            case 4:
                rows[chance.randrange(len(rows))] = list(row)
            case _:
                for one in rows:
                    del one[place : place + 1]
    return "\n".join('","'.join(row) for row in rows).encode("utf-8", "replace")


_NASTY_CELLS = (
    "", "nan", "-inf", "1e999", "9" * 400, "-1", "1,2,3", "0x" + "f" * 40, "\u0663\u0664",
    "\u202e%", "\0", '""""', "x" * 200_000, "1;" * 3000,
)  # fmt: skip
