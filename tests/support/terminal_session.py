"""A program in a real terminal for tests: keys go in, and what a person would see comes out."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


_PRESSES = 3
"""So often Ctrl-C is pressed."""


class Terminal:
    """A process whose standard streams are a pseudo-terminal."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._end, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment.pop("PYTHONSTARTUP", None)
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
            close_fds=True, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._seen = ""

    def read_until(self, text: str, seconds: float = 60) -> str:
        """Return what is printed up to and with `text`, which must come in that time."""
        deadline = time.monotonic() + seconds
        while text not in self._seen:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._end], [], [], max(left, 0))
            try:
                more = os.read(self._end, 65536) if ready else b""
            except OSError:  # the process has ended
                more = b""
            assert more, f"no {text!r} in\n{self._seen}"
            self._seen += _CONTROL.sub(b"", more).decode()
        before, found, self._seen = self._seen.partition(text)
        return before + found

    def type(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def interrupt_until(self, text: str) -> str:
        """Press Ctrl-C until it prints `text`: Python may miss a signal between prompt and keys."""
        for _ in range(_PRESSES - 1):
            self.process.send_signal(signal.SIGINT)
            try:
                return self.read_until(text, seconds=10)
            except AssertionError:
                continue
        self.process.send_signal(signal.SIGINT)
        return self.read_until(text)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)


@contextmanager
def terminal(command: Sequence[str], folder: Path) -> Iterator[Terminal]:
    session = Terminal(command, folder)
    try:
        yield session
    finally:
        session.close()
