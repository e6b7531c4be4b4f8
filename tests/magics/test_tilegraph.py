"""`%%tilegraph`: which function and arguments it captures, and `--backend`."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernellab.errors import OptionError, SourcePosition
from kernellab.magics.magic import Line, read_expression

CELLS = (
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
def test_a_backend_is_a_function_of_the_notebook_or_a_name(lab) -> None:
    for backend in ("mine", "eager"):
        card = lab.run(f"%%tilegraph --backend {backend} --backward --name found\nscaled(x)").still
        assert "scaled" in card["text/plain"]
        assert lab.run("found.error").result == {"text/plain": "''"}
        (shown,) = lab.run("print([one.fx.counts() for one in found.graphs])").streams.values()
        assert "sin" in shown


@pytest.mark.slow
def test_a_backend_that_is_nowhere_is_named(lab) -> None:
    outcome = lab.run("%%tilegraph --backend egaer\nscaled(x)")
    assert (outcome.error, outcome.message.count("'egaer'")) == ("OptionError", 2)
    assert "eager" in outcome.message.partition("'egaer', and")[2]
    outcome = lab.run("%%tilegraph --backend x\nscaled(x)")
    assert outcome.error == "ArgumentError"
    assert "tensor(" in outcome.message


def read(text: str, **namespace: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    shell: Any = SimpleNamespace(user_ns=namespace)
    place = SourcePosition("cell.py", 7)
    return read_expression(text, Line("%%tilegraph", "", shell, lambda _: place, place))


def test_a_call_of_given_values_is_that_call() -> None:
    model, x = torch.nn.Linear(2, 2), torch.ones(2)
    assert read("model(x)", model=model, x=x) == (model, (x,), {})
    function, args, keywords = read("torch.softmax(x, dim=-1)", torch=torch, x=x)
    assert (function, args, keywords) == (torch.softmax, (x,), {"dim": -1})
    _, (made,), _ = read("model(torch.rand(3, 2))", model=model, torch=torch)
    assert made.shape == (3, 2), "what names no tensor is made before the call"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("model(x).sum()", ["x"]),
        ("x.sum()", ["x"]),
        ("model(x * scale)", ["x", "scale"]),
        ("x @ pair[0] + len(pair)", ["x", "pair"]),
        ("torch.stack([one * x for one in pair])", ["x", "pair"]),
    ],
)
def test_the_whole_expression_is_a_function_of_its_data(text: str, names: list[str]) -> None:
    x = torch.ones(2)
    namespace = {
        "torch": torch, "model": torch.nn.Linear(2, 2), "x": x, "scale": 3, "pair": (x, 2 * x)
    }  # fmt: skip
    function, args, keywords = read(text, **namespace)
    assert list(function.__code__.co_varnames[: len(args)]) == sorted(names, key=text.index)
    assert all(one is namespace[name] for name, one in zip(sorted(names, key=text.index), args))
    assert keywords == {}
    expected = eval(text, dict(namespace))
    assert torch.equal(function(*args), expected)
    assert function.__name__ == text
    assert (function.__code__.co_filename, function.__code__.co_firstlineno) == ("cell.py", 7)


def test_an_expression_that_computes_nothing_is_refused() -> None:
    for text in ("x", "3"):
        with pytest.raises(OptionError, match="is not a call"):
            read(text, x=torch.ones(2))
    with pytest.raises(OptionError, match="nope"):
        read("nope(x).sum()", x=torch.ones(2))


@pytest.mark.slow
def test_the_whole_last_expression_is_captured(lab) -> None:
    lab.run("model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU())")
    card = lab.run("%%tilegraph --name whole\ny = x * 2\nmodel(x).sum()").still
    assert "model(x).sum()" in card["text/plain"]
    assert lab.run("whole.error").result == {"text/plain": "''"}
    assert lab.run("len(whole.graphs), len(whole.breaks)").result == {"text/plain": "(1, 0)"}
    (shown,) = lab.run("print(whole.graphs[0].aten.counts())").streams.values()
    assert all(name in shown for name in ("addmm", "erf", "sum"))
