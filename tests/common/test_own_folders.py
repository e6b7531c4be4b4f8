"""What another user put where names are known in advance is not used, shown or followed."""

import fcntl
import gzip
import json
import linecache
import os
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kernellab
from kernellab.cli import main
from kernellab.common.system import lock_file, own_folder, write_whole
from kernellab.errors import (
    ArchiveError,
    KernelLabError,
    MachineError,
    SourcePosition,
    source_line,
    source_lines,
)
from kernellab.graphs.report import GraphReport
from kernellab.interpreter.execution import program
from kernellab.profiling.profiles.records import ProfiledLine
from kernellab.tuning.files import Store
from kernellab.tuning.records import Outcome
from kernellab.workshop import course
from kernellab.workshop.course import MARKER, exercises, note
from kernellab.workshop.exercise import Answer
from tests.kernels import basic
from tests.support import fuzzed_files
from tests.support.made_profiles import made_profile
from tests.support.source_files import ROOT

SOMEONE = 65534
"""The number of a user who owns nothing here."""

only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_folder_is_made_for_one_user(tmp_path, umask) -> None:
    before = os.umask(umask)
    try:
        folder = own_folder(tmp_path / "here")
        with lock_file(folder / "lock"):
            pass
    finally:
        os.umask(before)
    assert (mode(folder), mode(folder / "lock")) == (0o700, 0o600)
    assert own_folder(folder) == folder


def link(path: Path, there: Path) -> None:
    path.symlink_to(there)


def file(path: Path, there: Path) -> None:
    path.write_bytes(there.read_bytes() if there.is_file() else b"")


def pipe(path: Path, there: Path) -> None:
    os.mkfifo(path)


def dangling(path: Path, there: Path) -> None:
    path.symlink_to(there / "nothing")


def others_write(path: Path, there: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def sticky(path: Path, there: Path) -> None:
    path.mkdir()
    path.chmod(0o1777)


def of_someone(path: Path, there: Path) -> None:
    path.mkdir(mode=0o755)
    os.chown(path, SOMEONE, SOMEONE)


FOLDERS = [link, dangling, file, pipe, others_write, sticky]


@pytest.mark.parametrize("make", [*FOLDERS, pytest.param(of_someone, marks=only_root)])
def test_another_users_folder_is_an_error(tmp_path, make) -> None:
    there = tmp_path / "there"
    there.mkdir()
    make(tmp_path / "known", there)
    with pytest.raises(MachineError) as caught:
        own_folder(tmp_path / "known")
    assert str(tmp_path / "known") in str(caught.value)
    assert list(there.iterdir()) == []


def test_a_folder_of_the_users_group_is_closed(tmp_path) -> None:
    """As torch makes it under a umask of 002."""
    (tmp_path / "known").mkdir()
    (tmp_path / "known").chmod(0o775)
    assert mode(own_folder(tmp_path / "known")) == 0o755


def others_write_file(path: Path, there: Path) -> None:
    path.touch()
    path.chmod(0o666)


def folder(path: Path, there: Path) -> None:
    path.mkdir()


def file_of_someone(path: Path, there: Path) -> None:
    path.touch()
    os.chown(path, SOMEONE, SOMEONE)


LOCKS = [link, dangling, pipe, folder, others_write_file]


@pytest.mark.parametrize("make", [*LOCKS, pytest.param(file_of_someone, marks=only_root)])
def test_another_users_lock_is_an_error(tmp_path, make) -> None:
    victim = tmp_path / "victim"
    victim.write_text("all my work")
    make(tmp_path / "lock", victim)
    with pytest.raises(MachineError) as caught:
        lock_file(tmp_path / "lock")
    assert str(tmp_path / "lock") in str(caught.value)
    assert victim.read_text() == "all my work"


def test_a_lock_keeps_what_is_in_the_file(tmp_path) -> None:
    (tmp_path / "lock").write_text("kept")
    (tmp_path / "lock").chmod(0o600)
    with lock_file(tmp_path / "lock") as first, lock_file(tmp_path / "lock") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(OSError, match="unavailable"):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (tmp_path / "lock").read_text() == "kept"


def test_saving_in_a_shared_folder_follows_no_link(tmp_path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("all my work")
    for name in (f"trace.{os.getpid()}.part", "trace.part"):
        (tmp_path / name).symlink_to(victim)
    write_whole(tmp_path / "trace", b"saved")
    assert (tmp_path / "trace").read_bytes() == b"saved"
    assert victim.read_text() == "all my work"


def test_a_report_without_a_given_name_follows_no_link(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("all my work")
    for name in (main._DEMO_REPORT, Path("link.html")):
        name.symlink_to(victim)
    main._write(main._DEMO_REPORT, "a report")
    assert victim.read_text() == "all my work"
    main._write(Path("link.html"), "a report")
    assert victim.read_text() == "a report"


@pytest.mark.parametrize("make", [others_write, pytest.param(of_someone, marks=only_root)])
def test_code_in_another_users_cache_is_not_loaded(tmp_path, make) -> None:
    stored = program.StoredCode("", b"", {}, (), 1, None, False)  # type: ignore[arg-type]
    good = own_folder(tmp_path / "good")
    program.save_stored(good / "a.code", stored)
    assert program.load_stored(good / "a.code") is not None
    make(tmp_path / "bad", tmp_path)
    (tmp_path / "bad/a.code").write_bytes((good / "a.code").read_bytes())
    assert program.load_stored(tmp_path / "bad/a.code") is None
    (good / "link.code").symlink_to(good / "a.code")
    assert program.load_stored(good / "link.code") is None


@pytest.mark.parametrize("make", [others_write, pytest.param(of_someone, marks=only_root)])
@pytest.mark.parametrize("level", [0, 1])
def test_outcomes_in_another_users_cache_are_not_used(tmp_path, monkeypatch, make, level) -> None:
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))
    store = Store(["a sweep"])
    store.put(["a config"], Outcome(checked="the reference"))
    (file,) = (tmp_path / "tuning").rglob("*.json")
    assert store.get(["a config"]) == Outcome(checked="the reference")
    content = file.read_bytes()
    folder = file.parents[level]
    shutil.rmtree(folder)
    make(folder, tmp_path)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(content)
    assert store.get(["a config"]) is None
    store.put(["another config"], Outcome())
    assert list(folder.rglob("*.json")) == [file]


def put_outcome(folder: Path) -> None:
    Store(["a sweep"]).put(["a config"], Outcome())


def put_code(folder: Path) -> None:
    stored = program.StoredCode("", b"", {}, (), 1, None, False)  # type: ignore[arg-type]
    program.save_stored(own_folder(folder / "code") / "a.code", stored)


def put_number(folder: Path) -> None:
    program.kept_number(own_folder(folder / "code") / "a.code", "writes", lambda: 7)


def put_progress(folder: Path) -> None:
    (folder / MARKER).touch()
    note(Answer("softmax", "Softmax", "softmax", "compiles", (), 1, 0, 0))
    assert ("softmax", "compiles") in [(row.name, row.reached) for row in exercises()]


@pytest.mark.parametrize("make", [link, dangling, pipe])
@pytest.mark.parametrize("put", [put_outcome, put_code, put_number, put_progress])
def test_a_link_in_place_of_a_kept_file_is_not_followed(tmp_path, monkeypatch, put, make) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(course, "_reached", {})
    victim = tmp_path / "victim"
    victim.write_text("[7]")
    put(tmp_path)
    (kept,) = (
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and file not in (victim, tmp_path / MARKER)
    )
    kept.unlink()
    make(kept, victim)
    put(tmp_path)
    assert kept.is_file()
    assert not kept.is_symlink()
    assert victim.read_text() == "[7]"


@pytest.mark.slow
def test_inductors_folder_of_another_user_is_an_error(tmp_path, monkeypatch) -> None:
    from kernellab.torch_api import generated_code

    known = tmp_path / "torchinductor_me"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr(generated_code._cache_dirs, "default_cache_dir", lambda: str(known))
    generated_code.check_cache_folder()
    assert mode(known) == 0o700
    known.rmdir()
    others_write(known, tmp_path)
    ran = tmp_path / "ran"
    with pytest.raises(KernelLabError):
        generated_code.kernel_in(f"open({str(ran)!r}, 'w')\nk = 1", "k")
    assert not ran.exists()


SECRET = "s3cret-0f-the-reader"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the reader's, any line of which is a secret."""
    file = tmp_path / "key.py"
    file.write_text(f"def kernel(): # {SECRET}\n" * 500)
    return file


@pytest.mark.parametrize("how", ["path", "link", "environment", "relative", "null", "parent"])
def test_lines_of_other_files_are_not_read(secret, monkeypatch, how) -> None:
    (secret.parent / "link.py").symlink_to(secret)
    monkeypatch.chdir(secret.parent)
    monkeypatch.setenv("A_SECRET", SECRET)
    file = {
        "path": str(secret), "link": str(secret.parent / "link.py"),
        "environment": "/proc/self/environ", "relative": secret.name, "null": f"{secret}\0",
        "parent": f"{ROOT}/kernellab/../../../../../..{secret}",
    }[how]  # fmt: skip
    assert source_lines(file) == []
    assert source_line(file, 1) == ""
    assert SourcePosition(file, 1, 3).excerpt() == ""
    assert file not in linecache.cache


def test_lines_of_imported_files_are_read() -> None:
    assert source_lines(basic.__file__)
    assert source_line(str(ROOT / "kernellab/viz/loading.py"), 1)


def shown(opened: Any, folder: Path) -> str:
    """All that a reader may pass on: the text, the card, the page."""
    texts = [str(opened), json.dumps(opened._repr_mimebundle_(), default=str)]
    for name in ("show", "explore"):
        view = getattr(opened, name, str)()
        if hasattr(view, "to_html"):
            texts.append(view.to_html(folder / "page.html").read_text())
    return "\n".join(texts)


def profile(secret: str, file: Path) -> Any:
    made = made_profile()
    lines = tuple(ProfiledLine(secret, n, "tt.load", 0.1, kernel="k") for n in (1, 2, 3))
    kernels = tuple(replace(kernel, file=secret) for kernel in made.kernels)
    return made_profile(kernels=kernels, line_records=lines).save(file)


def compilation(secret: str, file: Path) -> Any:
    data = json.loads(gzip.decompress(fuzzed_files.KINDS["compilation"].content()))
    data["source"] = f"def kernel(): # {SECRET[:3]}"
    text = json.dumps(data)
    own = re.escape(str(ROOT)) + r'[^"\\ ]*\.py'
    assert re.search(own, text)
    file.write_bytes(gzip.compress(re.sub(own, secret, text).encode()))
    return file


def report(secret: str, file: Path) -> Any:
    capture = kernellab.load(ROOT / "tests/viz/two_blocks.klgraph").capture
    GraphReport(replace(capture, sources={})).save(file)
    text = gzip.decompress(file.read_bytes()).decode().replace("model.py", secret)
    file.write_bytes(gzip.compress(text.encode()))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("saved", [profile, compilation, report])
def test_what_a_record_shows_has_no_line_of_other_files(tmp_path, secret, saved) -> None:
    for named in (str(secret), "/proc/self/environ"):
        opened = kernellab.load(saved(named, tmp_path / "file"))
        words = shown(opened, tmp_path)
        assert SECRET not in words
        assert f"PATH={os.environ['PATH']}"[:40] not in words


@pytest.mark.parametrize("is_pipe", [False, True])
@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx", "cubin", "json"])
def test_a_link_in_a_folder_is_not_followed(tmp_path, secret, stage, is_pipe) -> None:
    file = tmp_path / f"cache/add.{stage}"
    file.parent.mkdir(parents=True)
    metadata = json.dumps({**fuzzed_files._METADATA, "name": "add"})
    if stage == "json":
        secret.write_text(metadata)
    else:
        (file.parent / "add.json").write_text(metadata)
    if is_pipe:
        os.mkfifo(file)
    else:
        file.symlink_to(secret)
    with pytest.raises(ArchiveError) as caught:
        kernellab.load(file.parent)
    assert file.name in str(caught.value)
    assert SECRET not in str(caught.value)
