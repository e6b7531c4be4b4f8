"""The tools of `kernellab mcp`, called by the official client."""

import asyncio
import os
import sys
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed")
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from kernellab.cli.mcp_server import TOOLS, server

FILE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(z_ptr + at, 2 * x, mask=at < n)

@triton.jit
def unmasked(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, 2 * tl.load(x_ptr + at))

def launch():
    print("a file may print")
    x, z = torch.ones(100), torch.zeros(100)
    return {"grid": (2,), "x_ptr": x, "z_ptr": z, "n": 100, "BLOCK": 64}

cases = launch

def reference(x_ptr):
    return {"z_ptr": 2 * x_ptr}
"""


@pytest.mark.slow
def test_the_tools_give_small_typed_results(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    of_launch = {"kernel": f"{file}::double", "launch": f"{file}::launch"}
    other = {**of_launch, "kernel": f"{file}::unmasked"}
    reference = f"{file}::reference"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("judge", {"submission": f"{file}::double", "reference": reference}),
        ("compile", of_launch),
        ("explain", {**of_launch, "line": 7, "stage": "ttir"}),
        ("check", other),
        ("step", {**of_launch, "line": 7}),
        ("diagnose", of_launch),
        ("equal", {**of_launch, "other": reference}),
        ("search", {"words": "verdict kernel reference"}),
        ("step", {**of_launch, "line": 1}),
    ]

    async def answers() -> list[Any]:
        async with Client(server()) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {tool.__name__ for tool in TOOLS}
            assert all(tool.output_schema for tool in tools)
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    *given, refused = asyncio.run(answers())
    assert [each.is_error for each in given] == [False] * len(given), given
    judged, made, lines, found, state, slow, same, entries = (
        each.structured_content for each in given
    )
    assert judged["verdict"] == "accepted"
    assert "sass" in made["stages"]
    assert made["registers"] > 0
    assert any("tt.load" in line for line in lines["result"])
    assert (found["result"][0]["kind"], found["result"][0]["line"]) == ("out-of-bounds", 13)
    assert state["variables"]["x"].startswith("[1. 1.")
    assert isinstance(slow["result"], list)
    assert same["verdict"] == "equal"
    assert "judge" in [entry["name"] for entry in entries["result"]]
    assert refused.is_error
    assert "line must be one that the program ran" in refused.content[0].text


@pytest.mark.slow
def test_the_command_serves_over_stdio(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(FILE)
    words = ["-c", "from kernellab.cli.main import main; main(['mcp'])"]

    async def answer() -> Any:
        parameters = StdioServerParameters(command=sys.executable, args=words, env={**os.environ})
        async with Client(stdio_client(parameters)) as client:
            return await client.call_tool(
                "check", {"kernel": f"{file}::unmasked", "launch": f"{file}::launch"}
            )

    result = asyncio.run(answer())
    assert result.structured_content["result"][0]["kind"] == "out-of-bounds"
