"""compilation.module: what a user opens, walks, rewrites and prints."""

import re

import pytest
from xdsl import pattern_rewriter
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.rewriter import InsertPoint

from kernellab import triton_api
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError
from kernellab.ir import mlir, tt, ttg, ttng
from kernellab.ir.syntax import write_module
from kernellab.ir.types import BlockedEncoding, MemDescType, NvidiaMmaEncoding, NvmmaSharedEncoding
from tests.corpus.loader import compile_entry, entry
from tests.support.source_files import ROOT


@pytest.fixture(scope="module")
def matmul() -> Compilation:
    return compile_entry(entry("matmul_tma"), "sm_90")


def ops_of(compilation, name, kind):
    return [op for op in compilation.module(name).walk() if isinstance(op, kind)]


def test_ttir_has_the_kernels_own_ops(matmul):
    (dot,) = ops_of(matmul, "ttir", tt.DotOp)
    assert isinstance(dot.result.type, TensorType)
    assert dot.result.type.get_shape() == (128, 128)
    assert dot.result.name_hint == "accumulator"


def test_ttgir_has_operands_by_name_and_typed_layouts(matmul):
    (dot,) = ops_of(matmul, "ttgir", ttng.WarpGroupDotOp)
    (a, b) = (dot.a.type, dot.b.type)
    assert isinstance(a, MemDescType)
    assert isinstance(b, MemDescType)
    assert (a.shape, b.shape) == ((128, 64), (64, 128))
    assert isinstance(a.encoding, NvmmaSharedEncoding)
    assert isinstance(b.encoding, NvmmaSharedEncoding)
    assert (a.encoding.transposed, b.encoding.transposed) == (False, True)
    assert a.encoding.swizzling_byte_width == 128
    assert isinstance(dot.result.type.encoding, NvidiaMmaEncoding)
    assert dot.result.type.encoding.version_major == 3


def test_copies_and_their_barriers_are_found_by_name(matmul):
    copies = ops_of(matmul, "ttgir", ttng.AsyncTmaCopyGlobalToLocalOp)
    expected = ops_of(matmul, "ttgir", ttng.BarrierExpectOp)
    assert copies
    for copy in copies:
        assert len(copy.coordinates) == 2
        assert copy.barrier.type.shape == (1,)
        assert copy.memory.type.shape == (128, 64)
    # Two tiles of 128 x 64 fp16 arrive at each barrier.
    assert {op.size.value.data for op in expected} == {2 * 128 * 64 * 2}


def test_waits_have_their_phase(matmul):
    for wait in ops_of(matmul, "ttgir", ttng.WaitBarrierOp):
        assert str(wait.phase.type) == "i32"
        assert isinstance(wait.barrier.type, MemDescType)


def test_asynchronous_copies_have_masks_where_the_kernel_has():
    compilation = compile_entry(entry("matmul"), "sm_80", record="stages")
    copies = ops_of(compilation, "ttgir", ttg.AsyncCopyGlobalToLocalOp)
    assert copies
    for copy in copies:
        assert copy.mask is not None
        assert copy.pointer.type.get_shape() == copy.memory.type.shape
    indices = ops_of(compilation, "ttgir", ttg.MemDescIndexOp)
    assert {str(op.index.type) for op in indices} == {"i32"}
    assert all(isinstance(op.memory.type, MemDescType) for op in indices)


def test_tensor_memory_on_blackwell():
    compilation = compile_entry(entry("matmul_tma_specialized"), "sm_100", record="stages")
    (product, *_) = ops_of(compilation, "ttgir", ttng.Tcgen5MmaOp)
    assert product.d.type.encoding.block_m == 128
    assert len(product.barriers) == len(product.barrier_predicates)
    (groups,) = ops_of(compilation, "ttgir", ttg.WarpSpecializeOp)
    partitions = [op for op in groups.walk() if isinstance(op, ttg.WarpSpecializePartitionsOp)]
    assert len(partitions[0].partitions) == len(groups.partition_num_warps.get_values())


def test_a_passs_module_opens_by_its_label(matmul):
    before = ops_of(matmul, "ttgir.convert_to_ttgpuir", tt.DotOp)
    after = ops_of(matmul, "ttgir.accelerate_matmul", tt.DotOp)
    assert isinstance(before[0].result.type.encoding, BlockedEncoding)
    assert after == []
    repeated = [run.label for run in matmul.passes if run.label.startswith("ttgir.canonicalizer#")]
    assert matmul.module(repeated[0]).ops


def test_the_llvm_dialect_opens_too():
    compilation = compile_entry(entry("vector_add"), "sm_90")
    names = {
        op.op_name.data
        for op in compilation.module("llir.to_llvmir").walk()
        if hasattr(op, "op_name")
    }
    assert "llvm.func" in names


def test_each_call_gives_a_module_of_its_own(matmul):
    first, second = matmul.module("ttir"), matmul.module("ttir")
    first.body.block.erase_op(next(iter(first.ops)), safe_erase=False)
    assert list(second.ops)
    assert write_module(second) == write_module(matmul.module("ttir"))


class StepByTwo(pattern_rewriter.RewritePattern):
    @pattern_rewriter.op_type_rewrite_pattern
    def match_and_rewrite(self, op: mlir.ForOp, rewriter: pattern_rewriter.PatternRewriter) -> None:
        step = op.step.owner
        assert isinstance(step, mlir.ConstantOp)
        assert isinstance(step.value, IntegerAttr)
        if step.value.value.data == 1:
            two = step.clone()
            two.properties["value"] = IntegerAttr(2, step.value.type)
            rewriter.insert(two, InsertPoint.before(op))
            op.operands[2] = two.results[0]
            rewriter.notify_op_modified(op)


@pytest.mark.slow
def test_a_rewritten_module_is_read_by_mlir():
    compilation = compile_entry(entry("matmul_persistent"), "sm_90", record="stages")
    module = compilation.module("ttir")
    steps = [op.step.owner for op in module.walk() if isinstance(op, mlir.ForOp)]
    values = [step.value for step in steps if isinstance(step, mlir.ConstantOp)]
    assert 1 in [value.value.data for value in values if isinstance(value, IntegerAttr)]
    pattern_rewriter.PatternRewriteWalker(StepByTwo(), apply_recursively=False).rewrite_module(
        module
    )
    text = triton_api.parse_mlir(write_module(module), parse_target("sm_90")).str_nodebug()
    assert " step %c2_i32" in text
    assert (
        text
        != triton_api.parse_mlir(
            compilation.stages["ttir"].text, parse_target("sm_90")
        ).str_nodebug()
    )


def test_the_pages_example_runs(matmul, capsys):
    page = (ROOT / "docs/ir.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    names = {"compilation": matmul}
    for example in examples:
        exec(compile(example, "docs/ir.md", "exec"), names)  # noqa: S102
    printed = capsys.readouterr().out
    assert "(128, 64) at a 128-byte swizzle" in printed
    assert "tt.dot" in printed
    # Full precision is what MLIR leaves out.
    assert "inputPrecision = tf32" in matmul.stages["ttir"].text
    assert "inputPrecision" not in printed


@pytest.mark.parametrize("stage", ["llir", "ptx", "sass", "source", "cubin"])
def test_a_stage_that_is_no_mlir_says_which_stages_open(matmul, stage, raised):
    raised(ArgumentError, matmul.module, stage)


def test_an_unknown_name_has_the_nearest_one(matmul, raised):
    raised(ArgumentError, matmul.module, "ttgir.coalese", match=r"ttgir\.coalesce")


def test_without_passes_the_error_says_how_to_get_them():
    compilation = compile_entry(entry("vector_add"), "sm_90", record="stages")
    with pytest.raises(ArgumentError, match='record="passes"'):
        compilation.module("ttgir.coalesce")
    assert list(compilation.module().ops)
