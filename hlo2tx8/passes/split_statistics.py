"""Pass split-statistics: sums of the same rows, a variance's above all, are made of parts that are read once for all of them.

Before:
    %sum = stablehlo.reduce(%x init: 0) applies add across dimensions = [0] : tensor<100352x64xf32> -> tensor<64xf32>
    %squares = reduce add (%x - %mean)^2 over 0                   %mean is made of %sum

After:
    %p = stablehlo.reshape %x : tensor<784x128x64xf32>
    %m = (reduce add %p over 1) / 128                             the mean of each part
    %d = reduce add %p - %m over 1                                what it is off by: it was rounded
    %q = reduce add (%p - %m)^2 over 1
    %sum = reduce add 128 * %m + %d over 0
    %squares = reduce add %q + (%m - %mean) * (128 * (%m - %mean) + 2 * %d) over 0

A step holds a part whole, so the three are one fusion that reads %x once, where the mean of all would have to be known before
[Chan, Golub and LeVeque 1979]. If there are many parts, those of each tile are joined first, in the same way. What the parts leave
over is one more part.

Several reductions of one tensor, its sum and that of its squares say, become those of parts as well. Left alone: rows that a step
holds whole, of which a fusion reads all without this, and a reduction that reads a tensor alone.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from hlo2tx8.builders.rewrite_named import ops_named
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.layout import is_row_major
from hlo2tx8.hlo.accumulation import accumulated_types
from hlo2tx8.partitioner.instruction import tensor_type
from hlo2tx8.partitioner.reduction_order import reduced_dimensions, why_in_order
from hlo2tx8.passes.statistics.alike import groups_alike, split_alike
from hlo2tx8.passes.statistics.parts import RowParts, choose_parts
from hlo2tx8.passes.statistics.variances import Variance
from hlo2tx8.schedule.costs import Costs, size_bytes
from hlo2tx8.schedule.whole_rows import lies_in_short_runs, why_not_whole

LEAST_KERNELS = 0.45
"""An input that DDR gives in less time than as many kernels need besides their work is read again as soon as parts are joined."""


@dataclass(frozen=True)
class SplitStatisticsPass(ModulePass):
    """Splits statistics; see the module docstring. chip: file of its description, "" for the built-in."""

    name = "split-statistics"

    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from hlo2tx8.device.chip import load_chip

        rates = Rates.of(load_chip(self.chip))
        long = {reduce: None for reduce in ops_named(op, ("stablehlo.reduce",)) if _is_long(reduce, Costs(rates))}
        variances = [found for reduce in long if (found := Variance.of(reduce)) is not None and found.total in long]
        for variance in variances:
            parts = _parts_of(variance.squares, rates)
            if parts is not None and variance.total in long:
                del long[variance.total], long[variance.squares]
                variance.split(parts)
        for group in groups_alike(long):
            parts = _parts_of(group[0], rates)
            if parts is not None:
                for reduce in group:
                    split_alike(reduce, parts)


def _is_long(op: Operation, costs: Costs) -> bool:
    """Does a reduction, of rows that no step holds, join elements in any order, and enough of them, laid out row-major?"""
    if len(op.results) > 1 or why_in_order(op) or not all(is_row_major(tensor_type(v)) for v in (*op.operands, *op.results)):
        return False
    if size_bytes(op.operands[0]) < LEAST_KERNELS * costs.rates.kernel * costs.rates.ddr:
        return False
    dims = reduced_dimensions(op)
    return why_not_whole(op, dims, costs) != "" or lies_in_short_runs(op, dims, costs)


def _parts_of(op: Operation, rates: Rates) -> RowParts | None:
    """The parts that a reduction is made of; None if it stays as it is."""
    (element,) = accumulated_types(op)
    type_: TensorType[Attribute] = TensorType(element, tensor_type(op.operands[0]).get_shape())
    return choose_parts(type_, sorted(reduced_dimensions(op)), rates)
