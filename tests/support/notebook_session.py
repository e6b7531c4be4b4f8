"""A real notebook kernel for tests: cells go in by Jupyter's protocol, outputs come back."""

import contextlib
import json
import queue
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import start_new_kernel

WIDGET = "application/vnd.jupyter.widget-view+json"

ADD = """\
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    tl.store(z_ptr + i, x + y, mask=i < n)
"""
"""The text of a kernel for cells."""

_COLORS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Outcome:
    streams: dict[str, str] = field(default_factory=dict)
    displays: list[dict[str, str]] = field(default_factory=list)
    """MIME bundles of `display`, in order."""
    updates: list[dict[str, str]] = field(default_factory=list)
    """MIME bundles that took the place of displayed ones, in order."""
    result: dict[str, str] | None = None
    """MIME bundle of the last expression."""
    opened: list[dict[str, Any]] = field(default_factory=list)
    """What was sent when widgets were made: the state of each,
    and the bytes of all that went over the wire for it."""
    error: str = ""
    """The error's class name; "" for a cell that succeeded."""
    message: str = ""
    """The error's text."""
    traceback: str = ""
    """The traceback as the notebook prints it, without colors."""
    status: str = ""
    seconds: float = 0.0

    @property
    def cards(self) -> list[str]:
        """The displays as plain text, without the widgets that stand for them where they live."""
        return [bundle["text/plain"] for bundle in self.displays if WIDGET not in bundle]

    @property
    def card(self) -> dict[str, str]:
        """The MIME bundle of the cell's last record: its result, or what a live card saves."""
        return self.still if self.result is None else self.result

    @property
    def still(self) -> dict[str, str]:
        """The MIME bundle of the cell's last view: what a notebook saves before the widget."""
        assert not self.error, self.traceback
        assert self.result is None, "a view is displayed, and no result beside it"
        still, widget = self.displays[-2:]
        assert set(still) == {"text/plain", "text/html"}
        assert set(widget) == {"text/plain", WIDGET}
        return still

    @property
    def arrows(self) -> list[str]:
        """The lines of the traceback that an arrow points at, outermost first: "5:     y = x"."""
        found = re.findall(r"^-+> (\d+) (.*)$", self.traceback, re.M)
        return [f"{number}: {text.strip()}" for number, text in found]


class NotebookSession:
    """One ipykernel, driven as a front end drives it."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3")

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(
        self,
        cell: str,
        *,
        interrupt_after: str | None = None,
        pause: float = 0.3,
        takes_input: bool = True,
    ) -> Outcome:
        """Execute a cell and wait for the kernel to be idle again.

        Args:
            cell: its text.
            interrupt_after: send the interrupt of the stop button once this text has been printed;
                `Outcome.seconds` then counts from there.
            pause: seconds between the two, so that the kernel is well inside its loop by then.
            takes_input: what this front end says of itself; nbconvert's says no.
        """
        outcome = Outcome()
        started = time.monotonic()
        request = self.client.execute(cell, allow_stdin=takes_input)
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != request:
                continue
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    break
                continue
            _note(outcome, message["msg_type"], message["content"])
            if message["msg_type"] == "comm_open":
                outcome.opened.append(_opened(message))
            if interrupt_after and interrupt_after in outcome.streams.get("stdout", ""):
                interrupt_after = None
                time.sleep(pause)
                started = time.monotonic()
                self.manager.interrupt_kernel()
        outcome.seconds = time.monotonic() - started
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == request:
                outcome.status = reply["content"]["status"]
                return outcome

    def converse(self, cell: str, answers: list[str]) -> str:
        """Execute a cell that asks for input; gives everything that it prints, prompts left out."""
        waiting, printed = list(answers), ""
        request = self.client.execute(cell, allow_stdin=True)
        while True:
            with contextlib.suppress(queue.Empty):
                self.client.get_stdin_msg(timeout=0.05)
                self.client.input(waiting.pop(0))
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.05)
                if message["parent_header"].get("msg_id") != request:
                    continue
                printed += message["content"].get("text", "")
                if message["content"].get("execution_state") == "idle":
                    self.client.get_shell_msg(timeout=60)
                    return _COLORS.sub("", printed)

    def ask(self, expression: str) -> str:
        """The repr of an expression's value: how a test looks into the namespace."""
        outcome = self.run(f"print(repr(({expression})), end='')")
        assert not outcome.error, outcome.traceback
        return outcome.streams.get("stdout", "")

    def complete(self, text: str, cursor: int | None = None) -> list[str]:
        """What Tab offers, at the end of the text unless `cursor` says where."""
        reply = self.client.complete(text, cursor_pos=cursor, reply=True, timeout=60)
        return list(reply["content"]["matches"])

    def help(self, name: str) -> str:
        reply = self.client.inspect(name, reply=True, timeout=60)
        return _COLORS.sub("", reply["content"]["data"].get("text/plain", ""))


def _note(outcome: Outcome, kind: str, content: dict[str, Any]) -> None:
    if kind == "stream":
        name = content["name"]
        outcome.streams[name] = outcome.streams.get(name, "") + content["text"]
    elif kind == "display_data":
        outcome.displays.append(content["data"])
    elif kind == "update_display_data":
        outcome.updates.append(content["data"])
    elif kind == "execute_result":
        outcome.result = content["data"]
    elif kind == "error":
        outcome.error = content["ename"]
        outcome.message = content["evalue"]
        outcome.traceback = _COLORS.sub("", "\n".join(content["traceback"]))


def _opened(message: dict[str, Any]) -> dict[str, Any]:
    sizes = [len(buffer) for buffer in message["buffers"]]
    state = message["content"]["data"]["state"]
    return {"state": state, "bytes": len(json.dumps(message["content"])) + sum(sizes)}


StartNotebook = Callable[..., NotebookSession]
"""What the fixture `notebook` gives: called with cells, it runs them in a kernel of its own."""


@contextmanager
def notebook_session(*setup: str) -> Iterator[NotebookSession]:
    session = NotebookSession()
    try:
        for cell in setup:
            outcome = session.run(cell)
            assert not outcome.error, outcome.traceback
        yield session
    finally:
        session.close()
