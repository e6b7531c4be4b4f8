"""The analyses, against metadata, machine code, the compiler's remarks, and counting by hand."""

import math
import re
from itertools import pairwise

import pytest

from kernellab.errors import ArgumentError
from tests.kernels import analyzed, remarked
from tests.support.compiled import compiled, of_corpus, source_line

WITH_SHARED_MEMORY = [
    ("matmul", "sm_90"), ("matmul", "sm_80"), ("matmul", "gfx942"), ("attention_forward", "sm_90"),
    ("layer_norm_backward", "sm_80"), ("matmul_tma", "sm_90"), ("matmul_tma_specialized", "sm_100"),
    ("histogram", "sm_90"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), WITH_SHARED_MEMORY)
def test_buffers_fill_the_launchs_memory_and_share_bytes_at_different_times(name, target) -> None:
    compilation = of_corpus(name, target)
    memory = compilation.shared_memory()
    assert memory.total_bytes == compilation.resources.shared_bytes
    assert max(buffer.end for buffer in memory.buffers) == memory.total_bytes
    buffers = {buffer.name: buffer for buffer in memory.buffers}
    for buffer in buffers.values():
        for other in (buffers[name] for name in buffer.shares_with):
            assert buffer.name in other.shares_with
            apart = (
                buffer.last_operation < other.first_operation
                or other.last_operation < buffer.first_operation
            )
            # The captures of a warp-specialized operation are read before its groups make
            # buffers of their own.
            assert apart or "ttg.warp_specialize" in (buffer.operation, other.operation)


def test_a_pipelined_matmuls_buffers_are_its_tiles_times_the_stages() -> None:
    memory = of_corpus("matmul", "sm_90").shared_memory()
    by_name = {buffer.name: buffer for buffer in memory.buffers}
    # 128 x 64 and 64 x 128 tiles of fp16, three stages;
    # the output tile is exchanged where they were.
    assert by_name["a"].size_bytes == 3 * 128 * 64 * 2
    assert by_name["b"].size_bytes == 3 * 64 * 128 * 2
    assert by_name["b"].offset == by_name["a"].end
    assert by_name["convert_layout"].is_scratch
    assert by_name["convert_layout"].shares_with == ("a",)
    assert source_line(by_name["a"].position).startswith("a = tl.load(")
    assert list(memory.table()["name"]) == list(by_name)


def test_a_kernel_without_shared_memory_and_loops_has_no_buffers_and_no_schedule() -> None:
    compilation = of_corpus("vector_add", "sm_90")
    memory = compilation.shared_memory()
    assert (memory.buffers, memory.total_bytes) == ((), 0)
    assert compilation.pipeline_stages().loops == ()


HALVES = ("*fp16:16", "*fp16:16", "*fp32:16")
_ALLOCATION = re.compile(
    r"ttng\.tmem_alloc .*?tensor_memory_col_offset = (\d+) : i32, tensor_memory_row_offset = (\d+) "
    r": i32.*!ttg\.memdesc<(?P<shape>[\dx]+)x(?P<element>[a-z]+)(?P<bits>\d+)\w*, #tmem"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul", "matmul_tma_specialized", "attention_forward"])
def test_tensor_memory_is_what_the_modules_text_says(name) -> None:
    compilation = of_corpus(name, "sm_100")
    memory = compilation.tensor_memory()
    (allocated,) = [one for one in compilation.passes if one.name == "allocate_tensor_memory"]
    assert memory.read_from == allocated.label
    text = allocated.text.read()
    found = list(_ALLOCATION.finditer(text))
    # By hand: a cell is 32 bits, and these tiles have 128 rows.
    for buffer, one in zip(memory.buffers, found, strict=True):
        assert (buffer.column, buffer.row, buffer.rows) == (int(one[1]), int(one[2]), 128)
        bits = math.prod(map(int, one["shape"].split("x"))) * int(one["bits"])
        assert buffer.columns == bits // (32 * 128)
    total = re.search(r"ttg\.tensor_memory_size = (\d+)", text)
    assert total
    assert memory.total_columns == int(total[1]) == compilation.resources.tensor_memory_columns
    assert max(one.end for one in memory.buffers) <= memory.total_columns


@pytest.mark.slow
def test_an_accumulator_of_128_by_128_floats_has_128_columns() -> None:
    (accumulator,) = of_corpus("matmul", "sm_100").tensor_memory().buffers
    assert (accumulator.column, accumulator.columns) == (0, 128)
    assert source_line(accumulator.position).startswith("accumulator = tl.dot(")
    loop = of_corpus("matmul", "sm_100").tensor_memory().loops[0]
    assert accumulator.first_operation < loop[0] < loop[1] < accumulator.last_operation


@pytest.mark.slow
def test_a_result_of_64_rows_has_half_of_each_warps_rows() -> None:
    made = compiled(remarked.product, *HALVES, M=64, N=64, K=64, target="sm_100")
    (result,) = made.tensor_memory().buffers
    assert (result.row, result.rows, result.columns) == (0, 64, 64)


@pytest.mark.slow
def test_scales_of_a_product_lie_behind_its_accumulator() -> None:
    types = ("*fp8e4nv:16", "*u8:16", "*fp8e4nv:16", "*u8:16", "*fp32:16")
    made = compiled(remarked.scaled_product, *types, N=128, K=128, target="sm_100")
    memory = made.tensor_memory()
    # 128 rows of 4 scales, 8 bits each, laid out for each warp anew: 4 columns.
    assert [(one.column, one.columns) for one in memory.buffers] == [(0, 128), (128, 4), (132, 4)]
    assert memory.total_columns == 256


@pytest.mark.slow
def test_buffers_of_tensor_memory_that_share_columns_do_not_live_at_once() -> None:
    memory = of_corpus("attention_forward", "sm_100").tensor_memory()
    buffers = {one.name: one for one in memory.buffers}
    pairs = [(one, buffers[name]) for one in buffers.values() for name in one.shares_with]
    assert pairs
    for one, other in pairs:
        assert (
            one.last_operation < other.first_operation or other.last_operation < one.first_operation
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "target"), [("matmul", "sm_90"), ("matmul", "gfx942"), ("vector_add", "sm_100")]
)
def test_where_there_is_no_tensor_memory_it_says_why(name, target, messages) -> None:
    memory = of_corpus(name, target).tensor_memory()
    assert (memory.buffers, memory.total_columns) == ((), 0)
    assert memory.absence == messages


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "sm_90"),
        ("matmul", "sm_80"),
        ("matmul", "gfx942"),
        ("attention_forward", "sm_80"),
    ],
)
def test_there_are_as_many_barriers_as_in_the_machine_code(name, target) -> None:
    barriers = of_corpus(name, target).barriers()
    assert barriers.in_finished_code == len(barriers.barriers) > 0


def test_barriers_keep_copies_and_products_of_a_pipelined_matmul_apart() -> None:
    barriers = of_corpus("matmul", "sm_90").barriers()
    first, *lines = str(barriers).splitlines()
    assert first.startswith(f"{len(barriers.barriers)} barriers in ")
    assert first.endswith(f"{barriers.in_finished_code} in the finished code")
    assert len(lines) == len(barriers.barriers)
    assert all(f"by the {one.written_by}" in line for one, line in zip(barriers.barriers, lines))
    copy, product = "ttg.async_copy_global_to_local", "ttng.warp_group_dot"
    found = {
        (hazard.kind, hazard.before.operation, hazard.after.operation, hazard.after.buffer)
        for barrier in barriers.barriers
        for hazard in barrier.hazards
    }
    for buffer in ("a", "b"):
        assert ("read after write", copy, product, buffer) in found
        assert ("write after read", product, copy, buffer) in found
    exchange = "ttg.convert_layout"
    assert ("write after write", copy, exchange, "convert_layout") in found
    lowered = [barrier for barrier in barriers.barriers if barrier.written_by == "lowering"]
    assert exchange in [barrier.operation for barrier in lowered]


@pytest.mark.slow
def test_a_barrier_of_the_kernels_own_is_told_from_an_inserted_one() -> None:
    barriers = of_corpus("layer_norm_backward", "sm_80").barriers().barriers
    own = [barrier for barrier in barriers if barrier.written_by == "program"]
    assert [source_line(barrier.position) for barrier in own] == ["tl.debug_barrier()"]


@pytest.mark.slow
def test_every_hazard_has_a_write_and_bytes_in_common() -> None:
    compilation = of_corpus("attention_forward", "sm_80")
    buffers = {buffer.name: buffer for buffer in compilation.shared_memory().buffers}
    hazards = [h for barrier in compilation.barriers().barriers for h in barrier.hazards]
    assert hazards
    for hazard in hazards:
        first, second = buffers[hazard.before.buffer], buffers[hazard.after.buffer]
        assert first.offset < second.end
        assert second.offset < first.end
        assert "write" in (hazard.before.kind, hazard.after.kind)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("matmul", "sm_80"), ("matmul", "sm_90"), ("attention_forward", "sm_80"),
        ("softmax", "sm_90"), ("vector_add", "sm_90"), ("vector_add", "gfx942"),
        ("layer_norm_backward", "sm_80"),
    ],
)  # fmt: skip
def test_estimated_widths_are_those_of_the_finished_code(name, target) -> None:
    accesses = of_corpus(name, target).axis_info().accesses
    bytes_of = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4}
    compared = 0
    for access in accesses:
        if access.vector_width is None or not access.compiled_bytes or not access.shape:
            continue
        # Accesses narrower than a word, masked alike, may be joined by LLVM:
        # never wider than the estimate's words.
        assert access.vector_width * bytes_of[access.element] in access.compiled_bytes, access
        compared += 1
    assert compared


def test_a_mask_at_an_unknown_length_makes_accesses_narrow() -> None:
    compilation = of_corpus("vector_add", "sm_90")
    (x, y, out) = compilation.axis_info().accesses
    assert (x.pointer, y.pointer, out.pointer) == ("x_ptr", "y_ptr", "out_ptr")
    assert x.contiguity == (1024,)
    assert x.divisibility == (16,)
    assert x.vector_width == 1
    # The same from the compiler's own mouth: "vectorization fails vec = 1 origin vec = 4".
    said = [r.what for r in compilation.remarks if "vectorization fails vec = 1" in r.what]
    assert len(said) == 3
    assert all("origin vec = 4" in words for words in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "length"),
    [
        (analyzed.sums_one_further_each_turn, "i32"),
        (analyzed.sums_the_tile_at_a_remainder, "i32:16"),
    ],
)
def test_the_addresses_of_a_loop_are_those_of_all_its_iterations(kernel, length) -> None:
    types = ("*fp32:16", "*fp32:16", length)
    (load, store) = compiled(kernel, *types, BLOCK=1024).axis_info().accesses
    assert (load.divisibility, load.vector_width, load.compiled_bytes) == ((4,), 1, (4,))
    assert store.vector_width == 4


@pytest.mark.slow
def test_an_access_has_its_parameter_also_behind_a_branch() -> None:
    types = ("*fp32:16", "*fp32:16", "i32")
    compilation = compiled(analyzed.from_either_end, *types, BLOCK=1024)
    assert [one.pointer for one in compilation.axis_info().accesses] == ["x_ptr", "out_ptr"]


def test_functions_that_stay_functions_are_in_the_call_graph() -> None:
    graph = of_corpus("ragged_scale", "sm_90").call_graph()
    kernel, helper = graph.functions
    assert kernel.is_kernel
    assert not kernel.noinline
    assert helper.noinline
    assert not helper.is_kernel
    assert kernel.calls == (helper.name, helper.name)
    assert graph.edges == ((kernel.name, helper.name),)
    assert source_line(helper.position).startswith("def first_of_row(")


def test_inlined_helpers_are_not_in_the_call_graph() -> None:
    graph = of_corpus("swish", "sm_80").call_graph()
    assert [function.name for function in graph.functions] == ["swish"]
    assert graph.edges == ()


def test_loads_run_two_stages_ahead_of_the_product() -> None:
    compilation = of_corpus("matmul", "sm_90")
    (loop,) = compilation.pipeline_stages().loops
    assert loop.stages == compilation.options["num_stages"] == 3
    stage = {op.operation: op.stage for op in loop.operations}
    assert (stage["tt.load"], stage["ttng.warp_group_dot"]) == (0, 2)
    assert source_line(loop.position).startswith("for ")


def test_work_of_a_loop_of_known_length_counted_by_hand() -> None:
    compilation = compiled(analyzed.scaled_sums, "*fp32:16", "*fp32:16", BLOCK=256, STEPS=10)
    work = compilation.work()
    # Each of 10 steps: a product and a sum per element; one product per element at the end.
    assert (work.flops, work.matrix_flops) == ({"1": 10 * 2 * 256 + 256}, {})
    assert (work.bytes_loaded, work.bytes_stored) == ({"1": 10 * 256 * 4}, {"1": 256 * 4})


def test_work_of_a_loop_of_unknown_length_names_the_length() -> None:
    work = of_corpus("matmul", "sm_90").work()
    products = " + ".join(f"{count:,} * {loops}" for loops, count in work.matrix_flops.items())
    assert f"of them in matmuls: {products}\n" in str(work)
    assert work.matrix_flops == {"ceil(K / 64)": 2 * 128 * 128 * 64}
    assert work.bytes_loaded == {"ceil(K / 64)": (128 * 64 + 64 * 128) * 2}
    assert work.bytes_stored == {"1": 128 * 128 * 2}


def test_work_in_a_while_loop_and_through_calls() -> None:
    collatz = of_corpus("collatz", "sm_90").work()
    assert collatz.bytes_stored == {"1": 256 * 4}
    ragged = of_corpus("ragged_scale", "sm_90").work()
    inside = [item for item in ragged.items if item.kind == "load" and item.each == 4]
    assert len(inside) == 2, "each of the two calls reads one length per iteration"


@pytest.mark.slow
def test_a_product_of_packed_fp4_has_twice_the_depth_of_its_bytes() -> None:
    work = of_corpus("matmul_mxfp4", "sm_100").work()
    (flops,) = work.matrix_flops.values()
    assert flops == 2 * 128 * 128 * 128


@pytest.mark.parametrize(
    "question", ["shared_memory", "barriers", "axis_info", "call_graph", "pipeline_stages", "work"]
)
def test_every_result_is_a_table_and_is_kept(question) -> None:
    compilation = of_corpus("matmul", "sm_90")
    result = getattr(compilation, question)()
    assert len(result.table()) > 0
    assert getattr(compilation, question)() is result


def test_without_passes_the_analyses_of_passes_say_what_to_do(raised) -> None:
    compilation = compiled(
        analyzed.scaled_sums, "*fp32:16", "*fp32:16", BLOCK=64, STEPS=2, record="stages"
    )
    assert compilation.work().flops == {"1": 2 * 2 * 64 + 64}
    for ask in (compilation.shared_memory, compilation.barriers, compilation.pipeline_stages):
        raised(ArgumentError, ask)


def test_places_are_the_kernels_also_after_the_ttgir_stage() -> None:
    compilation = of_corpus("layer_norm_backward", "sm_80")
    places = [barrier.position for barrier in compilation.barriers().barriers]
    assert all(place is not None and re.search(r"corpus/rows\.py$", place.file) for place in places)
    numbers = [barrier.number for barrier in compilation.barriers().barriers if barrier.number]
    assert all(first < second for first, second in pairwise(numbers))
