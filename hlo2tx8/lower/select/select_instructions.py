"""VECTOR → SCHEDULED: boxes become instructions on virtual SPM buffers, in program order.

Before:                                           After:
    vec.box [8192] {                                 %b0 = spm.alloc {size = 16384}
      %x = vec.load %p0[%o] {strides = [1]}           tx8.RDMA_load dst(%b0) slot(%p0) offset(%o2) count(8192) ... bf16
      %y = arith.mulf %x, %x                          %b1 = spm.alloc {size = 16384}
      vec.store %y, %r0[%o] {strides = [1]}           tx8.CGRATensor_ArithOp_V_VV_mul dst(%b1) a(%b0) b(%b0) n(8192) bf16
    }                                                 tx8.WDMA_store slot(%r0) offset(%o2) src(%b1) count(8192) ... bf16

A step with a tail runs only where it has lanes.
"""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from hlo2tx8.dialects import vec, xla
from hlo2tx8.dialects.functions import defined_functions
from hlo2tx8.dialects.made import for_op, put
from hlo2tx8.dialects.nested import cloned
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.select.equal_loads import share_equal_loads
from hlo2tx8.lower.select.overlapping_loads import join_overlapping_loads
from hlo2tx8.lower.select.padded_rows import padded_boxes
from hlo2tx8.lower.select.padded_step import PaddedStep
from hlo2tx8.lower.select.resident import Resident
from hlo2tx8.lower.select.select_box import BoxSelector
from hlo2tx8.lower.select.select_channels import ChannelSelector
from hlo2tx8.lower.select.select_columns import ColumnSelector, rows_beside_columns
from hlo2tx8.lower.select.step_builder import StepBuilder

KEPT = (xla.ROW_TURNS, xla.ROW_STEPS, xla.BAND_TURNS, xla.IN_ORDER)
"""Attributes of loops that passes behind this one look for."""


@dataclass(frozen=True)
class SelectInstructionsPass(ModulePass):
    """Instruction selection; see the module docstring."""

    name = "select-instructions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            _Selector(function).run()


class _Selector:
    """Selection for one kernel function."""

    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.values: dict[SSAValue, SSAValue] = {}
        self.hoisted: dict[tuple[object, ...], SSAValue] = {}
        self.resident: dict[SSAValue, Resident] = {}
        self.padded = padded_boxes(function)

    def run(self) -> None:
        old = self.function.body.block
        new = Block(arg_types=[a.type for a in old.args])
        for a, b in zip(old.args, new.args, strict=True):
            b.name_hint = a.name_hint
            self.values[a] = b
        self._ops(old, Builder(InsertPoint.at_end(new)), new)
        self.function.detach_region(0)
        self.function.add_region(Region(new))
        share_equal_loads(self.function)
        join_overlapping_loads(self.function)

    def _ops(self, block: Block, builder: Builder, top: Block) -> None:
        for op in block.ops:
            self._op(op, builder, top)

    def _op(self, op: Operation, builder: Builder, top: Block) -> None:
        match op:
            case vec.BoxOp():
                self._box(op, builder, top)
            case scf.ForOp():
                body = Block(arg_types=[xla.index])
                body.args[0].name_hint = op.body.block.args[0].name_hint
                self.values[op.body.block.args[0]] = body.args[0]
                if builder.insertion_point.block is top:
                    # What a prologue holds does not depend on other loops: it starts anew before each nest.
                    self.hoisted.clear()
                lower, upper, step = (self.values[v] for v in (op.lb, op.ub, op.step))
                loop = for_op(lower, upper, step, [], Region(body))
                loop.attributes |= {key: value for key, value in op.attributes.items() if key in KEPT}
                put(builder, loop)
                self._ops(op.body.block, Builder(InsertPoint.at_end(body)), top)
            case xla.ConstantOp():
                pass  # an immediate of the instructions that use it
            case arith.ConstantOp() if op.result.type != xla.index:
                pass
            case xla.AllocateScratchOp() if op.in_spm is not None:
                pass  # the buffers of what a step stores
            case _ if not op.regions:
                new = put(builder, cloned(op, self.values))
                self.values.update(zip(op.results, new.results, strict=True))
            case _:
                raise CompileError("E3201", f"select-instructions meets {op.name}")

    def _box(self, op: vec.BoxOp, builder: Builder, top: Block) -> None:
        prologue = Builder(InsertPoint.before(_outermost(builder, top))) if builder.insertion_point.block is not top else builder
        valid = {lane: self.values[count] for lane, count in op.valid_of.items()}
        kind = PaddedStep if op in self.padded else StepBuilder
        step = kind(builder, prologue, op.lane_shape, {k: n for k, n in valid.items() if op.lane_shape[k] > 1})
        with step.if_positive([self.values[count] for count in op.valid_of.values() if not _is_positive(count)]):
            if xla.CHANNEL_BLOCKS in op.attributes:
                ChannelSelector.of(step, self.values, self.hoisted).select(op.body.block)
            else:
                selector = BoxSelector(step, self.values, self.hoisted, resident=self.resident)
                if rows := rows_beside_columns(op.body.block, step):
                    ColumnSelector.of(selector, rows).select(op.body.block)
                else:
                    selector.select_box(op.body.block)


def _is_positive(count: SSAValue) -> bool:
    """Has every step lanes that count?"""
    extent = count.owner
    return isinstance(extent, vec.ExtentOp) and all(extent.map.data.bounds(result).lo > 0 for result in extent.map.data.results)


def _outermost(builder: Builder, top: Block) -> Operation:
    """The operation of the function's block that holds the insertion point."""
    op = builder.insertion_point.block.parent_op()
    while op is not None and op.parent_block() is not top:
        op = op.parent_op()
    assert op is not None
    return op
