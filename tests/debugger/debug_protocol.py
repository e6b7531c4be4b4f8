"""The requests of the debug adapter protocol, as JupyterLab sends them to a notebook's kernel."""

import queue
import time
from typing import Any

from tests.support.notebook_session import NotebookSession


class NotebookDebugger:
    """A debugger attached to a session's kernel; `busy` is the id of the cell's request."""

    def __init__(self, session: NotebookSession) -> None:
        self._client = session.client
        self._number = 0
        self.busy = ""
        self.ask(
            "initialize", clientID="test", clientName="test", adapterID="", pathFormat="path",
            linesStartAt1=True, columnsStartAt1=True, supportsVariableType=True, locale="en",
        )  # fmt: skip
        self.ask("attach")

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request, and return the body of its answer, which must say that it succeeded."""
        self._number += 1
        content = {"type": "request", "seq": self._number}
        content |= {"command": command, "arguments": arguments}
        message = self._client.session.msg("debug_request", content)
        self._client.control_channel.send(message)
        while True:
            reply = self._client.control_channel.get_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                answer = reply["content"]
                assert answer.get("success", True), (command, answer)
                body: dict[str, Any] = answer.get("body", {})
                return body

    def run(self, cell: str, stops: dict[int, str]) -> list[dict[str, Any]]:
        """Begin a cell with breakpoints, line -> condition or ""; return what became of each."""
        path = self.ask("dumpCell", code=cell)["sourcePath"]
        wanted = [{"line": n, **({"condition": c} if c else {})} for n, c in stops.items()]
        told = self.ask(
            "setBreakpoints", source={"path": path}, breakpoints=wanted, sourceModified=False
        )
        self.ask("configurationDone")
        self.busy = self._client.execute(cell, allow_stdin=False)
        found: list[dict[str, Any]] = told["breakpoints"]
        return found

    def next_stop(self) -> list[dict[str, Any]] | None:
        """The frames of the next stop, innermost first; None where the cell ends."""
        deadline = time.monotonic() + 60
        printed = []
        while time.monotonic() < deadline:
            try:
                message = self._client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            content = message["content"]
            if message["msg_type"] == "debug_event" and content.get("event") == "stopped":
                self.thread = content["body"]["threadId"]
                frames: list[dict[str, Any]] = self.ask("stackTrace", threadId=self.thread)[
                    "stackFrames"
                ]
                return frames
            if message["parent_header"].get("msg_id") != self.busy:
                continue
            if message["msg_type"] in ("error", "stream"):
                printed.append(str(content.get("traceback") or content.get("text")))
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                self.printed = "\n".join(printed)
                return None
        raise AssertionError(f"neither a stop nor an end; printed: {printed}")

    def go_on(self, how: str = "continue") -> None:
        """`continue`, `next`, `stepIn` or `stepOut`."""
        self.ask(how, threadId=self.thread)

    def variables(self, frame: dict[str, Any]) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self._listed(frame)}

    def rows(self, frame: dict[str, Any]) -> dict[str, str]:
        """What JupyterLab writes beside the names: numbers of Python's, and types of all others."""
        as_they_are = ("int", "float", "bool", "str")
        return {
            one["name"]: one["value"] if one["type"] in as_they_are else one["type"]
            for one in self._listed(frame)
        }

    def _listed(self, frame: dict[str, Any]) -> list[dict[str, Any]]:
        scopes = self.ask("scopes", frameId=frame["id"])["scopes"]
        reference = scopes[0]["variablesReference"]
        listed: list[dict[str, Any]] = self.ask("variables", variablesReference=reference)[
            "variables"
        ]
        return listed

    def value(self, expression: str, frame: dict[str, Any]) -> str:
        return str(self.ask("evaluate", expression=expression, frameId=frame["id"])["result"])
