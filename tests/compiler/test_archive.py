"""Saved compilations: what is read back is what was saved, and a bad file is a clear error."""

import dataclasses
import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import kernellab
from kernellab.common.saved_files import SavedValue
from kernellab.compiler.files import from_json
from kernellab.compiler.saving import FORMAT, SCHEMA, parts
from kernellab.errors import ArchiveError, ArgumentError, KernelLabError
from tests.kernels import analyzed
from tests.support.compiled import compiled, of_corpus
from tests.support.python_processes import python_path
from tests.support.source_files import ROOT

MEGABYTE = 1_000_000
CASES = [
    ("matmul", "sm_90"),
    ("matmul", "gfx942"),
    ("matmul_tma_specialized", "sm_100"),
    ("gluon_transpose", "sm_90"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "target"), CASES)
def test_what_is_loaded_is_what_was_saved(name, target, tmp_path) -> None:
    saved = of_corpus(name, target)
    path = saved.save(tmp_path / "record.json.gz")
    loaded = kernellab.load(path)
    assert os.path.getsize(path) < 1.5 * MEGABYTE
    assert (loaded.kernel, loaded.target) == (saved.kernel, saved.target)
    assert loaded.options == saved.options
    assert loaded.specialization.signature == saved.specialization.signature
    assert dict(loaded.stages) == dict(saved.stages)
    assert [dataclasses.replace(run, seconds=0) for run in loaded.passes] == [
        dataclasses.replace(run, seconds=0) for run in saved.passes
    ]
    for mine, theirs in zip(loaded.passes, saved.passes):
        assert mine.text.read() == theirs.text.read()
        assert mine.seconds == pytest.approx(theirs.seconds, abs=1e-6)
    assert (loaded.resources, loaded.source_map) == (saved.resources, saved.source_map)
    assert (loaded.remarks, loaded.instructions) == (saved.remarks, saved.instructions)


@pytest.mark.slow
def test_a_loaded_record_answers_the_analyses_and_compares_as_equal(tmp_path) -> None:
    saved = of_corpus("matmul", "sm_90")
    loaded = kernellab.load(saved.save(tmp_path / "a"))
    for question in ("shared_memory", "barriers", "axis_info", "call_graph", "pipeline_stages",
                     "work", "occupancy"):  # fmt: skip
        assert getattr(loaded, question)() == getattr(saved, question)()
    assert str(loaded.module("ttgir.coalesce")) == str(saved.module("ttgir.coalesce"))
    assert kernellab.compare(saved, loaded).first_difference is None
    again = kernellab.load(loaded.save(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert again.passes == loaded.passes


def test_a_record_of_stages_alone(tmp_path, raised) -> None:
    saved = compiled(
        analyzed.scaled_sums, "*fp32:16", "*fp32:16", BLOCK=64, STEPS=2, record="stages"
    )
    loaded = kernellab.load(saved.save(tmp_path / "stages"))
    assert loaded.passes == ()
    assert loaded.remarks == saved.remarks
    raised(ArgumentError, loaded.barriers)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "target"), CASES)
def test_records_fit_the_schema(name, target) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(FORMAT.text(**parts(of_corpus(name, target))))
    jsonschema.Draft202012Validator(schema).validate(data)
    assert schema["properties"]["version"]["const"] == FORMAT.version


def test_every_text_stands_once() -> None:
    compilation = of_corpus("matmul", "sm_90")
    texts = parts(compilation)["texts"]
    assert len(texts) == len(set(texts))
    assert len(texts) < len(compilation.passes)


def test_values_that_json_has_no_word_for() -> None:
    import triton.language as tl

    values: dict[Any, Any] = {
        (0,): float("inf"), (1, 0): (1, "a", None), (2,): {"k": [1.5]}, (3,): tl.float16,
        (4,): True,
    }  # fmt: skip
    one = of_corpus("vector_add", "sm_90")
    changed = dataclasses.replace(
        one, specialization=dataclasses.replace(one.specialization, constants=values)
    )
    data = json.loads(FORMAT.text(**parts(changed)))
    expected = {**values, (3,): SavedValue(repr(tl.float16))}
    assert from_json(data).specialization.constants == expected


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return Path(of_corpus("vector_add", "sm_90").save(tmp_path / "good.json.gz"))


def refusal(path: Path) -> str:
    with pytest.raises(ArchiveError) as caught:
        kernellab.load(path)
    return str(caught.value)


def test_no_file(tmp_path, messages) -> None:
    assert refusal(tmp_path / "nowhere.json.gz") == messages


@pytest.mark.parametrize("share", [0.2, 0.9, 0.999])
def test_a_truncated_file(saved, share, messages) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(len(content) * share)])
    assert refusal(saved) == messages


def test_a_truncated_json_that_is_not_compressed(saved, messages) -> None:
    text = gzip.decompress(saved.read_bytes())
    saved.write_bytes(text)
    assert kernellab.load(saved).kernel == "vector_add"
    saved.write_bytes(text[:1000])
    assert refusal(saved) == messages


def test_a_flipped_byte(saved, messages) -> None:
    content = bytearray(saved.read_bytes())
    content[len(content) // 2] ^= 0xFF
    saved.write_bytes(content)
    assert refusal(saved) == messages


CONTENTS = [b"just some words", b"", b"P", b"PK\x03", b"\x1f", b"\x7fELF\x02\xff\xfe", b"[1, 2]",
            b'{"cells": []}', b"[" * 100_000]  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS)
def test_files_of_another_kind(tmp_path, content, messages) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert refusal(file) == messages


def test_another_version(saved, messages) -> None:
    data = json.loads(gzip.decompress(saved.read_bytes()))
    data["version"], data["kernellab"] = 7, "9.9.9"
    saved.write_text(json.dumps(data))
    message = refusal(saved)
    assert message == messages
    assert f"reads only version {FORMAT.version}" in message
    assert "9.9.9" in message


REMOVED = object()
DAMAGES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("passes",), REMOVED, "passes"),
    (("passes", 3, "text"), REMOVED, "passes[3].text"),
    (("passes", 3, "text"), 10_000, "passes[3].text"),
    (("passes", 0, "occurrence"), True, "passes[0].occurrence"),
    (("passes", 0, "seconds"), "fast", "passes[0].seconds"),
    (("passes",), {}, "passes"),
    (("texts", 1), None, "texts[1]"),
    (("target", "backend"), "metal", "target.backend"),
    (("target",), 3, "target"),
    (("options", 0), ["num_warps"], "options[0]"),
    (("options", 0, 0), [], "options[0][0]"),
    (("resources",), {"registers": 3}, "resources.spills"),
    (("source_map", "chains"), [[1]], "source_map"),
    (("remarks", 0, "severity"), "shout", "remarks[0].severity"),
    (("stages", 0), {"name": "cubin", "language": "elf", "base64": "?"}, "stages[0].base64"),
]


@pytest.mark.parametrize(("way", "to", "place"), DAMAGES, ids=[place for *_, place in DAMAGES])
def test_a_part_that_does_not_fit_is_named(way, to, place, raised) -> None:
    data = json.loads(FORMAT.text(**parts(of_corpus("vector_add", "sm_90"))))
    from_json(data)
    holder = functools.reduce(lambda found, step: found[step], way[:-1], data)
    if to is REMOVED:
        del holder[way[-1]]
    else:
        holder[way[-1]] = to
    error = raised(ArchiveError, from_json, data)
    assert place in str(error)


def test_a_place_that_cannot_be_written(tmp_path, raised) -> None:
    raised(ArchiveError, of_corpus("vector_add", "sm_90").save, tmp_path / "no" / "such" / "folder")
    assert list(tmp_path.iterdir()) == []


def run_apart(program: str, folder: Path, **environment: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ
        | {"TRITON_CACHE_DIR": str(folder), "PYTHONPATH": python_path(ROOT)}
        | environment,
    )
    return ran.stderr


Left = tuple[str, Path, Path]
"""What a process left behind: target, Triton's cache folder, the dump of MLIR."""


@pytest.fixture(scope="module", params=["sm_90", "gfx942"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    cache = tmp_path_factory.mktemp("cache")
    program = (
        "from tests.corpus.loader import compile_entry, entry\n"
        f"compile_entry(entry('matmul'), '{request.param}', record='stages')\n"
    )
    dump = cache.parent / f"{request.param}.dump"
    dump.write_text(run_apart(program, cache, MLIR_ENABLE_DUMP="1"))
    (folder,) = {file.parent for file in cache.rglob("matmul.ttgir")}
    return request.param, folder, dump


@pytest.mark.slow
def test_a_folder_of_tritons_cache(left, tmp_path, raised) -> None:
    target, folder, _ = left
    ours = of_corpus("matmul", target)
    for path in (folder, folder / "matmul.json"):
        loaded = kernellab.load(path)
        assert (loaded.kernel, loaded.target, loaded.passes) == ("matmul", ours.target, ())
        assert (loaded.resources, loaded.options) == (ours.resources, ours.options)
        assert loaded.stages["ttgir"].text == ours.stages["ttgir"].text
        assert loaded.work() == ours.work()
        assert loaded.axis_info().accesses == ours.axis_info().accesses
    raised(ArgumentError, lambda: loaded.remarks)
    assert kernellab.load(loaded.save(tmp_path / "again")).resources == ours.resources


@pytest.mark.slow
def test_a_dump_of_mlir(left, raised) -> None:
    target, _, dump = left
    loaded, ours = kernellab.load(dump), of_corpus("matmul", target)
    assert (loaded.kernel, loaded.target) == ("matmul", ours.target)
    assert loaded.stages["ttir"].text.rstrip() == ours.stages["ttir"].text.rstrip()
    assert loaded.shared_memory().total_bytes == ours.resources.shared_bytes
    assert {b.size_bytes for b in loaded.shared_memory().buffers} == {
        b.size_bytes for b in ours.shared_memory().buffers
    }
    assert len(loaded.barriers().barriers) == len(ours.barriers().barriers)
    assert loaded.pipeline_stages().loops == ours.pipeline_stages().loops
    found = {run.label: run for run in loaded.passes}
    same = next(run for run in ours.passes if run.label == "ttgir.coalesce")
    assert found["ttgir.coalesce"].op_counts_after == same.op_counts_after
    raised(ArgumentError, lambda: loaded.resources)


@pytest.mark.slow
def test_a_dump_that_ends_early(left, tmp_path, messages, raised) -> None:
    _, _, dump = left
    text = dump.read_text()
    cut = tmp_path / "cut"
    # The dump's last module is what the pass before the last one made:
    # what the last pass made is not in it.
    cut.write_text(text[: text.index("// -----// IR Dump Before TritonGPURemoveLayoutConversions")])
    early = kernellab.load(cut)
    assert "ttgir.coalesce" in [run.label for run in early.passes]
    assert "ttgir" not in early.stages
    raised(ArgumentError, early.shared_memory, match="allocate_shared_memory")
    cut.write_text(text[: text.index("IR Dump Before CSE")])
    assert refusal(cut) == messages
    cut.write_text("// -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //\n")
    assert refusal(cut) == messages


@pytest.mark.slow
def test_a_layout_that_mlir_dies_of(left, tmp_path) -> None:
    """An edited file may end the worker process, never this one; Triton 3.9 refuses it in words."""
    _, folder, _ = left
    edited = shutil.copytree(folder, tmp_path / "edited") / "matmul.ttgir"
    unknown = (
        "#ttg.nvidia_mma<{versionMajor = 7, versionMinor = 0, warpsPerCTA = [4, 1], "
        "instrShape = [16, 8]}>"
    )
    text = re.sub(r"^(#blocked = ).*$", rf"\1{unknown}", edited.read_text(), count=1, flags=re.M)
    assert unknown in text
    edited.write_text(text)
    loaded = kernellab.load(edited.parent)
    for ask in (lambda: loaded.module("ttgir"), loaded.axis_info):
        with pytest.raises(KernelLabError, match=r"Aborted|SIGABRT|versionMajor must be"):
            ask()
    assert "tt.func" in str(loaded.module("ttir"))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [slice(0), slice(1000), slice(60)])
def test_a_cut_off_cubin_costs_the_sass_and_nothing_else(left, tmp_path, damage, raised) -> None:
    target, folder, _ = left
    if target != "sm_90":
        pytest.skip("AMD's machine code is text")
    cubin = shutil.copytree(folder, tmp_path / "cut") / "matmul.cubin"
    cubin.write_bytes(cubin.read_bytes()[damage])
    loaded = kernellab.load(cubin.parent)
    shown = str(loaded.explore())
    assert "nvdisasm cannot read the cubin" in shown
    assert "kernellab-tmp" not in shown
    loaded.explore().to_html(tmp_path / "view.html")
    assert {"ttir", "ttgir", "ptx", "cubin"} <= set(loaded.stages)
    assert "sass" not in loaded.stages
    assert loaded.source_map.links
    assert loaded.layouts()
    again = kernellab.load(loaded.save(tmp_path / "again"))
    assert {"resource", "opcode"}.isdisjoint(kernellab.compare(again, loaded).table()["kind"])
    raised(kernellab.CompileError, lambda: loaded.stages["sass"])


@pytest.mark.slow
def test_a_cache_folder_whose_module_was_edited_is_mapped_as_far_as_it_goes(
    left, tmp_path, messages
) -> None:
    _, folder, _ = left
    module = shutil.copytree(folder, tmp_path / "edited") / "matmul.ttir"
    module.write_text(module.read_text().replace("tt.make_range", "tt.made_range"))
    found = kernellab.load(module.parent).source_map
    assert "llir" in found.origins
    assert ("ttir", "ttgir") not in found.links
    metadata = module.with_suffix(".json")
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "num_ctas": 3}))
    assert "num_ctas" in refusal(module.parent)
    assert refusal(module.parent) == messages


@pytest.mark.slow
def test_folders_that_are_no_cache(left, tmp_path, messages) -> None:
    assert refusal(tmp_path) == messages
    (tmp_path / "a.json").write_text("{}")
    assert refusal(tmp_path) == messages
    (tmp_path / "b.json").write_text("{}")
    assert refusal(tmp_path) == messages
    (tmp_path / "b.json").unlink()
    (tmp_path / "a.json").write_text('{"target": {"backend": "cuda", "arch": 90}}')
    assert "'a'" in refusal(tmp_path)
    assert refusal(tmp_path) == messages
