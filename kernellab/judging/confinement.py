"""What a process that runs other people's Python may not do: start processes, use the network, look
into other processes, write files outside of its folder, change modes, owners or times of files, or
use more time and memory than its share.

Linux enforces it: limits of resources (setrlimit(2)), a filter of system calls (seccomp(2)), a
ruleset for files (landlock(7)), and fewer capabilities (capabilities(7)). None of them needs
privileges. `unconfined` says what a system without seccomp or Landlock allows.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Mapping
from dataclasses import dataclass

MEMORY = 2 << 30
"""The most bytes of address space that a confined process may map beyond what it starts with."""

_FILE_BYTES = 16 << 20
_OPEN_FILES = 64
"""A file without a name is memory that the limit of address space does not count."""


def confine(folder: str, seconds: float) -> None:
    """Confine this process, for good, with all that it starts.

    Args:
        folder: the only folder where it may write files.
        seconds: the processor time that it may use.

    Raises:
        OSError: the system supports the confinement, but refuses it.
    """
    _limit_resources(seconds)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities()
    _restrict_files(folder)
    _install(_filter(_CONFINED, _ERRNO | errno.EPERM))


def end_on_process_calls() -> None:
    """From now on, end this process with SIGSYS if it tries to start another or to use the
    network; before, such a call failed with EPERM.
    """
    _install(_filter(_ENDED, _KILL))


def unconfined() -> tuple[str, ...]:
    """Return the actions that this system cannot refuse a confined process, in sentences; () if
    there are none.
    """
    said = []
    if not _has_filters():
        said.append(
            "This system cannot filter system calls (seccomp), so other people's code can start "
            "processes, use the network and end your processes."
        )
    version = _landlock_version()
    if version < 3:
        what = "change or remove your files" if version < 1 else "empty your files"
        said.append(
            f"This system cannot protect files from writing (Landlock since Linux 6.2), so other "
            f"people's code can {what}."
        )
    return tuple(f"{words} Judge code that you do not trust in a container." for words in said)


def _limit_resources(seconds: float) -> None:
    whole = max(1, int(seconds) + 1)
    for kind, limit in (
        (resource.RLIMIT_CPU, whole),
        (resource.RLIMIT_AS, _mapped_bytes() + MEMORY),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


def _mapped_bytes() -> int:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
    return MEMORY


_libc = ctypes.CDLL(None, use_errno=True)


_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2


def _drop_capabilities() -> None:
    """Give up what root may do and other users may not, except reading all files."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    if _libc.capget(header, held) == 0:
        effective, permitted, *_ = struct.unpack("=6I", held.raw)
        kept = [effective & _DAC_READ_SEARCH, permitted & _DAC_READ_SEARCH, 0, 0, 0, 0]
        _check(_libc.capset(header, struct.pack("=6I", *kept)))


_CAPABILITY_VERSION, _DAC_READ_SEARCH = 0x20080522, 1 << 2
"""_LINUX_CAPABILITY_VERSION_3 and CAP_DAC_READ_SEARCH (linux/capability.h)."""


def _check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# Files


def _restrict_files(folder: str) -> None:
    """Allow writing below `folder` and to the devices that swallow output, and nowhere else; a
    process under a ruleset cannot look into the memory of one that is not.
    """
    version = _landlock_version()
    if version < 1:
        return
    rights = _WRITES
    if version >= 2:
        rights |= _RENAME
    if version >= 3:
        rights |= _TRUNCATE
    handled = ctypes.create_string_buffer(struct.pack("=Q", rights), 8)
    ruleset = _check(_libc.syscall(_LANDLOCK_CREATE, handled, 8, 0))
    try:
        for path, allowed in ((folder, rights), ("/dev/null", rights & (_WRITE | _TRUNCATE))):
            below = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
            try:
                rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, below), 12)
                _check(_libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0))
            finally:
                os.close(below)
        _check(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _landlock_version() -> int:
    """Return the version of Landlock; less than 1 if the system has none."""
    return int(_libc.syscall(_LANDLOCK_CREATE, None, 0, 1))


_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_WRITE = 1 << 1
_RENAME, _TRUNCATE = 1 << 13, 1 << 14
_WRITES = _WRITE | 0b1_1111_1111 << 4
"""LANDLOCK_ACCESS_FS_WRITE_FILE, and REMOVE_DIR to MAKE_SYM (linux/landlock.h)."""


# System calls


@dataclass(frozen=True)
class _Machine:
    """A processor's numbers of system calls.

    Attributes:
        audit: its AUDIT_ARCH (linux/audit.h).
        calls: the numbers of calls that a confined process is refused.
        clone, kill, tgkill, prlimit: those that are refused for some arguments only.
    """

    audit: int
    calls: Mapping[str, int]
    clone: int
    kill: int
    tgkill: int
    prlimit: int


_NEW_CALLS = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "pidfd_open": 434, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "memfd_secret": 447, "fchmodat2": 452, "setxattrat": 463,
    "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
"""Calls that have the same number on every processor."""

_CALLS = {
    "fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281),
    "socket": (41, 198), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "setrlimit": (160, 164), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "open_by_handle_at": (304, 265), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "kexec_load": (246, 104), "swapon": (167, 224), "swapoff": (168, 225), "chmod": (90, -1),
    "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, -1), "fchown": (93, 55),
    "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1), "utimes": (235, -1),
    "futimesat": (261, -1), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "flock": (73, 32), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274), "sched_setaffinity": (203, 122),
}  # fmt: skip
"""Calls that a confined process is refused: their numbers on x86-64 and arm64, -1 for none."""


def _calls(place: int) -> Mapping[str, int]:
    own = {name: numbers[place] for name, numbers in _CALLS.items() if numbers[place] >= 0}
    return {**own, **_NEW_CALLS}


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _calls(0), clone=56, kill=62, tgkill=234, prlimit=302),
    "aarch64": _Machine(0xC00000B7, _calls(1), clone=220, kill=129, tgkill=131, prlimit=261),
}

_CONFINED = frozenset({*_CALLS, *_NEW_CALLS})
_ENDED = frozenset({"fork", "vfork", "execve", "execveat", "socket", "ptrace", "tkill"})
_CLONE3 = 435

_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""The return values of a filter (linux/seccomp.h)."""
_LOAD, _EQUAL, _ANY_BIT, _GREATER, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
"""Instructions of a filter (linux/bpf_common.h); `_GREATER` includes equality."""
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where the struct seccomp_data has them; an argument has 8 bytes, the lower half first."""
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000
"""On x86-64, the second set of numbers begins here."""


def _filter(names: frozenset[str], refusal: int) -> bytes | None:
    """Return a filter that gives `refusal` for these calls, for starting a process, and for a
    signal to another process; None for a processor whose numbers are not known.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    refuse = _instruction(_RETURN, refusal)
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, machine.audit, skip_if=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
        _instruction(_GREATER, _X32, skip_unless=1),
        refuse,
        # The caller takes the error for an older kernel, and calls clone, whose flags are seen.
        _instruction(_EQUAL, _CLONE3, skip_unless=1),
        _instruction(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for name in sorted(names & machine.calls.keys()):
        program += [_instruction(_EQUAL, machine.calls[name], skip_unless=1), refuse]
    program += [
        _instruction(_EQUAL, machine.clone, skip_unless=4),
        _instruction(_LOAD, _ARGUMENTS),
        _instruction(_ANY_BIT, _CLONE_THREAD, skip_if=1),
        refuse,
        _instruction(_RETURN, _ALLOW),
    ]
    for call in (machine.kill, machine.tgkill):
        program += [
            _instruction(_EQUAL, call, skip_unless=4),
            _instruction(_LOAD, _ARGUMENTS),
            _instruction(_EQUAL, os.getpid(), skip_if=1),
            refuse,
            _instruction(_RETURN, _ALLOW),
        ]
    program += [
        _instruction(_EQUAL, machine.prlimit, skip_unless=5),
        _instruction(_LOAD, _ARGUMENTS + 2 * 8),  # the new limit; a null pointer is a query
        _instruction(_EQUAL, 0, skip_unless=2),
        _instruction(_LOAD, _ARGUMENTS + 2 * 8 + 4),
        _instruction(_EQUAL, 0, skip_if=1),
        _instruction(_RETURN, _ERRNO | errno.EPERM),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _instruction(code: int, value: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    """Return a struct sock_filter: a jump skips so many instructions if its test holds, or if it
    does not.
    """
    return struct.pack("=HBBI", code, skip_if, skip_unless, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _has_filters() -> bool:
    """Return whether system calls can be filtered: an empty filter is an invalid address then."""
    return platform.machine() in _MACHINES and (
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None, 0, 0) < 0
        and ctypes.get_errno() == errno.EFAULT
    )


def _install(program: bytes | None) -> None:
    if program is None or not _has_filters():
        return
    instructions = ctypes.create_string_buffer(program, len(program))
    address = ctypes.cast(instructions, ctypes.c_void_p)
    filter_ = ctypes.byref(_Program(len(program) // 8, address))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_, 0, 0))
