"""A helper that another cell defines again, in a real notebook kernel: the next launch takes it."""

import pytest

pytestmark = pytest.mark.slow

KERNEL = """
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr, FUNCTION: tl.constexpr = None):
    lanes = tl.arange(0, BLOCK)
    x = helper(tl.load(x_ptr + lanes))
    if FUNCTION is not None:
        x = FUNCTION(x)
    tl.store(x_ptr + lanes, x)
"""

ENTRY_POINTS = """
def launched(function=None):
    x = torch.zeros(16, dtype=torch.int32)
    kernellab.run(kernel, (1,), x, 16, function)
    return x[0].item()

def interpreted():
    x = torch.zeros(16, dtype=torch.int32)
    with kernellab.interpreted():
        kernel[(1,)](x, 16)
    return x[0].item()

def tiled():
    x = torch.zeros(16, dtype=torch.int32)
    kernellab.TileKernel(kernel)[(1,)](x, 16)
    return x[0].item()

def traced():
    trace = kernellab.trace(kernel, (1,), torch.zeros(16, dtype=torch.int32), 16)
    return trace.at(-1)["x"].max().item()

def checked():
    return len(kernellab.check(kernel, (1,), torch.zeros(16, dtype=torch.int32), 16))

def compiled(**how):
    made = kernellab.compile(kernel, "*i32:16", BLOCK=16, target="sm_90", **how)
    return [n for n in (11, 22, 33) if f"dense<{n}>" in made.stages["ttir"].text]
"""


CELLS = (
    "import kernellab, torch, triton, triton.language as tl",
    "@triton.jit\ndef inner(x):\n    return x + 11",
    "@triton.jit\ndef helper(x):\n    return inner(x)",
    KERNEL,
    ENTRY_POINTS,
)


ASK = "(launched(), interpreted(), tiled(), traced(), compiled(), compiled(record='stages'))"


def test_a_helper_of_another_cell_is_taken_at_the_next_launch(lab) -> None:
    assert (lab.ask(ASK), lab.ask("checked()")) == ("(11, 11, 11, 11, [11], [11])", "0")
    # A helper of a helper, one that reads outside what it was given, and back again.
    assert not lab.run("@triton.jit\ndef inner(x):\n    return x + 22").error
    assert lab.ask(ASK) == "(22, 22, 22, 22, [22], [22])"
    assert not lab.run(
        "@triton.jit\ndef helper(x):\n    tl.device_assert(x > 0, 'no x')\n    return inner(x)"
    ).error
    assert lab.run(
        "kernellab.run(kernel, (1,), torch.zeros(16, dtype=torch.int32), 16, debug=True)"
    )
    assert not lab.run("@triton.jit\ndef helper(x):\n    return inner(x) + 11").error
    assert lab.ask("(launched(), traced())") == "(33, 33)"
    assert not lab.run("@triton.jit\ndef helper(x):\n    return inner(x)").error
    assert not lab.run("@triton.jit\ndef inner(x):\n    return x + 11").error
    assert lab.ask(ASK) == "(11, 11, 11, 11, [11], [11])"


def test_a_compilation_alone_takes_the_new_helper(lab) -> None:
    assert lab.ask("compiled(record='stages')") == "[11]"
    assert not lab.run("@triton.jit\ndef inner(x):\n    return x + 33").error
    assert lab.ask("compiled(record='stages')") == "[33]"


def test_a_helper_that_was_not_there_at_first(lab) -> None:
    lab.run("del inner")
    assert "inner is not defined" in lab.run("launched()").message
    lab.run("@triton.jit\ndef inner(x):\n    return x + 22")
    assert lab.ask("launched()") == "22"
    lab.run("@triton.jit\ndef inner(x):\n    return x + 33")
    assert lab.ask("launched()") == "33"


def test_a_function_that_is_an_argument(lab) -> None:
    lab.run("@triton.jit\ndef deep(x):\n    return x + 1")
    lab.run("@triton.jit\ndef given(x):\n    return deep(x) * 10")
    assert lab.ask("launched(given)") == "120"
    lab.run("@triton.jit\ndef deep(x):\n    return x + 2")
    assert lab.ask("launched(given)") == "130"


def test_a_module_that_was_loaded_again(lab) -> None:
    lab.run(
        "import importlib, sys, tempfile, pathlib\n"
        "folder = pathlib.Path(tempfile.mkdtemp()); sys.path.insert(0, str(folder))\n"
        "sys.dont_write_bytecode = True\n"
        "text = 'import triton\\nimport triton.language as tl\\nSIZE = tl.constexpr(3)\\n"
        "@triton.jit\\ndef inner(x):\\n    return x + {}\\n'\n"
        "(folder / 'parts.py').write_text(text.format(11)); import parts"
    )
    lab.run("@triton.jit\ndef helper(x):\n    return parts.inner(x) + parts.SIZE")
    assert lab.ask("launched()") == "14"
    lab.run("(folder / 'parts.py').write_text(text.format(222)); importlib.reload(parts)")
    assert lab.ask("launched()") == "225"
    # A constant is refused, as a global of the kernel's own is.
    lab.run("parts.SIZE = tl.constexpr(5)")
    outcome = lab.run("launched()")
    assert "'parts.SIZE' was" in outcome.message, outcome
    assert "Define the kernel again" in outcome.message


def test_a_global_may_still_change_until_the_kernel_has_been_compiled(lab) -> None:
    lab.run("FACTOR = 2")
    lab.run("@triton.jit\ndef helper(x):\n    return inner(x) * FACTOR")
    assert "FACTOR" in lab.run("launched()").message  # Triton wants a constexpr
    lab.run("FACTOR = tl.constexpr(2)")
    assert lab.ask("launched()") == "22"


def test_every_entry_point_refuses_a_global_that_changed(lab) -> None:
    lab.run("FACTOR = tl.constexpr(2)")
    lab.run("@triton.jit\ndef helper(x):\n    return inner(x) * FACTOR")
    assert lab.ask(ASK) == "(22, 22, 22, 22, [11], [11])"
    lab.run("FACTOR = tl.constexpr(3)")
    sweep = "kernellab.tune(kernel, None, '*i32:16', space={'BLOCK': [16]}, workers=1)"
    for entry_point in ("launched()", "launched(inner)", "interpreted()", "traced()", "checked()",
                        "compiled()", "compiled(record='stages')", sweep):  # fmt: skip
        message = lab.run(entry_point).message
        assert "global 'FACTOR' was constexpr[2]" in message, entry_point
    lab.run("FACTOR = tl.constexpr(2)")
    assert lab.ask(ASK) == "(22, 22, 22, 22, [11], [11])"
    lab.run("FACTOR = tl.constexpr(3)")
    lab.run(KERNEL)  # defined again, it takes the new one
    assert lab.ask("(launched(), traced())") == "(33, 33)"
