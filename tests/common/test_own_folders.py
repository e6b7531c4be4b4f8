"""Folders and locks whose names are known in advance: what another user put there is not used."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kernellab.common.saved_files import write_whole
from kernellab.common.system import lock_file, own_folder
from kernellab.errors import KernelLabError, MachineError
from kernellab.interpreter.execution.program import StoredCode, load_stored, save_stored

SOMEONE = 65534
"""The number of a user who owns nothing here."""

only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


Make = Callable[[Path, Path], None]
"""Makes something at a path, by means of something else."""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_folder_is_made_for_one_user(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = own_folder(tmp_path / "here")
        with lock_file(folder / "lock"):
            pass
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert mode(folder / "lock") == 0o600
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
def test_another_users_folder_is_an_error(tmp_path: Path, make: Make) -> None:
    there = tmp_path / "there"
    there.mkdir()
    make(tmp_path / "known", there)
    with pytest.raises(MachineError) as caught:
        own_folder(tmp_path / "known")
    assert str(tmp_path / "known") in str(caught.value)
    assert list(there.iterdir()) == []


def test_a_folder_of_the_users_group_is_closed(tmp_path: Path) -> None:
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
def test_another_users_lock_is_an_error(tmp_path: Path, make: Make) -> None:
    victim = tmp_path / "victim"
    victim.write_text("all my work")
    make(tmp_path / "lock", victim)
    with pytest.raises(MachineError) as caught:
        lock_file(tmp_path / "lock")
    assert str(tmp_path / "lock") in str(caught.value)
    assert victim.read_text() == "all my work"


def test_a_lock_keeps_what_is_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("kept")
    (tmp_path / "lock").chmod(0o600)
    with lock_file(tmp_path / "lock") as first, lock_file(tmp_path / "lock") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(OSError, match="unavailable"):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert (tmp_path / "lock").read_text() == "kept"


def test_saving_in_a_shared_folder_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("all my work")
    for name in (f"trace.{os.getpid()}.part", "trace.part"):
        (tmp_path / name).symlink_to(victim)
    write_whole(tmp_path / "trace", b"saved")
    assert (tmp_path / "trace").read_bytes() == b"saved"
    assert victim.read_text() == "all my work"


@pytest.mark.parametrize("make", [others_write, pytest.param(of_someone, marks=only_root)])
def test_code_in_another_users_cache_is_not_loaded(tmp_path: Path, make: Make) -> None:
    stored = StoredCode("", b"", {}, (), 1, None, False, "")  # type: ignore[arg-type]
    good = own_folder(tmp_path / "good")
    save_stored(good / "a.code", stored)
    assert load_stored(good / "a.code") is not None
    make(tmp_path / "bad", tmp_path)
    (tmp_path / "bad/a.code").write_bytes((good / "a.code").read_bytes())
    assert load_stored(tmp_path / "bad/a.code") is None
    (good / "link.code").symlink_to(good / "a.code")
    assert load_stored(good / "link.code") is None


@pytest.mark.slow
def test_inductors_folder_of_another_user_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
