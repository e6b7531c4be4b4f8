"""What each pass of Triton's pipelines does, in our words, and what to look
for in the IR before and after it.

One note per name, whichever stage and backend runs the pass.
The docs site prints this table in docs/passes.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PassNote:
    """One pass, explained."""

    name: str
    topic: str
    """The heading under which the note is printed."""
    text: str
    """One paragraph: what the pass does, and what to look for."""


STARTS = "Where the record starts and ends"
CLEANING = "Cleaning up"
TTIR = "Before there are layouts (TTIR)"
LAYOUTS = "Layouts"
MATRIX = "Matmuls"
LOOPS = "Loops and software pipelining"
WARPS = "Warp specialization"
MEMORY = "Descriptors, fences and clusters"
TENSOR_MEMORY = "Tensor memory (Blackwell)"
AMD = "AMD only"
GLUON = "Gluon only"
LOWERING = "Down to LLVM"

TOPICS = (
    STARTS,
    CLEANING,
    TTIR,
    LAYOUTS,
    MATRIX,
    LOOPS,
    WARPS,
    MEMORY,
    TENSOR_MEMORY,
    AMD,
    GLUON,
    LOWERING,
)

_NOTES = {
    STARTS: {
        "front_end": (
            "No pass yet: the module as Triton's front end wrote it while it walked the kernel's "
            "Python. Every helper is a separate `tt.func` with a `tt.call` to it, block "
            "pointers and descriptors are ops, nothing is shared or folded. Look here for what "
            "your Python meant: which integers became `i64`, where a value was broadcast, which "
            "constants were compiled in."
        ),
        "given_text": (
            "No pass yet: the module that was read from an IR text. Compare it with your text to "
            "see what reading did: names of values may differ, meaning may not."
        ),
        "optimize_module": (
            "LLVM's own optimizer at level O3, after MLIR has handed the module over: inlining of "
            "device libraries, common subexpressions, loop-invariant code, instruction combining. "
            "The text is LLVM IR. Look for `phi` nodes (your loops), `fmuladd` and `fma`, wide "
            "`load <4 x ...>`, and address arithmetic that should have left the loop."
        ),
        "translate_to_asm": (
            "LLVM's code generator: instructions are selected, and for AMD registers are assigned. "
            "The text is PTX on NVIDIA, which has unlimited registers still, and the final "
            "assembly on AMD, whose last lines count registers and spills."
        ),
        "ptxas": (
            "NVIDIA's assembler turns PTX into machine code: it schedules instructions, assigns "
            "the real registers, decides what spills, and sets barriers and stall counts. The "
            "text is SASS, as `nvdisasm` prints it. Look for the matrix instructions (HMMA, "
            "HGMMA, UTCHMMA), for LDL and STL (spills), and at the code between LDG or LDS and the "
            "first use."
        ),
    },
    CLEANING: {
        "inliner": (
            "Puts the body of each called function in the place of the call; functions marked "
            "`noinline` stay. After it the calls of library helpers such as `tl.sum` and `tl.cdiv` "
            "are gone, and locations read `callsite(... at ...)`: the call chain is kept there. If "
            "`tt.call` is left in TTGIR, that helper costs a real call."
        ),
        "canonicalizer": (
            "Applies every op's own simplifications until nothing changes: constants are folded, "
            "`x + 0` and `x * 1` go, dead ops go, `scf.if` with a known condition and loops that "
            "run once are opened. Its runs after other passes sweep up what those left. Look for "
            "ops that vanish together with their only use."
        ),
        "cse": (
            "Common subexpression elimination: of two ops that compute the same from the same "
            "operands, one stays. It shows in op counts, not in structure: several `tt.splat`, "
            "`tt.make_range` or `arith.constant` become one."
        ),
        "loop_aware_cse": (
            "Common subexpression elimination that also sees through loops: two values carried "
            "round a loop in the same way become one. Look at the number of `iter_args` of "
            "`scf.for`, which falls where two pointers advanced in step."
        ),
        "sccp": (
            "Sparse conditional constant propagation: follows constants through branches and "
            "loops, and replaces what always has one value. It finds more than folding alone where "
            "a constant passes through a loop or an `scf.if`."
        ),
        "symbol_dce": (
            "Dead code elimination for functions and globals: drops private symbols that "
            "no one refers to, such as helpers whose calls were all inlined. Usually `tt.func "
            "private` disappears."
        ),
        "triton_licm": (
            "Loop-invariant code motion: what does not depend on the iteration moves before the "
            "loop, loads included where the loop surely runs and nothing in it writes. Look for "
            "ops that leave the body of `scf.for`; what stays although it looks invariant depends "
            "on something that is not."
        ),
    },
    TTIR: {
        "rewrite_tensor_pointer": (
            "Replaces block pointers (`tl.make_block_ptr`, `tl.advance`) by tensors of plain "
            "pointers, masks and offsets. Afterwards `tt.make_tensor_ptr` and `tt.advance` are "
            "gone and the loop carries integer offsets. Does nothing for kernels that use pointers "
            "or descriptors."
        ),
        "rewrite_tensor_descriptor_to_pointer": (
            "Replaces tensor descriptors by plain pointers with bounds masks, on targets that have "
            "no TMA hardware. Afterwards `tt.descriptor_load` is an ordinary `tt.load` with a "
            "mask; if you expected TMA and see this, the target has none."
        ),
        "combine": (
            "Triton's own peephole rules on TTIR: `dot(a, b, 0) + c` becomes `dot(a, b, c)`, "
            "nested `addptr` are merged, a `select` of a masked load becomes the load's `other`. "
            "Look for the zero accumulator that disappears."
        ),
        "reorder_broadcast": (
            "Moves elementwise ops before `tt.broadcast` and `tt.splat`, so that they work on the "
            "small tensor and not on the enlarged one. Look for arithmetic whose type shrinks from "
            "`128x64` to `128x1`, and for `splat` that moves down."
        ),
        "loop_unroll": (
            "Unrolls loops that ask for it: `tl.range(..., loop_unroll_factor=n)`, in the IR an "
            "attribute of `scf.for`. Without the attribute it changes nothing."
        ),
    },
    LAYOUTS: {
        "convert_to_ttgpuir": (
            "TTIR becomes TTGIR: each tensor type gets an encoding, first a default `#ttg.blocked` "
            "one that only knows the number of warps, and the module gets `ttg.num-warps`, "
            "`ttg.threads-per-warp` and `ttg.target`. It puts `ttg.convert_layout` where an op "
            "needs its operand otherwise (`tt.dot` wants `#ttg.dot_op`). These layouts are "
            "placeholders: the next passes choose good ones."
        ),
        "coalesce": (
            "Gives loads and stores the layout that makes neighboring lanes touch neighboring "
            "addresses, as wide as contiguity and alignment allow, up to 128 bits a lane. It "
            "inserts `ttg.convert_layout` around them. Look at `sizePerThread` and `order` of the "
            "load's new layout: a `sizePerThread` of 1 where you expected 8 means that the "
            "compiler could not prove contiguity or divisibility."
        ),
        "f32_dot_tc": (
            "Rewrites float32 `tt.dot` whose `input_precision` asks for it (`tf32x3`, `bf16x3`, "
            "`bf16x6`) as several products of a narrower type that tensor cores can do. Look for "
            "one `tt.dot` that became three or more with subtractions between them."
        ),
        "remove_layout_conversions": (
            "Removes `ttg.convert_layout` by letting layouts flow backwards and forwards through "
            "the ops between, and recomputing cheap values in the layout that is wanted. What "
            "remains is real traffic, mostly through shared memory. Count the conversions before "
            "and after, and look above all for those that stay inside a loop."
        ),
        "optimize_thread_locality": (
            "For a reduction whose result a loop accumulates: each thread keeps its own "
            "partial results during the loop, and the threads exchange them once after it. "
            "Also picks better layouts for gathers and some reductions. Look for `tt.reduce` "
            "that leaves the loop."
        ),
        "reduce_data_duplication": (
            "Splits a conversion to a `#ttg.dot_op` layout that would have many threads hold the "
            "same element into a trip through shared memory: `ttg.local_alloc` and "
            "`ttg.local_load`. This shows as shared memory that no line of yours asked for."
        ),
        "reorder_instructions": (
            "Moves ops to keep fewer registers busy: conversions and loads from shared memory sink "
            "to their first use, allocations rise to where their value is made. Only the order "
            "changes; look at the distance between a `ttg.local_load` and its use."
        ),
        "combine_tensor_select_and_if": (
            "Where an `arith.select` and an `scf.if` have the same condition, the select moves "
            "into the if: its two values are yielded by the branches. It saves a select per "
            "element in persistent and fused loops."
        ),
        "coalesce_async_copy": (
            "Adjusts the layout of asynchronous copies from global to shared memory "
            "(`ttg.async_copy_global_to_local`), so that each thread's piece is no wider than "
            "the shared layout and the hardware allow. Look at the `sizePerThread` of the "
            "copy's pointers."
        ),
    },
    MATRIX: {
        "accelerate_matmul": (
            "Chooses the matrix instruction. `tt.dot` gets a result layout of the hardware's: "
            "`#ttg.nvidia_mma` with its version (2: mma.sync, 3: warp-group wgmma, 5: tcgen05 with "
            "tensor memory) and `instrShape`, or `#ttg.amd_mfma` / `#ttg.amd_wmma`. If your dot "
            "keeps a `#ttg.blocked` result, it runs on ordinary arithmetic units, many times "
            'slower: shapes or types did not fit. The remark "MMA version 3 acceleration not '
            'applied" comes from '
            "here."
        ),
        "optimize_dot_operands": (
            "Prepares the operands of a dot: moves transpositions into the shared layout, which "
            "hardware can read either way, moves conversions before cheap elementwise ops, and "
            "lets a load feed shared memory directly. Look at `ttg.memdesc_trans` and at the "
            "shared encodings."
        ),
        "prefetch": (
            "Splits a dot inside a loop along K, and reads the first slice of the next iteration's "
            "operands from shared memory while this iteration still multiplies. Look for "
            "`ttg.memdesc_subslice` with `ttg.local_load` before the loop and at its end. For "
            "mma.sync targets only."
        ),
        "optimize_accumulator_init": (
            'Replaces an accumulator that is set to zero by a flag "do not use the accumulator" '
            "for the first product, so that nothing has to be written first. Look for a `select` "
            "or a zero tensor that becomes a boolean operand of the matrix "
            "op."
        ),
        "lower_mma": (
            "Breaks scaled and asynchronous Blackwell matrix ops into what the hardware does: for "
            "instance the copies of scale factors into tensor memory (`ttng.tmem_copy`) and the "
            "commit onto a barrier."
        ),
        "check_matmul_two_cta": (
            "Checks that all matrix ops of the kernel agree on whether two CTAs work on one "
            "product, and writes the answer on the module as `ttng.two-ctas`. It is a check: the "
            "only change is that attribute."
        ),
    },
    LOOPS: {
        "fuse_nested_loops": (
            "Turns a loop in a loop into one loop, so that the inner one can be pipelined across "
            "iterations of the outer one. Happens where `tl.range(..., flatten=True)` asks for "
            "it, or warp specialization does. Look for `scf.if` guards in one body instead of "
            "two `scf.for`."
        ),
        "assign_latencies": (
            "The first step of software pipelining: decides how many iterations ahead each load "
            "(and each asynchronous matrix op) in a loop is to start, from `num_stages`. The "
            "result is an attribute, `tt.latency`, on those ops. A load without it will not be "
            "pipelined: too small, not wide enough to copy asynchronously, or used too indirectly."
        ),
        "schedule_loops": (
            "The second step of software pipelining: spreads the ops of each loop over stages, "
            "from the latencies. The result is the attributes `loop.stage` and `loop.cluster` on "
            "ops, and `tt.scheduled_max_stage` on the loop. Nothing has moved yet: this is the "
            "plan that `pipeline` carries out. On AMD it also decides which loads go through "
            "shared memory."
        ),
        "pipeline": (
            "Carries out the plan: loads become asynchronous copies into a ring of buffers in "
            "shared memory (`ttg.async_copy_global_to_local`, or TMA with barriers), the first "
            "iterations are peeled off as a prologue before the loop, and each iteration waits for "
            "a copy that was started iterations ago (`ttg.async_wait`). Look at the "
            "`ttg.local_alloc` whose first dimension is the number of buffers: it is what makes "
            "shared memory grow with `num_stages`."
        ),
    },
    WARPS: {
        "hopper_warpspec": (
            "Warp specialization for Hopper, where `tl.range(..., warp_specialize=True)` "
            "requests it: producer warps load, consumer warps multiply. Without the request it "
            "changes nothing."
        ),
        "warp_specialize": (
            "Warp specialization for Blackwell, where `tl.range(..., warp_specialize=True)` "
            "requests it: partitions the loop's ops among groups of warps (loading, matrix ops, "
            "the rest), which talk through barriers in shared memory. Look for "
            "`ttg.warp_specialize` with one region per group."
        ),
        "optimize_partition_warps": (
            "Gives each partition of a `ttg.warp_specialize` as few warps and registers as its "
            "ops need: a partition that only starts copies needs one warp. Look at `num_warps` of "
            "each partition."
        ),
        "allocate_warp_groups": (
            "Numbers the warps of all partitions and divides the registers among them: "
            "`warpGroupStartIds` and `requestedRegisters` on `ttg.warp_specialize`, and "
            "`ttg.total-num-warps` on the module. Without warp specialization, only that "
            "attribute is new."
        ),
        "warp_specialize_to_llvm": (
            "Turns `ttg.warp_specialize` into control flow: extra warps wait in a loop for the "
            "number of the partition that they are to run, and the default warps wake them. "
            "Without warp specialization nothing changes on most kernels."
        ),
        "initialize_ws_cluster_barriers": (
            "With warp specialization and several CTAs in a cluster: sets up, before "
            "anything runs, the barriers with which one partition waits for the same "
            "partition of other CTAs."
        ),
        "hoist_mbarrier_lifecycle": (
            "Moves setting up and tearing down barriers in shared memory out of loops and "
            "partitions, so that it happens once. Look for `ttng.init_barrier` and "
            "`ttng.inval_barrier` that leave a loop."
        ),
    },
    MEMORY: {
        "plan_cta": (
            "For kernels with `num_ctas` above 1: decides how the CTAs of a cluster divide each "
            "tile, and writes it into the layouts (`CTASplitNum`). With one CTA it changes nothing."
        ),
        "assign_cga_layouts": (
            "For kernels with `num_ctas` above 1: decides how the CTAs of a cluster divide each "
            "tile, and writes it into the layouts. With one CTA it changes nothing."
        ),
        "optimize_cta_locality": (
            "For kernels with several CTAs in a cluster: changes layouts so that data stays in "
            "the CTA that has it, and conversions across CTAs disappear. With one CTA it "
            "changes nothing."
        ),
        "optimize_descriptor_encoding": (
            "Chooses the shared-memory layout of each tensor descriptor, from how its tiles are "
            "used, so that TMA writes what the matrix units read. Look at the `#ttg.nvmma_shared` "
            "encoding inside `!tt.tensordesc`, its `swizzlingByteWidth` above all."
        ),
        "tma_lowering": (
            "Turns `tt.descriptor_load` and `tt.descriptor_store` into what TMA does: a buffer in "
            "shared memory, a barrier, `ttng.async_tma_copy_global_to_local`, and a wait on the "
            "barrier. Descriptors made on the device become `ttng.tensormap_create` and a fence. "
            "Loads that the pipeliner took were done before."
        ),
        "fence_insertion": (
            "Inserts `ttng.fence_async_shared` where ordinary stores to shared memory are read by "
            "the asynchronous units (wgmma, TMA), which do not see them in order otherwise."
        ),
        "proxy_fence_insertion": (
            "The same care as `fence_insertion`, once offsets in shared memory are known: a fence "
            "where an ordinary access and one of the asynchronous units (TMA, tensor cores) touch "
            "overlapping bytes."
        ),
        "lower_clc": (
            "Lowers cluster launch control, with which a running CTA of a persistent kernel gets "
            "its next tile from the hardware, to its buffers and barriers. Without such ops it "
            "changes nothing."
        ),
        "cluster_barrier_mbar_allocator": (
            "Gives each barrier across a cluster that only one partition of warps runs a place in "
            "shared memory: the hardware's cluster barrier would wait for all warps. Without warp "
            "specialization and clusters it changes nothing."
        ),
    },
    TENSOR_MEMORY: {
        "hoist_tmem_alloc": (
            "Moves `ttng.tmem_alloc` out of loops (and in its second run out of `scf.if`), so "
            "that an accumulator stays in tensor memory from one iteration to the next instead "
            "of being loaded and stored. Look for `ttng.tmem_load` and `ttng.tmem_store` that "
            "leave the loop."
        ),
        "promote_lhs_to_tmem": (
            "Lets the left operand of a matrix op that was computed in registers (the "
            "probabilities in attention) go to tensor memory instead of shared memory. Look for a "
            "`ttng.tmem_alloc` with a source as the first operand of `ttng.tc_gen5_mma`."
        ),
        "remove_tmem_tokens": (
            "Removes the tokens with which earlier passes ordered accesses to tensor memory: "
            "they were for the compiler, and no instruction comes of them. Op counts stay; "
            "operands disappear."
        ),
        "optimize_tmem_layouts": (
            "Chooses register layouts for loads from and stores to tensor memory that match "
            "its rows and columns, so that reductions along a row stay in a thread, and a wide "
            "load may be split."
        ),
        "interleave_tmem": (
            "Moves loads from tensor memory down to their uses, so that their results hold "
            "registers for a shorter time. Only the order changes."
        ),
        "tmem_load_reduce": (
            "Joins a load from tensor memory with the maximum or minimum over its rows that "
            "follows, where the hardware does both in one instruction."
        ),
        "allocate_tensor_memory": (
            "Gives each `ttng.tmem_alloc` its columns and rows in the 512 columns of 128 rows of "
            "tensor memory, and writes the total on the module: `ttg.tensor_memory_size`. Without "
            "tensor memory only that attribute is new, with 0."
        ),
        "tmem_barrier_insertion": (
            "Inserts barriers between accesses to tensor memory by different warps that must not "
            "overtake each other, as `membar` does for shared memory."
        ),
        "tmem_wait_insertion": (
            "Inserts the waits that make sure a load from or a store to tensor memory has finished "
            "before its registers or its columns are used again."
        ),
    },
    AMD: {
        "optimize_epilogue": (
            "Stores the result of a matmul straight from the layout of the matrix "
            "instruction, where this saves a conversion through shared memory. Look for the "
            "`ttg.convert_layout` before the last `tt.store` that is gone."
        ),
        "hoist_layout_conversions": (
            "Moves a conversion to a dot operand's layout out of the loop where its source "
            "does not change there: it costs registers and saves shared memory traffic in "
            "each iteration."
        ),
        "sink_layout_conversions": (
            "Moves layout conversions down, behind the last release of other shared memory and "
            "before their first use, so that their scratch memory can share memory with it."
        ),
        "convert_to_tensor_ops": (
            "Turns descriptor loads and stores into transfers by the tensor data mover, on GPUs "
            "that have one (gfx1250). On all others it changes nothing."
        ),
        "in_thread_transpose": (
            "For a dot operand that lies the wrong way in memory: each thread loads a small "
            "two-dimensional piece and transposes it in its registers before writing it to shared "
            "memory, so that both sides stay wide. Look for `amdg.in_thread_transpose`."
        ),
        "move_up_prologue_loads": (
            "Moves the loads before a pipelined loop as early as the pointers they need allow, so "
            "that they are under way sooner; costs registers."
        ),
        "block_pingpong": (
            "Lets two warps of the same SIMD take turns, one multiplying while the other loads: "
            "splits the loop's body into clusters with barriers and priorities between them "
            "(`rocdl.s.setprio`, conditional barriers). Only for tile sizes and numbers of warps "
            "that it knows."
        ),
        "canonicalize_pointers": (
            "Writes each tensor of pointers as one scalar base pointer and a tensor of offsets, "
            "and carries the two apart through loops and branches. It is what makes buffer "
            "instructions possible."
        ),
        "convert_to_buffer_ops": (
            "Turns loads, stores and atomics into buffer instructions (`amdg.buffer_load`, "
            "`amdg.buffer_store`): a scalar base and 32-bit offsets, with bounds checked by "
            "hardware, so that a mask costs no branch. Needs proof that offsets are not negative "
            "and below 2 GiB; look for the `tt.load` that stayed one."
        ),
        "optimize_buffer_op_ptr": (
            "In a loop that advances the offsets of a buffer operation by the same step for every "
            "element, advances the scalar base pointer instead: fewer vector additions."
        ),
        "fold_true_cmpi": (
            "Replaces comparisons that range analysis proves true by the constant: masks of loads "
            "that can never be out of bounds go away."
        ),
        "prepare_if_combining": (
            "Moves harmless ops out from between two `scf.if` with the same condition, so that the "
            "canonicalizer can make one of them."
        ),
        "warp_pipeline": (
            "For Gluon kernels that mark stages with borders: makes a pipeline of the stages in "
            "which the warps of a CTA are one stage apart. Without marks it changes nothing."
        ),
        "warp_pipeline_conversion": (
            "Turns the stages of a warp pipeline into barriers and priorities. Without one it "
            "changes nothing."
        ),
        "update_async_wait_count": (
            "Counts how many asynchronous copies may still be under way at each `async_wait`, in "
            "the hardware's own units, so that it waits for no more than it must."
        ),
        "optimize_lds_usage": (
            "Where shared memory (LDS) would not suffice: splits layout conversions into two "
            "smaller ones through an intermediate layout."
        ),
        "builtin_func_to_llvmir": (
            "Replaces calls of placeholder functions (predicated loads and stores, fast "
            "mathematical functions) by the instructions that they stand for."
        ),
        "cf_to_llvmir": (
            "Turns branches (`cf.br`, `cf.cond_br`) that are left into those of the LLVM dialect."
        ),
        "arith_to_llvmir": (
            "Turns scalar arithmetic that is left (`arith.*`) into the LLVM dialect; arithmetic "
            "on tensors was turned by `to_llvmir`."
        ),
        "index_to_llvmir": (
            "Turns operations on MLIR's `index` type into the LLVM dialect. Triton kernels "
            "hardly have any."
        ),
        "reconcile_unrealized_casts": (
            "Removes the temporary casts between MLIR types and LLVM types that conversions leave "
            "behind. What would remain is an error."
        ),
    },
    GLUON: {
        "resolve_auto_encodings": (
            "Replaces layouts that a kernel left to the compiler (`gl.AutoLayout`) by those that "
            "the ops around them demand; two different demands are an error."
        ),
        "infer_coalesced_encodings": (
            "Replaces layouts that a kernel left to be coalesced (`gl.CoalescedLayout`) by one "
            "that makes lanes touch neighboring addresses, as `coalesce` does for Triton kernels."
        ),
    },
    LOWERING: {
        "scf_to_cf": (
            "Turns structured loops and ifs (`scf.for`, `scf.if`) into basic blocks with branches. "
            "The tree of regions becomes a graph: look for `cf.cond_br` and block arguments, which "
            "are what the loop carried."
        ),
        "allocate_shared_memory": (
            "Gives each buffer in shared memory its offset, so that those that never live together "
            "share it, scratch memory of reductions and layout conversions included. The results "
            "are `allocation.offset` on ops and `ttg.shared`, the total in bytes, on the module."
        ),
        "allocate_shared_memory_nv": (
            "Gives each buffer in shared memory its offset, so that those that never live together "
            "share it, scratch memory of reductions and layout conversions included. The results "
            "are `allocation.offset` on ops and `ttg.shared`, the total in bytes, on the module."
        ),
        "allocate_global_scratch_memory": (
            "Adds up what the kernel needs of scratch memory in global memory (descriptors made on "
            "the device, for example), as attributes on the module and offsets on ops. Usually 0."
        ),
        "membar": (
            "Finds where two accesses to the same bytes of shared memory could overtake each "
            "other, and puts a barrier between them. In earlier versions of Triton this is part of "
            "`to_llvmir`. Each barrier is a wait of all warps: look for those inside loops."
        ),
        "to_llvmir": (
            "The great step: every op on tensors becomes the LLVM dialect, written out for one "
            "thread. A tensor is a struct of the registers that this thread holds; a load is "
            "inline assembly or a wide load with a predicate; `tt.dot` is its matrix instructions; "
            "barriers are put where shared memory demands them. The text grows by ten times or "
            "more: look for one op of yours by its location."
        ),
        "canonicalize_llvm_ir": (
            "The canonicalizer for what `to_llvmir` wrote: packing values into structs and taking "
            "them out again cancels, constants are folded. The text shrinks a lot."
        ),
        "nvgpu_to_llvm": (
            "Turns the last NVIDIA helper ops (wgmma with its waits, tensor-memory ops, warp ids, "
            "cluster ids) into inline PTX."
        ),
        "nvvm_to_llvm": "Turns the NVVM ops that have no LLVM intrinsic into inline PTX.",
        "di_scope": (
            "Adds debug information: a subprogram for the kernel and scopes for what was inlined, "
            "from the ops' locations. It is what `.loc` in PTX, the lines in SASS and the source "
            "map come from; no instruction changes."
        ),
    },
}

PASS_NOTES = {
    name: PassNote(name, topic, text)
    for topic, notes in _NOTES.items()
    for name, text in notes.items()
}
"""Pass name, as in `PassRun.name` -> its note."""


def note_of(name: str) -> PassNote | None:
    """The note of a pass, or None for a pass that no pipeline of the supported
    versions runs by itself.
    """
    return PASS_NOTES.get(name)
