"""Notebook kernels that are forked from a process in which torch and Triton are already imported.

A kernel imports torch, Triton and IPython, which takes 3 to 4 seconds of processor time, and the
tests start about a hundred kernels. `installed()` puts a kernel spec named python3 in front of
Jupyter's own. Its command is the small client below: it has the server fork, a process that has
imported everything except kernellab, and passes on signals until the kernel ends. A kernel whose
environment variables differ from the server's is started in the usual way.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_ADDRESS = "KERNELLAB_TEST_FORKED_KERNELS"
"""The environment variable with the path of the server's socket."""

_OWN_VARIABLES = (
    "COLUMNS",
    "CUDA_VISIBLE_DEVICES",
    "JPY_",
    "JUPYTER",
    "KERNELLAB_TEST_",
    "LINES",
    "MPLBACKEND",
    "PYDEVD_",
    "PYTEST_",
    "_",
)
"""Prefixes of variables that differ from kernel to kernel and are read by no import."""

_CLIENT = """\
import array, json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(os.environ["KERNELLAB_TEST_FORKED_KERNELS"])
    start = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
    start = json.dumps(start).encode()
    fds = array.array("i", [0, 1, 2])
    ancillary = (socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)
    server.sendmsg([len(start).to_bytes(4, "little")], [ancillary])
    server.sendall(start)
    pid = int.from_bytes(server.recv(4), "little")
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *sys.argv[1:]])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = server.recv(4)
    sys.exit(int.from_bytes(status, "little") & 255 if status else 1)
"""


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Start the server, and make its kernel spec the python3 of this process and its children.

    Args:
        folder: an empty folder for the socket and the spec; its path is at most 80 characters.
    """
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    command = [sys.executable, "-S", "-E", "-c", _CLIENT, "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps(
            {
                "argv": command,
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "metadata": {"debugger": True},
            }
        )
    )
    before = {name: os.environ.get(name) for name in (_ADDRESS, "JUPYTER_PATH")}
    os.environ[_ADDRESS] = str(folder / "socket")
    os.environ["JUPYTER_PATH"] = os.pathsep.join(
        filter(None, [str(folder), before["JUPYTER_PATH"]])
    )
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(os.environ[_ADDRESS])
    listening.listen(64)
    server = subprocess.Popen(
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
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        assert server.stdin is not None
        server.stdin.close()
        server.wait()


class _Server:
    """Forks a kernel for each client, and ends the kernels of clients that are gone."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._clients: dict[int, socket.socket] = {}
        """Process of a kernel -> the connection of its client."""
        self._selector = selectors.DefaultSelector()
        self._variables = _of_imports(os.environ)

    def serve(self) -> None:
        """Serve until stdin is closed."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source in (sys.stdin, woken, self._listening):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return self._end_all()
                if key.fileobj is self._listening:
                    if self._accept():
                        return None
                elif key.fileobj is woken:
                    woken.recv(4096)
                    self._reap()
                else:
                    self._end(key.data)

    def _accept(self) -> bool:
        """Fork for a new client; True in the kernel's process."""
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
                _become_kernel(start, list(fds))
                return True
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
        for fd in fds:
            os.close(fd)
        return False

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = self._clients.pop(ended[0])
                self._selector.unregister(client)
                with contextlib.suppress(OSError):
                    client.sendall(abs(os.waitstatus_to_exitcode(ended[1])).to_bytes(4, "little"))
                client.close()

    def _end(self, pid: int) -> None:
        """End the kernel of a client that was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        for pid in list(self._clients):
            self._end(pid)
        os._exit(0)


def _of_imports(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith(_OWN_VARIABLES)}


def _become_kernel(start: Mapping[str, Any], fds: list[int]) -> None:
    """Give this process the client's streams, folder and variables."""
    os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    os.chdir(start["cwd"])
    os.environ.clear()
    os.environ.update(start["env"], JPY_PARENT_PID=str(os.getppid()))  # ipykernel ends with it
    sys.argv = ["ipykernel_launcher", *start["argv"]]


def main() -> None:
    """Import what kernels need, serve, and be a kernel in the processes that are forked."""
    # Matplotlib reads this when it is imported; a kernel sets it when it starts.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

    import ipykernel.kernelapp
    import IPython
    import matplotlib.figure
    import ml_dtypes
    import numpy
    import pandas
    import torch
    import triton
    import triton.language
    import xdsl.dialects.builtin

    pandas.set_option("display.max_columns", 20)  # what pandas chooses when a kernel imports it

    del IPython, matplotlib, ml_dtypes, numpy, pandas, torch, triton, xdsl
    gc.freeze()  # collections in a kernel then leave the pages that it shares alone
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    del sys.path[0]  # the folder of `python -m`; a kernel has its notebook's, from IPython
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    ipykernel.kernelapp.launch_new_instance()
    # Python would free every object one by one, and copy each page that it shares with the server.
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main()
