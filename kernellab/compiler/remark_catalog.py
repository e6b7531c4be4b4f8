"""What the compiler's remarks mean and what can be done: a table from its words to plain ones.

The phrases are those of Triton 3.6 to 3.9 (its front end, its passes, NVIDIA's and AMD's backends)
and of the ptxas that comes with it. A phrase that is not here appears as the compiler wrote it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace

from kernellab.records.compilations import Remark, RemarkOrigin


@dataclass(frozen=True)
class Wording:
    """A phrase of the compiler's, and what it means."""

    origin: RemarkOrigin
    phrase: str
    """A regular expression for the whole of its words; named groups are the values in them."""
    meaning: str
    """`{name}` stands for the value of a group."""
    advice: str = ""
    """What to try; "" where there is nothing to do."""


def explained(remark: Remark) -> Remark:
    """The remark with its meaning and advice, where the table has its phrase."""
    for wording in WORDINGS:
        if wording.origin == remark.kind and (
            match := _compiled(wording.phrase).fullmatch(remark.what)
        ):
            values = match.groupdict()
            return replace(
                remark,
                why=wording.meaning.format_map(values),
                advice=wording.advice.format_map(values),
            )
    return remark


_compiled = functools.cache(re.compile)

_ALIGNED = (
    "pass pointers, sizes and strides that are multiples of 16, or promise what holds with "
    "tl.multiple_of and tl.max_contiguous"
)
_SERIAL = (
    "Each warp-group product (wgmma) waits for the one before it instead of overlapping with it: "
)
_KEEPS_REGISTERS = (
    "The groups of warps keep the registers that they start with (setmaxnreg is ignored): "
)

WORDINGS: tuple[Wording, ...] = (
    # Accesses to global memory, NVIDIA
    Wording(
        "mlir",
        r"vectorization fails vec = 1 origin vec = 1 (numElems|elemsPerThread) = (?P<count>\d+) "
        r"mask is -?\d+",
        "Each thread accesses its {count} elements one by one: nothing shows the compiler that any "
        "two of them are adjacent in memory, at an address that a wider access may have.",
        "Let the tile's last index go through memory in steps of one, and keep starts "
        f"aligned: {_ALIGNED}.",
    ),
    Wording(
        "mlir",
        r"vectorization fails vec = 1 origin vec = (?P<possible>\d+) (numElems|elemsPerThread) = "
        r"(?P<count>\d+) mask is \d+",
        "Each thread accesses its {count} elements one by one, although their addresses allow "
        "{possible} at once: the mask may switch off any one of them alone.",
        "Let the mask compare with a multiple of 16, so that neighbors are on or off together: "
        "pass such a size, or promise it with tl.multiple_of.",
    ),
    Wording(
        "mlir",
        r"vectorization fails vec = 1 packed = 1 origin vec = 1 numElems = (?P<count>\d+)",
        "This atomic operation on {count} elements takes one element at a time: the GPU has no "
        "wider instruction for this operation and type, or nothing shows the compiler that two of "
        "a thread's elements are adjacent in memory, on or off together.",
        "Additions of fp16, and on sm_90 and later of bf16 and fp32, can be wider. Let "
        "neighbors follow each other in memory, under a mask that compares with a multiple of "
        f"16: {_ALIGNED}.",
    ),
    Wording(
        "mlir",
        r"vectorization fails vec = 1 packed = 1 origin vec = (?P<possible>\d+) numElems = "
        r"(?P<count>\d+)",
        "This atomic operation on {count} elements takes one element at a time, although their "
        "addresses allow {possible}: the GPU has no wider instruction for this operation and type.",
        "Atomic additions of fp16 come in pairs; on sm_90 and later those of fp16, bf16 and fp32 "
        "up to 16 bytes at once.",
    ),
    # Matmuls, NVIDIA
    Wording(
        "mlir",
        r"MMA version 3 acceleration not applied due to unsupported shapes or data types\.",
        "This product does not use Hopper's warp-group instructions (wgmma), the fastest there "
        "are: its tiles or types do not fit them.",
        "They take tiles of rank 2 with M a multiple of 64, N of 16 and at least 32 bytes along K; "
        "fp16, bf16, fp8, int8, or fp32 "
        'with input_precision="tf32"; fp8 with max_num_imprecise_acc of at least 32; and 4 warps '
        "or a multiple of 4.",
    ),
    Wording(
        "mlir",
        r"MMA version 5 acceleration not applied due to unsupported shapes or data types\.",
        "This product does not use Blackwell's matrix unit (tcgen05, in tensor memory), the "
        "fastest there is: its tiles or types do not fit it.",
        "It takes tiles of rank 2 with M a multiple of 64, N of 16 and at least 32 bytes along K; "
        "fp16, bf16, fp8, or fp32 with "
        'input_precision="tf32" (int8 on some GPUs); and 4 or 8 warps.',
    ),
    Wording(
        "mlir",
        r"Target compute capability \((?P<capability>\d+)\) supports MMA v(?P<version>\d)\.",
        "sm_{capability} has it.",
    ),
    Wording(
        "mlir",
        r"Dot op using MMA for compute capability (?P<capability>\d+) has been deprecated\. It "
        r"falls back to the FMA path\.",
        "This product runs without tensor cores, on ordinary multiply-adds: Triton does not use "
        "those of compute capability {capability} any more.",
        "Compile for sm_80 or later where you can.",
    ),
    Wording(
        "mlir",
        r"Forcing a different order \[(?P<first>\d+), (?P<second>\d+)\] on SMEM than the register "
        r"order for the operand (?P<operand>\d+)\..*",
        "Operand {operand} of this product lies in memory the wrong way round for the matrix unit. "
        "Each tile of it is transposed in registers on its way to shared memory, and its load is "
        "not pipelined.",
        "Store that tensor transposed in global memory (K as the dimension of stride 1), as types "
        "other than fp16 and bf16 need it.",
    ),
    # Software pipelining
    Wording(
        "mlir",
        r"Pipelining load that cannot use vectorized copy\. .*",
        "This load is pipelined through registers, not by asynchronous copies into shared memory, "
        "which take at least 4 adjoining bytes: it holds a tile in registers for every stage that "
        "it runs ahead.",
        f"Let its last index go through memory in steps of one: {_ALIGNED}. Or lower num_stages.",
    ),
    Wording(
        "mlir",
        r"Pipelining load with different use encodings\. .*",
        "What this load brings is needed in two different layouts of shared memory. It is kept in "
        "one, and converted for the other in every turn of the loop.",
        "Load the tile once for each use, if shared memory is large enough.",
    ),
    Wording(
        "mlir",
        r"Not pipelining TMA load because the per-stage shared-memory allocation size is not a "
        r"multiple of the 128-byte TMA alignment\.",
        "This load through a descriptor is not pipelined: the shared memory that it takes per "
        "stage is not a multiple of 128 bytes.",
        "Take a block whose size in bytes is a multiple of 128.",
    ),
    Wording(
        "mlir",
        r"operation scheduled before its operands\. Pipelining will be disabled\.",
        "This loop is not pipelined: its schedule puts this operation before those that it needs.",
        "Without pipelining a loop is slow, not wrong. Take a smaller num_stages, or tl.range(..., "
        "num_stages=1) for this loop.",
    ),
    Wording("mlir", r"operand defined here: .*", "The operation that it needs."),
    # Warp specialization
    Wording(
        "mlir",
        r"non-root partition #(?P<partition>\d+) has direct SSA consumer",
        "This loop is not split among groups of warps: group {partition} computes this value, and "
        "another one uses it directly, not through memory.",
        "Compute what both need from what both load, or leave warp_specialize out.",
    ),
    Wording(
        "mlir",
        r"use at distance (?P<distance>\d+) in partition #(?P<partition>\d+) here",
        "Group {partition} uses it here, {distance} turns of the loop later.",
    ),
    Wording(
        "mlir",
        r"\w+: capturing tensor values into warp partitions is not supported",
        "A tile that is made before the specialized loop is handed to groups of warps as it is, "
        "which Triton says it does not support on Hopper.",
        "Compare the results with those of the same loop without warp_specialize; make the tile "
        "inside the loop.",
    ),
    # Assumptions
    Wording(
        "mlir",
        r"unsupported cmp predicate for assumption",
        "This tl.assume does not narrow any range: the analysis of ranges has no use "
        "for == and !=.",
        "State a bound with <, <=, > or >=, as in tl.assume(n > 0).",
    ),
    Wording(
        "mlir",
        r"unsupported assumption operation",
        "This tl.assume does not narrow any range: its condition is not one "
        "comparison of integers.",
        "Write one tl.assume for each comparison; where `and` joins them, that says the same.",
    ),
    # Matmuls, AMD
    Wording(
        "mlir",
        r"Unable to select MFMA intrinsic for the request: version=(?P<version>\d+), "
        r"result-shape=\((?P<shape>\d+x\d+)\), selected-tiles=\((?P<tiles>\d+x\d+)\), inputKSize="
        r"(?P<k>\d+), aElemType='?(?P<a>[^',]+)'?, bElemType='?(?P<b>[^',]+)'?, .*",
        "This product does not use the matrix cores (MFMA): they have no instruction for a {shape} "
        "result with K = {k} of {a} and {b}.",
        "Take M and N of at least 16, or 4 together with at least 64, and types that this GPU "
        "multiplies: fp16, bf16, int8, fp32, fp64, and fp8 on gfx942 and gfx950.",
    ),
    Wording(
        "mlir",
        r"Unable to select MFMA intrinsic '(?P<name>[^']+)' as MFMA intrinsic k-dimension size "
        r"kDim=(?P<kdim>\d+), which is not a multiple of tile k-dimension size inputKSize="
        r"(?P<k>\d+)\. .*",
        "This product does not use the matrix cores (MFMA): their instruction {name} takes {kdim} "
        "elements along K at a time, and the tiles have {k}.",
        "Make K of the tiles a multiple of {kdim}.",
    ),
    Wording(
        "mlir",
        r"Attempting to map dot operation to FMA intrinsic\.",
        "This product runs on ordinary multiply-adds, without the matrix cores.",
        "Take larger tiles, of types that the matrix cores multiply.",
    ),
    Wording(
        "mlir",
        r"missing native support for fp8 variant on current architecture; emulated with fp16 so "
        r"low performance",
        "This GPU has no products of this type of fp8: the operands become fp16 first, "
        "which is slow.",
        "Take the types of fp8 that it has: fp8e4b8 and fp8e5b16 on gfx942, fp8e4nv and "
        "fp8e5 on gfx950.",
    ),
    Wording(
        "mlir",
        r"for gfx942 please use native supported fp8 variants",
        "gfx942 multiplies fp8e4b8 and fp8e5b16 as they are.",
        "Convert the tensors to torch.float8_e4m3fnuz or torch.float8_e5m2fnuz.",
    ),
    Wording(
        "mlir",
        r"Decomposing scaled dot operation into regular dot operation with explicit scaling\.",
        "The compiler tried to multiply the operands of this scaled product by their scales "
        "first, and so make it an ordinary one. It says so also where it then keeps the GPU's "
        "scaled instruction.",
        "Look for v_mfma_scale or v_wmma_scale in the assembly: if it is there, nothing is lost.",
    ),
    Wording(
        "mlir",
        r"Performed (?P<count>one|two|four) ping pong cluster transformation",
        "Two warps of each SIMD take turns in this loop: while one multiplies, the other loads "
        "(ping pong). Phases of either kind in a turn of the loop: {count}.",
    ),
    # Memory, AMD
    Wording(
        "mlir",
        r"Global memory operation between async wait and async_loads\. .*",
        "This access to global memory is between asynchronous copies and the wait for them. "
        "The wait then cannot count the copies alone, and waits longer.",
        "Move the access before the loop or behind it.",
    ),
    Wording(
        "mlir",
        r"has subregions but is not analyzed when determining async wait count; this yields "
        r"conservative waits",
        "Across this operation asynchronous copies are not counted: the next wait is "
        "for all of them.",
        "Move the operation out of the loop that copies.",
    ),
    Wording(
        "mlir",
        r"ExecuteRegion with multiple blocks is not supported; falling back to "
        r"conservative wait count",
        "Across this piece of code asynchronous copies are not counted: the next wait is "
        "for all of them.",
    ),
    Wording(
        "mlir",
        r"has no async sync information attached to it which might negatively affect "
        r"performance\. .*",
        "It is not known whether this read of shared memory comes after a wait for asynchronous "
        "copies: it waits for all memory, to be safe.",
    ),
    Wording(
        "mlir",
        r"cache modifiers not yet implemented on (?P<target>\w+)",
        "The cache_modifier of this access has no effect on {target}.",
        "Leave it out there.",
    ),
    Wording(
        "mlir",
        r"Multicast with bit width (?P<bits>\d+) is not supported on (?P<target>\w+) falling back "
        r"to regular load",
        "This load is not shared among the programs of a cluster: {target} does that for other "
        "widths than {bits} bits.",
    ),
    Wording(
        "mlir",
        r"skipping canonicalize-pointers due to ub\.poison",
        "Pointers of this kernel are not split into a base and an offset, and its accesses cannot "
        "be buffer instructions: it has a value that is not defined.",
        "Give the value on every path: a helper that returns early, say, needs a return "
        "on all of them.",
    ),
    Wording(
        "mlir",
        r"expected at least 1 use of unrealized_cast",
        "A pointer among the kernel's parameters is not used.",
    ),
    # Triton's front end
    Wording(
        "triton",
        r"tl\.where with a non-boolean condition is deprecated and will error out in a future "
        r"triton release\. Got (?P<type>\w+)",
        "The condition of tl.where is {type}, not a boolean: what is not zero counts as true. "
        "Later versions of Triton refuse it.",
        "Compare: tl.where(x != 0, ...).",
    ),
    Wording(
        "triton",
        r"Logical operators 'and' and 'or' are deprecated for non-scalar tensors; please use '&' "
        r"or '\|' instead",
        "`and` and `or` between tiles work element by element here, which later versions of "
        "Triton refuse.",
        "Write & and |, with parentheses around the comparisons: (i > 3) & (i < n).",
    ),
    Wording(
        "triton",
        r'If conditional called with multidimensional Tensor instead of scalar; please use "if \('
        r'(?P<condition>.*)\)\.item\(\)" instead',
        "The condition {condition} is a tile with one element, not a scalar.",
        "Write ({condition}).item(), or load the scalar itself.",
    ),
    Wording(
        "triton",
        r"Value (?P<shift>\d+) exceeds the maximum bitwidth \((?P<bits>\d+)\) for type '"
        r"(?P<type>\w+)'\. .*",
        "A shift by {shift} bits leaves nothing defined of {type}, which has {bits}.",
        "Convert first: x.to(tl.int64) << {shift}.",
    ),
    Wording(
        "triton",
        r"view is deprecated, please use reshape with can_reorder being true\.",
        "tl.view is on its way out.",
        "Write tl.reshape, which keeps the order of the elements.",
    ),
    Wording(
        "triton",
        r"tl\.make_block_ptr is deprecated\. Use TensorDescriptor or "
        r"tl\.make_tensor_descriptor instead\.",
        "Block pointers are on their way out: Triton 3.9 has none.",
        "Make a tensor descriptor: tl.make_tensor_descriptor(base, shape, strides, block_shape), "
        "with .load and .store.",
    ),
    Wording(
        "triton",
        r"passing propagate_nan to builtin (?P<name>max|min) is deprecated, use "
        r"tl\.minimum instead",
        "propagate_nan in {name}() is on its way out.",
        "Write tl.{name}imum(x, y, propagate_nan=...).",
    ),
    Wording(
        "triton",
        r"builtin (?P<name>max|min) on non-scalar tensor values is deprecated, use tl\.\w+ instead",
        "{name}() of tiles, element by element, is on its way out.",
        "Write tl.{name}imum(x, y).",
    ),
    Wording(
        "triton",
        r"tl\.(?P<name>cat|reshape)\(can_reorder=True\) is deprecated and will be removed in "
        r"Triton 3\.10.*",
        "tl.{name} with can_reorder=True may put elements in any order, and is gone "
        "in Triton 3.10.",
        "Leave can_reorder out: the order is then the expected one.",
    ),
    Wording(
        "triton",
        r"The keep_dims argument to tl\.softmax is deprecated and ignored; softmax always "
        r"preserves the input shape\.",
        "keep_dims of tl.softmax has no effect: the result has its argument's shape.",
        "Leave it out.",
    ),
    Wording(
        "triton",
        r"TRITON_DEFAULT_FP_FUSION is unset: .*",
        "Products and sums of floats are fused into multiply-adds, with one rounding; from Triton "
        "3.10 on they are not, unless asked for.",
        "Say which you want: the option enable_fp_fusion of the launch, or "
        "TRITON_DEFAULT_FP_FUSION=1 or =0 in the environment.",
    ),
    Wording(
        "triton",
        r"the use of fp8e4b15 is deprecated on Hopper and later architectures .*",
        "Hopper and later GPUs have no fp8e4b15: the operands of the product become fp16 first, "
        "which is slow. Later versions of Triton have no such type.",
        "Use fp8e4nv (torch.float8_e4m3fn) or fp8e5 (torch.float8_e5m2).",
    ),
    Wording(
        "triton",
        r"(?P<type>fp8\w+) is AMD gfx942 specific and not supported on (?P<target>\w+) so it's "
        r"upcasted to fp16 .*",
        "{target} has no {type}, which only gfx942 has: the operands of the product become fp16 "
        "first, which is slow.",
        "Use fp8e4nv (torch.float8_e4m3fn) or fp8e5 (torch.float8_e5m2).",
    ),
    Wording(
        "triton",
        r"kpack is deprecated starting from gfx950 .* kpack = (?P<kpack>\d+) will be "
        r"overwritten to 1 .*",
        "The option kpack={kpack} has no effect on gfx950: it is 1 there.",
        "Leave it out.",
    ),
    Wording(
        "triton",
        r"Large (?P<operation>.+) FMA instruction size (?P<shape>[\dx]+) may have slow "
        r"compile times",
        "A product of {shape} on ordinary multiply-adds is written out in full: compiling "
        "may take long.",
        "Use the matrix instructions, or smaller tiles.",
    ),
    # The PTX assembler
    Wording(
        "ptxas",
        r"0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "Nothing is spilled: all values stay in registers, and there is no stack.",
    ),
    Wording(
        "ptxas",
        r"(?P<stack>\d+) bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
        "Nothing is spilled. Each thread has a stack of {stack} bytes in local memory, for what "
        "cannot be in registers: arrays, and the arguments of calls, as of device_print.",
    ),
    Wording(
        "ptxas",
        r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) "
        r"bytes spill loads",
        "More values are alive at once than there are registers: the code has stores of {stores} "
        "bytes to local memory for them, and loads of {loads} (spills), counted once each, per "
        "thread; the stack has {stack}.",
        "Take smaller tiles, more warps (num_warps) or fewer stages (num_stages), or allow more "
        "registers (maxnreg), so that a thread holds less.",
    ),
    Wording(
        "ptxas",
        r"Used (?P<registers>\d+) registers(, used (?P<barriers>\d+) barriers)?.*",
        "Each thread has {registers} registers.",
    ),
    Wording(
        "ptxas",
        r"(\(C\d+\) )?Potential Performance Loss: wgmma\.mma_async instructions are serialized due "
        r"to insufficient register resources.*",
        f"{_SERIAL}there are not enough registers for what several of them in flight hold.",
        "Take a smaller tile of the result, or more warps (num_warps=8), so that a thread "
        "holds less of it.",
    ),
    Wording(
        "ptxas",
        r"(\(C\d+\) )?Potential Performance Loss: wgmma\.mma_async instructions are "
        r"serialized due to non wgmma instructions (?P<what>defining|reading) "
        r"(?P<part>accumulator|input) registers.*",
        f"{_SERIAL}other instructions touch their {{part}} registers while they run.",
        "Keep the accumulator for tl.dot alone inside the loop: scale, convert and add after it, "
        "or in a separate tile.",
    ),
    Wording(
        "ptxas",
        r"(\(C\d+\) )?Potential Performance Loss: wgmma\.mma_async instructions are serialized due "
        r"to (?P<why>.*?)( in (the )?function .*)?",
        f"{_SERIAL}{{why}}.",
        "Keep calls and branches out of the loop with the products.",
    ),
    Wording(
        "ptxas",
        r"(\(C\d+\) )?Potential Performance Loss: 'setmaxnreg' ignored[ ;] ?(?P<why>.*?)\.?",
        f"{_KEEPS_REGISTERS}{{why}}.",
        "Leave maxnreg and debugging options out, and functions that are not inlined.",
    ),
    Wording(
        "ptxas",
        r"Registers are spilled to local memory in function '.*', (?P<stores>\d+) bytes spill "
        r"stores, (?P<loads>\d+) bytes spill loads",
        "More values are alive at once than there are registers: stores of {stores} bytes, loads "
        "of {loads} (spills).",
        "Take smaller tiles, more warps (num_warps) or fewer stages (num_stages).",
    ),
    Wording(
        "ptxas",
        r"Value of threads per SM for entry .* is out of range\. \.minnctapersm will be ignored",
        "The wish for several programs on a multiprocessor is ignored: their threads together are "
        "more than it has.",
    ),
)
"""The first whose phrase fits counts."""
