"""A fact about operations is a trait of their classes: other files keep no lists of classes."""

import ast
from collections.abc import Iterator
from pathlib import Path

from kernellab.ir.syntax import context
from tests.support.source_files import module_name, python_files, tree_of

MOST = 2
"""So many operations may be named together; a longer list states a fact about a kind of them."""

STATED_HERE_ALONE = {
    "checker.detectors.asynchrony._OF_CLUSTERS": "what orders CTAs of a cluster, no one else asks",
    "checker.detectors.hints._DIVISIONS": "shifts too, which no one else counts as such",
    "checker.detectors.outputs._OTHER_EFFECTS": "other purposes of a launch without stores",
    "checker.exact_functions._CONVERSIONS": "what keeps a value that no type bounds",
    "checker.exact_functions._OF_INDICES": "what addresses are computed by",
    "checker.exact_functions._ROUND_INSIDE": "whose NumPy functions round, no one else asks",
    "checker.nan_sources.DIVISIONS": "their names in messages",
    "checker.nan_sources.LOGARITHMS": "their names in messages",
    "checker.nan_sources.ROOTS": "their names in messages",
    "checker.detectors.integers._BITWISE": "what takes a number for its bits, no one else asks",
    "checker.nan_sources.EXPONENTIALS": "their names in messages",
    "checker.nan_sources._GIVES_AN_OPERAND": "no other code needs this set",
    "checker.nan_sources.NARROWING": "no other code needs this set",
    "checker.reference_run.DECIDE": "where a value that is not exact matters at once",
    "compiler.analyses.barriers._WHOLE_PROGRAM": "names in texts too, over the versions of Triton",
    "compiler.analyses.barriers._WAITS": "Triton's own membar analysis looks at these names",
    "compiler.analyses.layouts._FREE": "which layouts come for nothing, no one else asks",
    "compiler.analyses.layouts._REARRANGING": "which layouts end there, no one else asks",
    "compiler.analyses.work._FLOAT_OPERATIONS": "what counts as one operation, no one else asks",
    "equality.lowering._MOVE": "memory and control flow, whose lowerings take any elements",
    "equality.sides._CHOICES": "what one element alone may decide, no one else asks",
    "equality.functions._CONDITIONS": "what a condition of several elements is made of",
    "equality.functions._NUMBERS_OF_BOOLS": "what makes a number of a condition, no one else asks",
    "equality.functions._SPREADING": "what gives elements of another tile to one of more axes",
    "equality.functions.EXTREMES": "what chooses an operand by its order, no one else asks",
    "launch.results._TIMES": "how often each rounds, in the bound of a whole result",
    "profiling.accesses.requests.OfBlocks": "a type, for operands by name",
    "profiling.accesses.shared_memory._MAY_SHARE": "what Triton lowers through shared memory",
    "profiling.diagnosis.cost_model.DIVISIONS": "of integers, by what they cost",
    "profiling.diagnosis.cost_model._WEIGHTS": "what each costs",
    "profiling.diagnosis.traffic._SAME": "whose number is their operand's, beside the arithmetic",
    "profiling.diagnosis.traffic._STEP_RULES": "how addresses go on, a rule each",
    "profiling.estimates.instructions._FLOATS": "what FADD, FMUL and FFMA are made of",
    "profiling.profiles.line_marks._ENTERED": "where marks go, no one else asks",
    "profiling.profiles.line_marks._NO_CODE": "what becomes no instruction, no one else asks",
}
"""Lists of operations outside `ir/` that are no trait, and why."""

DIALECTS = {one.name: one for one in context().loaded_dialects if one.name != "builtin"}
CLASSES = {
    f"{op.__module__.rpartition('.')[2]}.{op.__name__}"
    for one in DIALECTS.values()
    for op in one.operations
}
NAMES = {op.name for one in DIALECTS.values() for op in one.operations}
COLLECTIONS = (ast.Tuple, ast.List, ast.Set, ast.BinOp)


def operations_in(collection: ast.AST) -> set[str]:
    """The operations that a tuple, a set, a union of types names, by class or by name."""
    found = set()
    for node in ast.walk(collection):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found & (CLASSES | NAMES)


def lists_of_operations(file: Path) -> Iterator[str]:
    """The module's lists of more than `MOST` operations: "checker.slices.ACCESSES"."""
    module = module_name(file).removeprefix("kernellab.")
    for statement in tree_of(file).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        walked = ast.walk(statement) if targets else ()  # bodies of functions take seconds
        if any(len(operations_in(one)) > MOST for one in walked if isinstance(one, COLLECTIONS)):
            yield f"{module}.{ast.unparse(targets[0])}"


def test_no_list_outside_ir_states_a_fact_about_operations() -> None:
    """Say it on the classes, in `kernellab/ir/`: `traits_def(...)`; and ask `ir.operations.has`."""
    found = {
        name
        for file in python_files("kernellab")
        if not module_name(file).startswith("kernellab.ir.")
        for name in lists_of_operations(file)
    }
    assert found - set(STATED_HERE_ALONE) == set()
    assert set(STATED_HERE_ALONE) - found == set(), "these are gone"
