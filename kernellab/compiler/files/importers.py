"""Compilations that others left on disk: Triton's cache, and what MLIR prints
with MLIR_ENABLE_DUMP=1.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.saved_files import (
    BadFile,
    Misfit,
    SavedData,
    file_bytes,
    json_in,
    text_in,
    value_of,
)
from kernellab.common.text import string_of_ir
from kernellab.compiler.compilations import LANGUAGES, make_stages
from kernellab.compiler.files.format import BINARY
from kernellab.compiler.machine_code.resources import resource_reader
from kernellab.compiler.modules.mlir_queries import query_worker
from kernellab.compiler.providers import RecordProvider
from kernellab.compiler.source_map import read_source_map
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.records import (
    Compilation,
    PassRun,
    Specialization,
    Stage,
    Stages,
    StoredText,
    Target,
)
from kernellab.records.launches import is_architecture

_NOTHING_KNOWN = Specialization({}, {}, {})
"""Neither a cache folder nor a dump says what a kernel was specialized on in Triton's own terms;
the IR's signature does."""

# --------------------------------------------------------------------------------------------------
# Triton's cache
# --------------------------------------------------------------------------------------------------


def read_cache_folder(folder: Path, metadata_file: Path | None = None) -> Compilation:
    """The record of one kernel in Triton's cache: stages, options, resources, source map;
    no passes, no remarks.

    Args:
        folder: ~/.triton/cache/<hash>.
        metadata_file: the kernel's .json in it; None where there is only one.

    Raises:
        ArchiveError: the folder holds no kernel, several, or one that is not complete.
    """
    metadata_file = metadata_file or _only_metadata(folder)
    metadata = _metadata(metadata_file)
    name, target = metadata_file.stem, _target(metadata, metadata_file)
    contents: dict[str, str | bytes] = {}
    for stage in LANGUAGES:
        file = folder / f"{name}.{stage}"
        if os.path.exists(file):
            content = file_bytes(file, ArchiveError)
            contents[stage] = content if stage in BINARY else _text(content, file)
    if not contents:
        raise ArchiveError(f"The cache folder {str(folder)!r} holds no stage of {name!r:.80}.")
    _check_metadata(metadata, metadata_file)
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
        provider=RecordProvider(
            resource_reader(compiled, target), _map_reader(stages, target, metadata)
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
            f"The folder {str(folder)!r} holds several kernels.", advice=f"Load one of {names}."
        )
    raise ArchiveError(
        f"The folder {str(folder)!r} is not a folder of Triton's cache: it has no kernel's .json.",
        advice="Triton keeps each compilation in a separate folder: ~/.triton/cache/<hash>.",
    )


def _metadata(file: Path) -> dict[str, Any]:
    content = file_bytes(file, ArchiveError)
    try:
        metadata = json_in(text_in(content), len(content))
    except BadFile as error:
        raise ArchiveError(f"Triton's metadata {str(file)!r} {error}.") from error
    if not isinstance(metadata, dict) or not isinstance(metadata.get("target"), dict):
        raise ArchiveError(
            f"The file {str(file)!r} is not Triton's metadata: it does not name a target."
        )
    return metadata


_POWERS_OF_TWO = ("num_warps", "num_ctas")
_MAY_BE_NULL = ("tmem_size", "maxnreg")


def _check_metadata(metadata: Mapping[str, Any], file: Path) -> None:
    """What is computed with are numbers; lists are not nested without end."""
    try:
        _check(SavedData(metadata))
    except Misfit as error:
        raise ArchiveError(f"Triton's metadata {str(file)!r} is damaged: {error}.") from error


def _check(data: SavedData) -> None:
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
        return text_in(content)
    except BadFile as error:
        raise ArchiveError(f"{str(file)!r} {error}.") from error


def _target(metadata: Mapping[str, Any], file: Path) -> Target:
    backend, arch = metadata["target"].get("backend"), metadata["target"].get("arch")
    if backend not in ("cuda", "hip"):
        raise ArchiveError(f"{str(file)!r} is for an unknown backend: {backend!r:.40}.")
    if not is_architecture(backend, str(arch)):
        raise ArchiveError(
            f"{str(file)!r} is for {arch!r:.40}, which is not an architecture of {backend}."
        )
    return Target(backend, str(arch))


_FUNCTION_PLACE = re.compile(r'^#loc = loc\("((?:[^"\\]|\\.)+)":(\d+):\d+\)', re.M)
"""Triton's modules begin with the kernel's own place."""


def _map_reader(stages: Stages, target: Target, options: Mapping[str, Any]) -> Any:
    """Reads the source map of stages whose IR says where the kernel is defined;
    None where none does.
    """
    for name in ("ttir", "ttgir"):
        if name in stages and (place := _FUNCTION_PLACE.search(stages[name].text)):
            kernel = SourcePosition(string_of_ir(place[1]), int(place[2]))
            return partial(read_source_map, stages, kernel, target, options, query_worker)
    return None


# --------------------------------------------------------------------------------------------------
# Dumps of MLIR
# --------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"^// -----// .*$", re.M)
_BEFORE = re.compile(
    r"^// -----// IR Dump Before \w+(?: \((?P<name>[\w-]+)\)|: (?P<newer>[\w-]+)(?:\{.*\})?) "
    r"\('builtin\.module' operation(?:: @[\w$.]+)?\)"
)
"""MLIR's heading: "Coalesce (tritongpu-coalesce)", and from Triton 3.9 on "Coalesce:
tritongpu-coalesce{options}"."""
_KERNEL = re.compile(r"^[ \t]*tt\.func public @\"?(?P<name>[\w$.]+)", re.M)
_TARGET = re.compile(r'ttg\.target = "(?P<backend>cuda|hip):(?P<arch>\w+)"')
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+) : i32')
_OPERATION = re.compile(r"^[ \t]*(?:%[^=\n]*= )?\"?(?P<name>[a-z_]\w*(?:\.\w+)+)\b", re.M)

_PREFIXES = (
    "tritongpu-",
    "tritonamdgpu-",
    "triton-nvidia-gpu-",
    "triton-nvidia-",
    "triton-amdgpu-",
    "triton-",
)
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
    """The record of the first kernel in what `MLIR_ENABLE_DUMP=1` printed:
    its passes, and the stages of MLIR among them.

    MLIR prints each module before a pass: what the last pass made is not there. Operations are
    counted from the texts. A pass is in the stage of the module that it makes: TTGIR once it names
    a target, LLVM once it has functions of LLVM's.

    Raises:
        ArchiveError: the text holds no module of a kernel, or none that names a target.
    """
    dumps = list(_first_kernel(_dumps(text)))
    kernel = next((match for dump in dumps if (match := _KERNEL.search(dump.text))), None)
    target = next((match for dump in dumps if (match := _TARGET.search(dump.text))), None)
    if kernel is None:
        raise ArchiveError(f"The dump {str(file)!r} holds no module with a kernel.")
    if target is None:
        raise ArchiveError(f"The dump {str(file)!r} does not name a target: it ends before TTGIR.")
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
        provider=RecordProvider(source_map=_map_reader(stages, place, options)),
    )


def _dumps(text: str) -> Iterator[_Dump]:
    """The whole modules of the dump; what a pass prints of itself,
    and dumps of single functions, are left out.
    """
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
    """Up to where the stages begin anew: another kernel's compilation."""
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
    """Each dump's pass, with the next dump's module after it;
    the first entry is the module before any.
    """
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
    """TTIR before it becomes TTGIR, and TTGIR before it is prepared for LLVM:
    loops become branches there.
    """
    before: PassRun | None = None
    seen: set[str] = set()
    for run in passes:
        made = {"convert_to_ttgpuir": "ttir", "allocate_warp_groups": "ttgir", "scf_to_cf": "ttgir"}
        name = made.get(run.name)
        if name is not None and name not in seen and before is not None:
            seen.add(name)
            yield name, Stage(name, "mlir", before.text.read())
        before = run
