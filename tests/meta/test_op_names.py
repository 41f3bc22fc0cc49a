"""A fact about an HLO op is a field of its OpSpec: quoted op names stand where the op itself is meant, and nowhere else."""

import ast
from collections.abc import Iterator
from pathlib import Path

from hlo2tx8.hlo.lookup import all_specs

ROOT = Path(__file__).parents[2] / "hlo2tx8"
NAMES = frozenset(spec.name for spec in all_specs())

ROOMS = {
    "hlo/ops": "the specs",
    "dialects": "the ops",
    "passes": "rewrites of these ops",
    "builders": "ops that are put in",
    "frontend": "spellings of sources",
    "dev": "random graphs draw ops and know how each spreads an error",
    "pjrt": "what jax writes",
}
FILES = {
    "compiler/refusals.py": "the end of a region",
    "compiler/single_op.py": "writes a module of one op",
    "emitters/accumulate.py": "emits a conversion",
    "emitters/contraction_loop.py": "emits a sum",
    "emitters/elemental.py": "emits a conversion; iota is the number of an element",
    "emitters/counters.py": "how a loop counts, when its ops are fused",
    "emitters/emit_fusions.py": "control flow becomes launches",
    "emitters/hero.py": "a hero has its op's name",
    "emitters/reduction.py": "a hero has its op's name",
    "emitters/row_group.py": "a refusal names the op it is about",
    "emitters/runtime_index.py": "emits a clamped index",
    "emitters/update.py": "emits a select",
    "fusion/build_fusions.py": "the end of a region",
    "fusion/candidate.py": "the end of a region",
    "fusion/fused_module.py": "fusions of the source",
    "fusion/plan_fusions.py": "fusions of the source",
    "fusion/templates.py": "a template names the ops it is about",
    "fusion/views.py": "a move that keeps the order of elements",
    "hlo/accumulation.py": "a combiner that adds, and what it returns",
    "hlo/combiner.py": "logic of combiners that are tried out",
    "hlo/constants.py": "where a number comes from",
    "hlo/draw_moves.py": "draws uses of these ops",
    "hlo/error_bounds/elementwise.py": "how single ops spread an error that others made",
    "hlo/error_bounds/evaluator.py": "control flow is run",
    "hlo/error_bounds/sums.py": "which operand is not added, and what adds in f32",
    "hlo/evaluator.py": "control flow is run",
    "hlo/lookup.py": "a bitcast depends on the layout of its operand",
    "hlo/regions.py": "control flow, and the op that the program does itself",
    "hlo/trip_count.py": "how a loop counts",
    "link/linker.py": "constants get room",
    "lower/select/select_dot.py": "a conversion behind a product",
    "lower/vectorize/box_builder.py": "emits comparisons of indices",
    "lower/vectorize/vectorize_box.py": "emits selects and conversions",
    "netlist/emit/instructions.py": "a row for each op",
    "netlist/emit/picking.py": "slices of what is sorted say how many elements anybody reads",
    "netlist/emit/walk.py": "control flow is written out, a broadcast of a constant stays small, and the end of a block",
    "netlist/emit/windows.py": "what combines elements",
    "partitioner/contraction.py": "dot has no dimension numbers",
    "partitioner/instruction.py": "constants; bitcast_convert may change the number of elements",
    "partitioner/equal_ops.py": "random numbers and constants, whose equality is another matter",
    "partitioner/made_from.py": "what the vector engine does with what it has loaded",
    "partitioner/moves.py": "the moves that have an inverse",
    "partitioner/turns.py": "what is a loop, and which ops only move or convert what comes from outside of it",
    "runtime/levels.py": "constants are values",
    "schedule/accesses.py": "iota is the number of an element; pad reads for a part of its result",
    "schedule/concatenate_parts.py": "a concatenation is written part by part",
    "schedule/costs.py": "reduces read many elements",
    "spmd/chips_module.py": "calls by which HLO writes shardings",
    "spmd/import_shardings.py": "rewrites of jaxlib's own IR",
    "spmd/mlir_rule.py": "rewrites of jaxlib's own IR",
    "spmd/mlir_values.py": "rewrites of jaxlib's own IR",
    "spmd/pad_uneven.py": "rewrites of jaxlib's own IR",
    "spmd/partition_module.py": "rewrites of jaxlib's own IR",
    "spmd/partitioner.py": "control flow of jaxlib's own IR",
    "spmd/reshard.py": "rewrites of jaxlib's own IR",
    "spmd/segments.py": "rewrites of jaxlib's own IR",
    "spmd/sharding_rule.py": "rewrites of jaxlib's own IR",
    "tools/arguments.py": "what an argument is used for says which values are drawn",
    "tools/bisect/part.py": "writes modules",
    "vendor/to_tx8be.py": "which published op of another dialect an op is",
}
"""Files outside of these rooms that quote op names, and what for."""


def quoting() -> Iterator[str]:
    """Files that hold the name of an op as a string."""
    for file in sorted(ROOT.rglob("*.py")):
        strings = (
            n.value for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )
        if any(text in NAMES for text in strings):
            yield file.relative_to(ROOT).as_posix()


def test_quoted_op_names_have_a_reason() -> None:
    outside = [name for name in quoting() if not name.startswith(tuple(f"{room}/" for room in ROOMS))]
    assert outside == sorted(set(FILES) & set(outside)), "make it a field of OpSpec, or say why the op itself is meant"


def test_every_reason_is_needed() -> None:
    assert sorted(set(FILES) - set(quoting())) == []
