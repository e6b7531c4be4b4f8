"""`%tileequal` through a real notebook kernel."""

KERNELS = """\
%%tilekernel --no-compile
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    z = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, z, mask=mask)
"""


CELLS = (
    "%load_ext kernellab",
    "import torch, triton, triton.language as tl\n"
    "x, y, z = torch.rand(60), torch.rand(60), torch.zeros(60)",
    KERNELS,
)


def test_a_launch_and_functions_of_torch(lab) -> None:
    outcome = lab.run("%tileequal --with torch.add add[(4,)](x, y, z, 60, BLOCK=16)")
    card = outcome.result or outcome.displays[0]
    assert card["text/plain"].startswith("✓ add and add  equal")
    assert "the same for all inputs" in card["text/html"]
    lab.run("found = %tileequal --with torch.sub --seeds 1 add[(4,)](x, y, z, 60, BLOCK=16)")
    assert (lab.ask("found.verdict"), lab.ask("bool(found)")) == ("'different'", "False")


def test_without_another_side(lab, messages) -> None:
    outcome = lab.run("%tileequal add[(4,)](x, y, z, 60, BLOCK=16)")
    assert outcome.message == messages


def test_a_pass_in_a_cell(lab, messages) -> None:
    count = 'def loads(module):\n    print(sum(op.name == "tt.load" for op in module.walk()))'
    lab.run("import kernellab")
    lab.run(f"%%tilepass --after ttgir.coalesce --kernels add\n{count}")
    outcome = lab.run('c = kernellab.compile(add, x, y, z, 60, BLOCK=16, target="sm_80")')
    assert outcome.streams["stdout"].strip() == "2"
    assert lab.ask("[p.label for p in c.passes if p.name == 'loads']") == "['ttgir.loads']"
    assert lab.run("%%tilepass\n1").message == messages
