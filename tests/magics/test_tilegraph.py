"""`%%tilegraph --backend` through a real notebook kernel."""

from __future__ import annotations

import pytest

from tests.support.notebook_session import NotebookSession, StartNotebook


@pytest.fixture(scope="module")
def lab(notebook: StartNotebook) -> NotebookSession:
    return notebook(
        "%load_ext kernellab",
        "import kernellab, torch\n"
        "from dataclasses import dataclass\n"
        "x = torch.rand(8, requires_grad=True)\n"
        "@dataclass\n"
        "class Result:\n"
        "    value: torch.Tensor\n"
        "def scaled(x):\n"
        "    return Result(x.sin() * 2)\n"
        "def mine(module, inputs):\n"
        "    return module.forward\n",
    )


@pytest.mark.slow
def test_a_backend_is_a_function_of_the_notebook_or_a_name(lab: NotebookSession) -> None:
    for backend in ("mine", "eager"):
        card = lab.run(f"%%tilegraph --backend {backend} --backward --name found\nscaled(x)").still
        assert "scaled" in card["text/plain"]
        assert lab.run("found.error").result == {"text/plain": "''"}
        (shown,) = lab.run("print([one.fx.counts() for one in found.graphs])").streams.values()
        assert "sin" in shown


@pytest.mark.slow
def test_a_backend_that_is_nowhere_is_named(lab: NotebookSession) -> None:
    outcome = lab.run("%%tilegraph --backend egaer\nscaled(x)")
    assert outcome.error == "OptionError"
    assert outcome.message.count("'egaer'") == 2
    assert "eager" in outcome.message.partition("'egaer', and")[2]
    outcome = lab.run("%%tilegraph --backend x\nscaled(x)")
    assert outcome.error == "ArgumentError"
    assert "tensor(" in outcome.message
