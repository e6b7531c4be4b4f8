"""Compilations from files: saved ones, and those that other tools left on disk."""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from kernellab import triton_api
from kernellab.common.saved_files import (
    GZIP,
    MOST_LINES,
    MOST_LINES_OF_FUNCTION,
    SAVE_AGAIN,
    BadFile,
    NotText,
    RecordReader,
    SavedData,
    SchemaError,
    Size,
    file_bytes,
    gunzipped,
    json_in,
    pairs_of,
    reading,
    text_in,
    value_of,
)
from kernellab.common.text import counted, string_of_ir
from kernellab.compiler.compilations import LANGUAGES, Compilation, Sources, make_stages
from kernellab.compiler.machine_code.resources import resource_reader
from kernellab.compiler.records import Remark, Resources
from kernellab.compiler.remarks import explained
from kernellab.compiler.saving import BINARY, FORMAT
from kernellab.compiler.source_map import read_source_map
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.records import (
    FunctionSource,
    PassRun,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    StoredText,
    Target,
)
from kernellab.records.launches import Origin, is_architecture
from kernellab.records.launches import Path as ArgumentPath
from kernellab.triton_api.stages import query_worker


def from_json(data: Any, name: str = "") -> Compilation:
    """The compilation that `to_json` made into `data`. Raises ArchiveError: another kind or
    version, or a misfit with the schema, with its place.
    """
    with reading(name):
        return _compilation(FORMAT.parts(data, name))


_READER = RecordReader()

_MOST_TEXTS = 20_000
"""Of a compilation: one for each stage and each pass that changes something."""

_LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Where `str.splitlines` splits."""


def _too_many_lines(text: str) -> str:
    """Say how many lines a text may have, if it has more."""
    count = sum(map(text.count, _LINE_BREAKS))
    return f"no more than {MOST_LINES:,} lines, got {count:,}" if count > MOST_LINES else ""


def _compilation(data: SavedData) -> Compilation:
    if len(data["texts"].items()) > _MOST_TEXTS:
        raise data["texts"].misfit(f"a list of no more than {_MOST_TEXTS:,}")
    for item in data["texts"].items():
        if too_many := _too_many_lines(item.text()):
            raise item.misfit(f"a text of {too_many}")
    texts = [StoredText(item.text()) for item in data["texts"].items()]
    for text in texts:
        text.pack()
    for counted_operations in data["op_counts"].items():
        counted_operations.check_count(_MOST_KINDS)
    for name in ("signature", "constants", "attributes", "origins"):
        data["specialization"][name].check_count(_MOST_PARAMETERS)
    counts = _READER.read(tuple[dict[str, Size], ...], data["op_counts"])
    specialization = data["specialization"]
    resources, source_map, remarks = data["resources"], data["source_map"], data["remarks"]
    return Compilation(
        kernel=data["kernel"].text(),
        target=target_from_json(data["target"]),
        specialization=Specialization(
            signature=_by_name(specialization["signature"]),
            constants=_by_path(specialization["constants"]),
            attributes=_attributes(specialization["attributes"]),
            origins=_origins(specialization["origins"]),
        ),
        options=_options(data["options"]),
        stages=Stages({stage.name: stage for stage in _saved_stages(data["stages"], texts)}),
        passes=tuple(_pass(item, texts, counts) for item in data["passes"].items()),
        # Files of earlier versions have none.
        functions=tuple(map(_function, data["functions"].items() if data.has("functions") else ())),
        sources=Sources(
            resources=_known(resources, partial(_READER.record, Resources)),
            source_map=_known(source_map, _source_map),
            remarks=None if remarks.is_null() else tuple(map(_remark, remarks.items())),
        ),
    )


_MOST_KINDS = 1_000
"""Of operations; Triton and MLIR have some hundred."""

_MOST_PARAMETERS = 4_096
"""Of a kernel; a GPU takes 32,764 bytes of arguments."""


def _known(data: SavedData, read: Callable[[SavedData], Any]) -> Callable[[], Any] | None:
    """A function that returns the saved value, which is read now; None if there is none."""
    if data.is_null():
        return None
    value = read(data)
    return lambda: value


def target_from_json(data: SavedData) -> Target:
    """A backend and its architecture; raises SchemaError if they are not valid."""
    backend, arch = data["backend"].one_of("cuda", "hip"), data["arch"].text()
    if not is_architecture(backend, arch):
        raise data["arch"].misfit(f"an architecture of {backend}")
    return Target(backend, arch)


def _by_name(data: SavedData) -> dict[str, Any]:
    by_name = pairs_of(data)
    if not all(isinstance(name, str) for name in by_name):
        raise data.misfit("values by name")
    return by_name


def _by_path(data: SavedData) -> dict[ArgumentPath, Any]:
    by_path = pairs_of(data)
    for path in by_path:
        if not isinstance(path, tuple) or not all(type(number) is int for number in path):
            raise data.misfit("values by path")
    return by_path


def _attributes(data: SavedData) -> dict[ArgumentPath, Any]:
    by_path = _by_path(data)
    for promises in by_path.values():
        if not isinstance(promises, list | tuple) or not all(map(_is_promise, promises)):
            raise data.misfit("lists of names and values, by path")
    return by_path


def _is_promise(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _origins(data: SavedData) -> dict[str, Origin]:
    by_name = _by_name(data)
    for origin in by_name.values():
        if not isinstance(origin, str) or origin not in get_args(Origin):
            raise data.misfit(f"by name one of {', '.join(get_args(Origin))}")
    return by_name


_COUNTED = {"num_warps": 1, "num_ctas": 1, "num_stages": 0}


def _options(data: SavedData) -> dict[str, Any]:
    """Options of the compiler; counts are checked, because they are used in computations."""
    options = _by_name(data)
    for name, least in _COUNTED.items():
        value = options.get(name, least)
        if not (type(value) is int and least <= value <= 2**20):
            raise data.misfit(f"options whose {name!r} is a number of {name.partition('_')[2]}")
    return options


def _saved_stages(data: SavedData, texts: list[StoredText]) -> Iterator[Stage]:
    for item in data.items():
        stage = _stage(item, texts)
        if (stage.name in BINARY) != isinstance(stage.content, bytes):
            raise item.misfit("a binary" if stage.name in BINARY else "a string")
        yield stage


def _stage(data: SavedData, texts: list[StoredText]) -> Stage:
    content: str | bytes
    if data.has("base64"):
        try:
            content = base64.b64decode(data["base64"].text(), validate=True)
        except ValueError as error:
            raise data["base64"].misfit("bytes in base64") from error
    else:
        content = data["text"].place_in(texts).read()
    return Stage(data["name"].text(), data["language"].text(), content)


def _pass(data: SavedData, texts: list[StoredText], counts: Sequence[dict[str, int]]) -> PassRun:
    return PassRun(
        stage=data["stage"].text(),
        name=data["name"].text(),
        occurrence=data["occurrence"].integer(1, 2**31),
        arguments=tuple(value_of(item) for item in data["arguments"].items()),
        seconds=data["seconds"].number(least=0),
        changed=data["changed"].boolean(),
        op_counts_before=data["before"].place_in(counts),
        op_counts_after=data["after"].place_in(counts),
        text=data["text"].place_in(texts),
    )


def _source_map(data: SavedData) -> SourceMap:
    for name in ("file", "files", "chains", "origins", "links"):
        data[name]
    try:
        source_map = SourceMap.from_json(data.plain())
    except (TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
        raise data.misfit("a source map, as SourceMap.to_json() writes it") from error
    if not _is_sound(source_map):
        raise data.misfit("a source map: its numbers lead nowhere")
    return source_map


def _is_sound(source_map: SourceMap) -> bool:
    def are(numbers: Iterable[Any], least: int, end: int) -> bool:
        return all(type(number) is int and least <= number < end for number in numbers)

    files, chains = len(source_map.files), len(source_map.chains)
    return (
        all(isinstance(file, str) for file in (source_map.file, *source_map.files))
        and all(are(frame[:1], 0, files) for chain in source_map.chains for frame in chain)
        and all(are(frame[1:], 0, MOST_LINES) for chain in source_map.chains for frame in chain)
        and all(
            are(numbers, 0, chains) for lines in source_map.origins.values() for numbers in lines
        )
        and all(are(numbers, 1, 2**31) for lines in source_map.links.values() for numbers in lines)
        and all(there != here for there, here in source_map.links)
    )


def _remark(data: SavedData) -> Remark:
    saved = Remark(
        severity=data["severity"].one_of("remark", "warning", "note"),
        what=data["what"].text(),
        kind=data["origin"].one_of("mlir", "ptxas", "triton"),
        position=_READER.read(SourcePosition | None, data["span"]),
        called_from=_READER.read(tuple[SourcePosition, ...], data["called_from"]),
    )
    return explained(saved)


def _function(data: SavedData) -> FunctionSource:
    data["lines"].check_count(MOST_LINES_OF_FUNCTION)
    function: FunctionSource = _READER.record(FunctionSource, data)
    data["first_line"].integer(1, MOST_LINES - len(function.lines))
    return function


_NOTHING_KNOWN = Specialization({}, {}, {})
"""Cache folders and dumps have no specialization in Triton's terms; the IR's signature does."""


def read_cache_folder(folder: Path, metadata_file: Path | None = None) -> Compilation:
    """The record of a kernel in Triton's cache: stages, options, resources, source map.

    Args:
        metadata_file: the kernel's .json in it; None if there is only one.

    Raises:
        ArchiveError: the folder holds no kernel, several, or one that is not complete.
    """
    is_named = metadata_file is not None
    metadata_file = metadata_file or _only_metadata(folder)
    metadata = _metadata(metadata_file, is_named)
    name, target = metadata_file.stem, _target(metadata, metadata_file)
    contents: dict[str, str | bytes] = {}
    for stage in LANGUAGES:
        file = folder / f"{name}.{stage}"
        if os.path.lexists(file):
            content = file_bytes(file, ArchiveError, is_named=False)
            contents[stage] = content if stage in BINARY else _text(content, file)
    if not contents:
        raise _of_cache(f"The cache folder {str(folder)!r} has no stage of {name!r:.80}.")
    try:
        _check_metadata(SavedData(metadata))
    except SchemaError as error:
        problem = f"Triton's metadata {str(metadata_file)!r} is damaged: {error}."
        raise _of_cache(problem) from error
    stages = make_stages(contents)
    known = triton_api.option_names(target)
    options = {option: metadata[option] for option in known if option in metadata}
    compiled = triton_api.CompiledKernel(contents, metadata)
    return Compilation(
        kernel=name,
        target=target,
        specialization=_NOTHING_KNOWN,
        options=options,
        stages=stages,
        passes=(),
        sources=Sources(
            resources=resource_reader(compiled, target),
            source_map=_map_reader(stages, target, metadata),
        ),
    )


def _only_metadata(folder: Path) -> Path:
    candidates = [
        file for file in sorted(folder.glob("*.json")) if not file.name.startswith("__grp__")
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(file.name for file in candidates)
        raise ArchiveError(
            f"The folder {str(folder)!r} holds several kernels.",
            advice=f"Pass the path of a file in it: {names}.",
        )
    raise ArchiveError(
        f"The folder {str(folder)!r} is not a folder of Triton's cache: it has no kernel's .json.",
        advice="Pass the folder of a compilation: ~/.triton/cache/<hash>.",
    )


def _of_cache(problem: str) -> ArchiveError:
    advice = "Compile the kernel again, so that Triton writes its files again."
    return ArchiveError(problem, advice=advice)


def _of_dump(problem: str) -> ArchiveError:
    advice = "Compile the kernel again with MLIR_ENABLE_DUMP=1, and save the whole output."
    return ArchiveError(problem, advice=advice)


def _metadata(file: Path, is_named: bool) -> dict[str, Any]:
    content = file_bytes(file, ArchiveError, is_named=is_named)
    try:
        metadata = json_in(text_in(content), len(content))
    except BadFile as error:
        raise _of_cache(f"Triton's metadata {str(file)!r} {error}.") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("target"), dict):
        raise ArchiveError(
            f"The file {str(file)!r} is not Triton's metadata: it does not name a target.",
            advice=_WHAT_LOAD_READS,
        )
    return metadata


_POWERS_OF_TWO = ("num_warps", "num_ctas")
_MAY_BE_NULL = ("tmem_size", "maxnreg")


def _check_metadata(data: SavedData) -> None:
    """What is computed with are numbers; lists are not nested without end."""
    value_of(
        data,
        lambda options: {name: value_of(options[name], lambda _: None) for name in options.names()},
    )
    data["name"].text()
    data["shared"].integer(0, 2**48)
    if data.has("num_stages"):
        data["num_stages"].integer(0, 2**20)
    for name in _POWERS_OF_TWO:
        if data.has(name) and data[name].integer(1, 2**20).bit_count() != 1:
            raise data[name].misfit("a power of two")  # MLIR ends its process on others
    for name in _MAY_BE_NULL:
        if data.has(name) and not data[name].is_null():
            data[name].integer(0, 2**31)


def _text(content: bytes, file: Path) -> str:
    try:
        text = text_in(content)
    except BadFile as error:
        raise _of_cache(f"{str(file)!r} {error}.") from error
    if too_many := _too_many_lines(text):
        raise _of_cache(f"{str(file)!r} must have {too_many}.")
    return text


def _target(metadata: Mapping[str, Any], file: Path) -> Target:
    backend, arch = metadata["target"].get("backend"), metadata["target"].get("arch")
    if backend not in ("cuda", "hip"):
        raise _of_cache(
            f"The backend in {str(file)!r} must be 'cuda' or 'hip', got {backend!r:.40}."
        )
    if not is_architecture(backend, str(arch)):
        raise _of_cache(
            f"The architecture in {str(file)!r} must be one of {backend}, got {arch!r:.40}."
        )
    return Target(backend, str(arch))


_FUNCTION_PLACE = re.compile(r'^#loc = loc\("((?:[^"\\]|\\.)+)":(\d+):\d+\)', re.M)
"""Triton's modules begin with the kernel's own place."""


def _map_reader(stages: Stages, target: Target, options: Mapping[str, Any]) -> Any:
    """Reads the source map of stages whose IR says where the kernel is; None without any."""
    for name in ("ttir", "ttgir"):
        if name in stages and (place := _FUNCTION_PLACE.search(stages[name].text)):
            kernel = SourcePosition(string_of_ir(place[1]), int(place[2]))
            return partial(read_source_map, stages, kernel, target, options, query_worker)
    return None


# Dumps of MLIR

_HEADER = re.compile(r"^// -----// .*$", re.M)
_BEFORE = re.compile(
    r"^// -----// IR Dump Before \w+(?: \((?P<name>[\w-]+)\)|: (?P<newer>[\w-]+)(?:\{.*\})?) "
    r"\('builtin\.module' operation(?:: @[\w$.]+)?\)"
)
"""MLIR's "Coalesce (tritongpu-coalesce)"; Triton 3.9's "Coalesce: tritongpu-coalesce{...}"."""
_KERNEL = re.compile(r"^[ \t]*tt\.func public @\"?(?P<name>[\w$.]+)", re.M)
_TARGET = re.compile(r'ttg\.target = "(?P<backend>cuda|hip):(?P<arch>\w+)"')
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+) : i32')
_OPERATION = re.compile(r"^[ \t]*(?:%[^=\n]*= )?\"?(?P<name>[a-z_]\w*(?:\.\w+)+)\b", re.M)

_PREFIXES = (
    "tritongpu-", "tritonamdgpu-", "triton-nvidia-gpu-", "triton-nvidia-", "triton-amdgpu-",
    "triton-",
)  # fmt: skip
_TRITONS_NAMES = {
    "inline": "inliner",
    "canonicalize": "canonicalizer",
    "convert-triton-to-tritongpu": "convert_to_ttgpuir",
    "convert-triton-gpu-to-llvm": "to_llvmir",
    "convert-triton-amdgpu-to-llvm": "to_llvmir",
    "convert-scf-to-cf": "scf_to_cf",
    "allocate-amdgpu-shared-memory": "allocate_shared_memory",
    "triton-combine": "combine",
    "enable-line-info": "di_scope",
    "triton-tensor-memory-allocation": "allocate_tensor_memory",
    "tritongpu-global-scratch-memory-allocation": "allocate_global_scratch_memory",
}
"""MLIR's name of a pass -> Triton's, where they differ by more than a prefix."""


@dataclass(frozen=True)
class _Dump:
    """A module, and the pass that is about to run on it."""

    name: str
    text: str


def read_dump(text: str, file: Path) -> Compilation:
    """The record of the first kernel in `MLIR_ENABLE_DUMP=1`'s output: passes, MLIR stages.

    MLIR prints each module before a pass, so the last pass's result is missing. Operations are
    counted from the texts. A pass is in the stage of the module that it makes: TTGIR once it names
    a target, LLVM once it has functions of LLVM.

    Raises:
        ArchiveError: the text holds no module of a kernel, or none that names a target.
    """
    dumps = list(_first_kernel(_dumps(text)))
    for dump in dumps:
        if too_many := _too_many_lines(dump.text):
            where = f"The module before {dump.name!r:.80} in the dump {str(file)!r}"
            raise _of_dump(f"{where} must have {too_many}.")
    kernel = next((match for dump in dumps if (match := _KERNEL.search(dump.text))), None)
    target = next((match for dump in dumps if (match := _TARGET.search(dump.text))), None)
    if kernel is None:
        raise _of_dump(f"The dump {str(file)!r} has no module with a kernel.")
    if target is None:
        raise _of_dump(f"The dump {str(file)!r} does not name a target: it ends before TTGIR.")
    passes = tuple(_passes(dumps))
    warps = next((match for dump in dumps if (match := _WARPS.search(dump.text))), None)
    stages = Stages(dict(_stages(passes)))
    place = Target("cuda" if target["backend"] == "cuda" else "hip", target["arch"])
    options = {"num_warps": int(warps[1])} if warps else {}
    return Compilation(
        kernel=kernel["name"],
        target=place,
        specialization=_NOTHING_KNOWN,
        options=options,
        stages=stages,
        passes=passes,
        sources=Sources(source_map=_map_reader(stages, place, options)),
    )


def _dumps(text: str) -> Iterator[_Dump]:
    """The dump's whole modules, without passes' own output and single functions."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, end in zip(headers, ends):
        if before := _BEFORE.match(header[0]):
            yield _Dump(
                _tritons_name(before["name"] or before["newer"]),
                text[header.end() : end].strip() + "\n",
            )


def _tritons_name(name: str) -> str:
    if name in _TRITONS_NAMES:
        return _TRITONS_NAMES[name]
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix).replace("-", "_").lower()


def _first_kernel(dumps: Iterable[_Dump]) -> Iterator[_Dump]:
    """The dumps until the stages begin again with another kernel's compilation."""
    reached = 0
    for dump in dumps:
        height = _STAGES.index(_stage_of(dump.text))
        if height < reached:
            return
        reached = height
        yield dump


_STAGES = ("ttir", "ttgir", "llir")


def _stage_of(text: str) -> str:
    if re.search(r"^[ \t]*llvm\.func ", text, re.M) and "tt.func" not in text:
        return "llir"
    return "ttgir" if _TARGET.search(text) else "ttir"


def _passes(dumps: list[_Dump]) -> Iterator[PassRun]:
    if not dumps:
        return
    counts, stored = _counts(dumps[0].text), StoredText(dumps[0].text)
    yield PassRun("source", "front_end", 1, (), 0.0, True, {}, counts, stored)
    seen: Counter[tuple[str, str]] = Counter()
    for dump, following in itertools.pairwise(dumps):
        stage, changed = _stage_of(following.text), following.text != dump.text
        before = counts
        if changed:
            counts, stored = _counts(following.text), StoredText(following.text)
        seen[stage, dump.name] += 1
        number = seen[stage, dump.name]
        yield PassRun(stage, dump.name, number, (), 0.0, changed, before, counts, stored)


def _counts(text: str) -> Mapping[str, int]:
    return {"builtin.module": 1, **Counter(match["name"] for match in _OPERATION.finditer(text))}


def _stages(passes: Iterable[PassRun]) -> Iterator[tuple[str, Stage]]:
    """TTIR before TTGIR, and TTGIR before its loops become branches for LLVM."""
    before: PassRun | None = None
    seen: set[str] = set()
    for run in passes:
        made = {"convert_to_ttgpuir": "ttir", "allocate_warp_groups": "ttgir", "scf_to_cf": "ttgir"}
        name = made.get(run.name)
        if name is not None and name not in seen and before is not None:
            seen.add(name)
            yield name, Stage(name, "mlir", before.text.read())
        before = run


def compilation_in(content: bytes, file: Path) -> Compilation:
    """The compilation in a file's bytes: a saved one, a dump, or metadata in Triton's cache. Raises
    ArchiveError: they are none of these, damaged, or of another version.
    """
    _refuse_stub(content, file)
    try:
        text = text_in(gunzipped(content) if content.startswith(GZIP) else content)
    except NotText as error:
        raise ArchiveError(
            f"The file {str(file)!r} is not a saved compilation: it is neither gzip nor text.",
            advice=_WHAT_LOAD_READS,
        ) from error
    except BadFile as error:
        advice = SAVE_AGAIN if "cut off" in str(error) else _WHAT_LOAD_READS
        raise ArchiveError(f"{str(file)!r} {error}.", advice=advice) from error
    if "// -----// IR Dump " in text:
        return read_dump(text, file)
    try:
        data = json_in(text, len(content))
    except BadFile as error:
        problem, advice = "is not a saved compilation", _WHAT_LOAD_READS
        if text.lstrip()[:1] == "{":
            problem, advice = str(error), SAVE_AGAIN
        raise ArchiveError(f"The file {str(file)!r} {problem}.", advice=advice) from error
    if isinstance(data, dict) and "format" not in data and "triton_version" in data:
        return read_cache_folder(file.parent, file)
    return from_json(data, str(file))


_BEGINNINGS = (GZIP, b"PK\x03\x04")
"""Of a saved compilation (gzip) and of a saved trace (zip)."""

_WHAT_LOAD_READS = (
    "Pass a file that compilation.save, trace.save, tuning.save or profile.save wrote, a folder of "
    "Triton's cache, or a dump of MLIR_ENABLE_DUMP=1."
)


def _refuse_stub(content: bytes, file: Path) -> None:
    """Refuse a file that ends within its first bytes: the rest is lost."""
    if not content:
        raise ArchiveError(f"{str(file)!r} is empty.", advice=_WHAT_LOAD_READS)
    if any(len(content) < len(begin) and begin.startswith(content) for begin in _BEGINNINGS):
        raise ArchiveError(
            f"{str(file)!r} is cut off after {counted(len(content), 'byte')}.",
            advice=SAVE_AGAIN,
        )
