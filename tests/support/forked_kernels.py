"""Notebook kernels, and the processes that they start, forked from one that imported everything.

A kernel imports torch, Triton, IPython and kernellab, which takes 4 to 5 seconds of processor time,
and the tests start about a hundred kernels, and more worker processes. `installed()` puts a kernel
spec named python3 in front of Jupyter's own. Its command is the small client below, which is
`sys.executable` in the kernel too. The client has the server fork, and passes on signals until the
process ends. A process with other environment variables than the server's, with options that a
fork does not have, or with more open files than three is started in the usual way.
"""

import array
import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import ipykernel.kernelapp

_ADDRESS = "KERNELLAB_TEST_FORKED_KERNELS"
"""The environment variable with the path of the server's socket."""

MOST_TRIES = "KERNELLAB_TEST_MOST_TRIES"
"""The environment variable with the most changes that a kernel tries to fix a wrong result."""

_OWN_VARIABLES = (
    "CLICOLOR", "COLUMNS", "CUDA_VISIBLE_DEVICES", "FORCE_COLOR", "GIT_PAGER", "JPY_", "JUPYTER",
    "KERNELLAB_TEST_", "LINES", "MPLBACKEND", "OLDPWD", "PAGER", "PWD", "PYDEVD_", "PYTEST_",
    "PYTHONPATH", "SHLVL", "TERM", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "_",
)  # fmt: skip
"""Prefixes of variables that differ from kernel to kernel and are read by no import."""

_CLIENT = """\
import array, json, os, signal, socket, sys
real, *argv = sys.argv[1:]
of_kernel, of_code = ["-m", "ipykernel_launcher"], ["-P", "-X", "utf8", "-c"]
is_known = argv[:2] == of_kernel or argv[:1] == ["-c"] or argv[:4] == of_code
if not is_known or len(os.listdir("/proc/self/fd")) > 4:  # the fourth is of the listing
    os.execv(real, [real, *argv])
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["KERNELLAB_TEST_FORKED_KERNELS"])
    start = {"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}
    start = json.dumps(start).encode()
    fds = array.array("i", [0, 1, 2])
    ancillary = (socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)
    server.sendmsg([len(start).to_bytes(4, "little")], [ancillary])
    server.sendall(start)
    pid = int.from_bytes(server.recv(4), "little")
    if pid == 0:
        os.execv(real, [real, *argv])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = int.from_bytes(server.recv(4) or b"\\1", "little", signed=True)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
"""
"""What a kernel is started with, and Python in a kernel: it takes Python's arguments."""


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Start the server in a folder; its spec is the python3 of this process and its children."""
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    command = [str(_write_client(folder)), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    kernel = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps({**kernel, "metadata": {"debugger": True}}))
    address = str(folder / "socket")
    folders = os.pathsep.join(filter(None, [str(folder), os.environ.get("JUPYTER_PATH")]))
    with patch.dict(os.environ, {_ADDRESS: address, "JUPYTER_PATH": folders}):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen(64)
        server: Any = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_kernels", str(listening.fileno())],
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,  # closed when this process ends, however that happens
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        listening.close()
        try:
            yield
        finally:
            server.stdin.close()
            server.wait()


def _write_client(folder: Path) -> Path:
    """Return an executable that takes the arguments of Python."""
    program = folder / "client.py"
    program.write_text(_CLIENT)
    client = folder / "python"
    words = shlex.join([sys.executable, "-S", "-E", str(program), sys.executable])
    client.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    client.chmod(0o700)
    return client


class _Server:
    """Forks a kernel for each client, and ends the kernels of clients that are gone."""

    def __init__(self, listening: socket.socket, variables: Mapping[str, str]) -> None:
        self._listening = listening
        self._clients: dict[int, socket.socket] = {}
        """Process of a kernel -> the connection of its client."""
        self._selector = selectors.DefaultSelector()
        self._variables = _of_imports(variables)

    def serve(self) -> Mapping[str, Any] | None:
        """Serve until stdin is closed; in a forked process, return what it is started with."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (sys.stdin, woken, self._listening):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    self._end_all()
                if key.fileobj is self._listening:
                    if start := self._accept():
                        return start
                elif key.fileobj is woken:
                    woken.recv(4096)
                    self._reap()
                else:
                    self._end(key.data)

    def _accept(self) -> Mapping[str, Any] | None:
        """Fork for a new client; in the forked process, return what it is started with."""
        client, _ = self._listening.accept()
        head, ancillary, _, _ = client.recvmsg(4, socket.CMSG_SPACE(12))
        fds = array.array("i", ancillary[0][2])
        content = b""
        while len(content) < int.from_bytes(head, "little"):
            content += client.recv(1 << 20)
        start = json.loads(content)
        if _of_imports(start["env"]) != self._variables:
            client.sendall((0).to_bytes(4, "little"))
            client.close()
            pid = -1
        else:
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                client.sendall(os.getpid().to_bytes(4, "little"))
                for connection in (client, self._listening, *self._clients.values()):
                    connection.close()
                _become(start, list(fds))
                return start  # type: ignore[no-any-return]
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
        for fd in fds:
            os.close(fd)
        return None

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = self._clients.pop(ended[0])
                self._selector.unregister(client)
                with contextlib.suppress(OSError):
                    code = os.waitstatus_to_exitcode(ended[1])
                    client.sendall(code.to_bytes(4, "little", signed=True))
                client.close()

    def _end(self, pid: int) -> None:
        """End the process of a client that was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _end_all(self) -> NoReturn:
        for pid in list(self._clients):
            self._end(pid)
        os._exit(0)


def _of_imports(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith(_OWN_VARIABLES)}


def _become(start: Mapping[str, Any], fds: list[int]) -> None:
    """Give this process the client's streams, folder and variables."""
    os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(start["cwd"])
    os.environ.clear()
    os.environ.update(start["env"])
    del sys.path[0]  # the folder of `python -m`
    folders = filter(None, start["env"].get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]


def _run(argv: list[str]) -> int:
    """Do what Python does with these arguments, and return the exit status."""
    sys.executable = str(Path(os.environ[_ADDRESS]).parent / "python")
    try:
        if argv[0] == "-m":
            os.environ["JPY_PARENT_PID"] = str(os.getppid())  # ipykernel ends with it
            sys.argv = ["ipykernel_launcher", *argv[2:]]
            ipykernel.kernelapp.launch_new_instance()
        else:
            place = argv.index("-c")
            if "-P" not in argv[:place]:
                sys.path.insert(0, "")
            sys.argv = ["-c", *argv[place + 2 :]]
            module = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(argv[place + 1], module.__dict__)  # noqa: S102 - what Python does, too
        for thread in threading.enumerate():
            if thread is not threading.main_thread() and not thread.daemon:
                thread.join()
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Import what kernels need, serve, and be a kernel in the processes that are forked."""
    variables = dict(os.environ)  # imports add some
    # Matplotlib reads this when it is imported; a kernel sets it when it starts.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

    import IPython
    import matplotlib.figure
    import ml_dtypes
    import numpy
    import pandas
    import torch
    import triton
    import triton.language
    import xdsl.dialects.builtin
    from triton.runtime.cache import triton_key

    import kernellab

    for name in kernellab.__all__:
        getattr(kernellab, name)
    for package in ("kernellab.magics", "kernellab.viz.registry"):
        importlib.import_module(package)
    if most := int(os.environ.get(MOST_TRIES, "0")):
        from kernellab.checker import fixes
        from kernellab.workshop import feedback

        fixes.MOST_TRIES = most
        feedback.TRIES = dataclasses.replace(feedback.TRIES, most=most)
    triton_key()  # hashes the whole of Triton, which takes most of a second

    pandas.set_option("display.max_columns", 20)  # what pandas chooses when a kernel imports it

    del IPython, kernellab, matplotlib, ml_dtypes, numpy, pandas, torch, triton, xdsl
    gc.freeze()  # collections in a kernel then leave the pages that it shares alone
    start: Any = _Server(socket.socket(fileno=int(sys.argv[1])), variables).serve()
    status = _run(start["argv"])
    # Python would free every object one by one, and copy each page that it shares with the server.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 255)


if __name__ == "__main__":
    main()
