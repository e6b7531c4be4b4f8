"""Findings of %tilecheck about values: lines, hints and helpers are those of the cell."""

import pytest

CELL = """%%tilekernel
@triton.jit
def place(row, stride):
    start = row * stride
    return start

@triton.jit
def scaled(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    start = place(pid, stride) % n
    start = tl.multiple_of(start, 8)
    x = tl.load(x_ptr + start + lanes)
    tl.store(out_ptr + pid * BLOCK + lanes, 1.0 / x)
"""

CALL = "%tilecheck scaled[(4,)](x, torch.zeros(32), {}, 56, BLOCK=8)"


@pytest.mark.slow
def test_lines_are_those_of_the_cell(notebook) -> None:
    session = notebook()
    session.run("%load_ext kernellab\nimport torch, triton, triton.language as tl")
    assert not session.run(CELL).error
    session.run("x = torch.ones(64)\nx[17] = 0.0")
    clean = session.run(CALL.format(24).replace("x,", "torch.ones(64),"))
    assert "nothing found" in clean.card["text/plain"]
    shown = session.run(CALL.format(4))
    for text in (shown.card["text/plain"], shown.card["text/html"]):
        assert "broken-hint, Cell In[2], line 12" in text
        assert "start = tl.multiple_of(start, 8)" in text
        assert "is a multiple of 8, but it is 4" in text
    zero = session.run(CALL.format(16))
    assert "infinity, Cell In[2], line 14" in zero.card["text/plain"]
    far = CALL.format(1_000_000_008).replace("x,", "torch.ones(64),")
    told = session.run(f"found = {far}\nprint(found.kinds, found[0].line, found[0].message)")
    assert told.streams["stdout"].startswith(
        "('index-overflow',) 4 pid * stride = 3 * 1,000,000,008 = 3,000,000,024 "
        "does not fit in int32"
    )
