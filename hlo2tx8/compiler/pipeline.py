"""The pipeline: which pass follows which, and what the IR may hold after it.

    HLO ──expand, fuse──▶ FUSED ──emit──▶ LOOPS ──inline, flatten──▶ FLAT ──▶ VECTOR ──▶ SCHEDULED ──encode──▶ PROGRAM

Adding a pass is one file and one `Stage` line here. Up to LOOPS a pass sees the whole module; from LOOPS on it sees one
kernel module at a time, so equal fusions are lowered once.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hlo2tx8.dialects.launch import LibraryKernelOp, kernels
from hlo2tx8.dialects.nested import nested_ops
from hlo2tx8.emitters.emit_fusions import EmitFusionsPass
from hlo2tx8.errors import LevelError
from hlo2tx8.fusion.fuse_by_template import FuseByTemplatePass
from hlo2tx8.fusion.group_fusions import GroupFusionsPass
from hlo2tx8.fusion.place_fusions import PlaceFusionsPass
from hlo2tx8.fusion.plan_fusions import PlanFusionsPass
from hlo2tx8.fusion.view_slices import ViewSlicesPass
from hlo2tx8.lower.dma.allocate_spm import AllocateSpmPass
from hlo2tx8.lower.dma.alternate_phases import AlternatePhasesPass
from hlo2tx8.lower.dma.early_transfers import EarlyTransfersPass
from hlo2tx8.lower.dma.gather_rows import GatherRowsPass
from hlo2tx8.lower.dma.hoist_loads import HoistLoadsPass
from hlo2tx8.lower.dma.insert_waits import InsertWaitsPass
from hlo2tx8.lower.dma.keep_bands import KeepBandsPass
from hlo2tx8.lower.dma.keep_loads import KeepLoadsPass
from hlo2tx8.lower.dma.keep_rows import KeepRowsPass
from hlo2tx8.lower.dma.overlap_stages import OverlapStagesPass
from hlo2tx8.lower.dma.overlap_turns import OverlapTurnsPass
from hlo2tx8.lower.dma.pipeline_dma import PipelineDmaPass
from hlo2tx8.lower.dma.prefetch_chunks import PrefetchChunksPass
from hlo2tx8.lower.dma.ring_sums import RingSumsPass
from hlo2tx8.lower.dma.send_early import SendEarlyPass
from hlo2tx8.lower.dma.share_chunks import ShareChunksPass
from hlo2tx8.lower.dma.share_loads import ShareLoadsPass
from hlo2tx8.lower.dma.spread_loads import SpreadLoadsPass
from hlo2tx8.lower.dma.widen_loads import WidenLoadsPass
from hlo2tx8.lower.loops.flatten_tensors import FlattenTensorsPass
from hlo2tx8.lower.loops.inline import InlinePass
from hlo2tx8.lower.loops.lower_xla_to_scf import LowerXlaToScfPass
from hlo2tx8.lower.loops.materialize_calls import MaterializeCallsPass
from hlo2tx8.lower.loops.simplify import SimplifyPass
from hlo2tx8.lower.select.select_instructions import SelectInstructionsPass
from hlo2tx8.lower.vectorize.vectorize import VectorizePass
from hlo2tx8.options import Level, Options
from hlo2tx8.passes.divide_behind_products import DivideBehindProductsPass
from hlo2tx8.passes.drop_unit_dimensions import DropUnitDimensionsPass
from hlo2tx8.passes.expand_arg_extreme import ExpandArgExtremePass
from hlo2tx8.passes.expand_batch_norm import ExpandBatchNormPass
from hlo2tx8.passes.expand_bitcast import ExpandBitcastPass
from hlo2tx8.passes.expand_channel_gradient import ExpandChannelGradientPass
from hlo2tx8.passes.expand_chlo import ExpandChloPass
from hlo2tx8.passes.expand_complex import ExpandComplexPass
from hlo2tx8.passes.expand_convolution import ExpandConvolutionPass
from hlo2tx8.passes.expand_cumulative import ExpandCumulativePass
from hlo2tx8.passes.expand_dense_convolution import ExpandDenseConvolutionPass
from hlo2tx8.passes.expand_dynamic_broadcast import ExpandDynamicBroadcastPass
from hlo2tx8.passes.expand_error_functions import ExpandErrorFunctionsPass
from hlo2tx8.passes.expand_fft import ExpandFftPass
from hlo2tx8.passes.expand_gelu import ExpandGeluPass
from hlo2tx8.passes.expand_indexed import ExpandIndexedPass
from hlo2tx8.passes.expand_integer_products import ExpandIntegerProductsPass
from hlo2tx8.passes.expand_linear_algebra import ExpandLinearAlgebraPass
from hlo2tx8.passes.expand_mixed_factors import ExpandMixedFactorsPass
from hlo2tx8.passes.expand_one_window import ExpandOneWindowPass
from hlo2tx8.passes.expand_padding import ExpandPaddingPass
from hlo2tx8.passes.expand_parts import ExpandPartsPass
from hlo2tx8.passes.expand_place_of_extreme import ExpandPlaceOfExtremePass
from hlo2tx8.passes.expand_plus_one import ExpandPlusOnePass
from hlo2tx8.passes.expand_random import ExpandRandomPass
from hlo2tx8.passes.expand_reduce_window import ExpandReduceWindowPass
from hlo2tx8.passes.expand_select_and_scatter import ExpandSelectAndScatterPass
from hlo2tx8.passes.expand_select_apart import ExpandSelectApartPass
from hlo2tx8.passes.expand_sort import ExpandSortPass
from hlo2tx8.passes.expand_special_functions import ExpandSpecialFunctionsPass
from hlo2tx8.passes.expand_top_k import ExpandTopKPass
from hlo2tx8.passes.expand_transposed_convolution import ExpandTransposedConvolutionPass
from hlo2tx8.passes.expand_vector_products import ExpandVectorProductsPass
from hlo2tx8.passes.fold_windows import FoldWindowsPass
from hlo2tx8.passes.hoist_invariants import HoistInvariantsPass
from hlo2tx8.passes.hoist_sliced_products import HoistSlicedProductsPass
from hlo2tx8.passes.inline_calls import InlineCallsPass
from hlo2tx8.passes.integers_in_floats import IntegersInFloatsPass
from hlo2tx8.passes.interleave_parts import InterleavePartsPass
from hlo2tx8.passes.join_parts_last import JoinPartsLastPass
from hlo2tx8.passes.join_updates import JoinUpdatesPass
from hlo2tx8.passes.keep_groups_apart import KeepGroupsApartPass
from hlo2tx8.passes.move_channels_last import MoveChannelsLastPass
from hlo2tx8.passes.offset_behind_scale import OffsetBehindScalePass
from hlo2tx8.passes.order_filters import OrderFiltersPass
from hlo2tx8.passes.order_scores import OrderScoresPass
from hlo2tx8.passes.raise_precision import RaisePrecisionPass
from hlo2tx8.passes.read_before_arithmetic import ReadBeforeArithmeticPass
from hlo2tx8.passes.ready_updates import ReadyUpdatesPass
from hlo2tx8.passes.recognize_coarse import RecognizeCoarsePass
from hlo2tx8.passes.remake_scores import RemakeScoresPass
from hlo2tx8.passes.saturate_conversions import SaturateConversionsPass
from hlo2tx8.passes.scale_before_products import ScaleBeforeProductsPass
from hlo2tx8.passes.scale_behind_products import ScaleBehindProductsPass
from hlo2tx8.passes.simplify_combiners import SimplifyCombinersPass
from hlo2tx8.passes.simplify_control import SimplifyControlPass
from hlo2tx8.passes.simplify_hlo import SimplifyHloPass
from hlo2tx8.passes.split_gates import SplitGatesPass
from hlo2tx8.passes.split_packed_products import SplitPackedProductsPass
from hlo2tx8.passes.split_projections import SplitProjectionsPass
from hlo2tx8.passes.split_reductions import SplitReductionsPass
from hlo2tx8.passes.split_statistics import SplitStatisticsPass
from hlo2tx8.passes.sum_behind_loops import SumBehindLoopsPass
from hlo2tx8.passes.turn_factors import TurnFactorsPass
from hlo2tx8.passes.widen_narrow_types import WidenNarrowTypesPass


@dataclass(frozen=True)
class Stage:
    """A pass and the level it works towards; the IR is at that level after its last such pass.

    Without an optional one every program is compiled as well, but may be slower. One that `reassociates` rounds in another order.
    """

    step: ModulePass
    after: Level
    is_optional: bool = False
    reassociates: bool = False

    @property
    def per_kernel(self) -> bool:
        """True if the pass runs on each kernel module by itself, False if it runs on the whole module."""
        return self.after >= Level.LOOPS and not isinstance(self.step, EmitFusionsPass)


PIPELINE: tuple[Stage, ...] = (
    Stage(RaisePrecisionPass(), after=Level.HLO),
    Stage(InlineCallsPass(), after=Level.HLO),
    Stage(MoveChannelsLastPass(), after=Level.HLO, is_optional=True),
    Stage(RecognizeCoarsePass(), after=Level.HLO),
    Stage(ExpandGeluPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(ExpandErrorFunctionsPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandSpecialFunctionsPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandTopKPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandChloPass(), after=Level.HLO),
    Stage(ExpandLinearAlgebraPass(), after=Level.HLO),
    Stage(ExpandRandomPass(), after=Level.HLO),
    Stage(ExpandIntegerProductsPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandVectorProductsPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandMixedFactorsPass(), after=Level.HLO),
    Stage(ExpandOneWindowPass(), after=Level.HLO, is_optional=True),
    Stage(SimplifyCombinersPass(), after=Level.HLO),
    Stage(ExpandPartsPass(), after=Level.HLO),
    Stage(ExpandDynamicBroadcastPass(), after=Level.HLO),
    Stage(ExpandPlaceOfExtremePass(), after=Level.HLO, is_optional=True),
    Stage(ExpandArgExtremePass(), after=Level.HLO),
    Stage(ExpandBitcastPass(), after=Level.HLO),
    Stage(ExpandIndexedPass(), after=Level.HLO),
    Stage(ReadyUpdatesPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandPaddingPass(), after=Level.HLO),
    Stage(ExpandCumulativePass(), after=Level.HLO, is_optional=True),
    Stage(ExpandReduceWindowPass(), after=Level.HLO),
    Stage(ExpandChannelGradientPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandDenseConvolutionPass(), after=Level.HLO, is_optional=True),
    Stage(FoldWindowsPass(), after=Level.HLO, is_optional=True),
    Stage(OrderFiltersPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandTransposedConvolutionPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandConvolutionPass(), after=Level.HLO),
    Stage(ExpandSelectApartPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandSelectAndScatterPass(), after=Level.HLO),
    Stage(ExpandSortPass(), after=Level.HLO),
    Stage(ExpandBatchNormPass(), after=Level.HLO),
    Stage(ExpandFftPass(), after=Level.HLO),
    Stage(WidenNarrowTypesPass(), after=Level.HLO),
    Stage(SimplifyControlPass(), after=Level.HLO),
    Stage(HoistInvariantsPass(), after=Level.HLO, is_optional=True),
    Stage(HoistSlicedProductsPass(), after=Level.HLO, is_optional=True),
    Stage(SumBehindLoopsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(SplitProjectionsPass(), after=Level.HLO, is_optional=True),
    Stage(SplitGatesPass(), after=Level.HLO, is_optional=True),
    Stage(ExpandComplexPass(), after=Level.HLO),
    Stage(ExpandPlusOnePass(), after=Level.HLO, is_optional=True),
    Stage(DropUnitDimensionsPass(), after=Level.HLO, is_optional=True),
    Stage(SimplifyHloPass(), after=Level.HLO, is_optional=True),
    Stage(SplitPackedProductsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(IntegersInFloatsPass(), after=Level.HLO, is_optional=True),
    Stage(SaturateConversionsPass(), after=Level.HLO, is_optional=True),
    Stage(KeepGroupsApartPass(), after=Level.HLO, is_optional=True),
    Stage(OrderScoresPass(), after=Level.HLO, is_optional=True),
    Stage(ReadBeforeArithmeticPass(), after=Level.HLO, is_optional=True),
    Stage(JoinUpdatesPass(), after=Level.HLO, is_optional=True),
    Stage(JoinPartsLastPass(), after=Level.HLO, is_optional=True),
    Stage(InterleavePartsPass(), after=Level.HLO, is_optional=True),
    Stage(OffsetBehindScalePass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(ScaleBeforeProductsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(ScaleBehindProductsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(TurnFactorsPass(), after=Level.HLO, is_optional=True),
    Stage(RemakeScoresPass(), after=Level.HLO, is_optional=True),
    Stage(DivideBehindProductsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(SplitStatisticsPass(), after=Level.HLO, is_optional=True, reassociates=True),
    Stage(SplitReductionsPass(), after=Level.HLO, is_optional=True),
    Stage(ViewSlicesPass(), after=Level.FUSED, is_optional=True),
    Stage(PlanFusionsPass(), after=Level.FUSED),
    Stage(GroupFusionsPass(), after=Level.FUSED),
    Stage(PlaceFusionsPass(), after=Level.FUSED),
    Stage(EmitFusionsPass(), after=Level.LOOPS),
    Stage(InlinePass(), after=Level.LOOPS),
    Stage(MaterializeCallsPass(), after=Level.LOOPS),
    Stage(SimplifyPass(), after=Level.LOOPS),
    Stage(LowerXlaToScfPass(), after=Level.FLAT),
    Stage(FlattenTensorsPass(), after=Level.FLAT),
    Stage(VectorizePass(), after=Level.VECTOR),
    Stage(SelectInstructionsPass(), after=Level.SCHEDULED),
    Stage(KeepBandsPass(), after=Level.SCHEDULED),
    Stage(KeepLoadsPass(), after=Level.SCHEDULED),
    Stage(GatherRowsPass(), after=Level.SCHEDULED),
    Stage(AlternatePhasesPass(), after=Level.SCHEDULED),
    Stage(RingSumsPass(), after=Level.SCHEDULED),
    Stage(ShareLoadsPass(), after=Level.SCHEDULED),
    Stage(WidenLoadsPass(), after=Level.SCHEDULED),
    Stage(HoistLoadsPass(), after=Level.SCHEDULED),
    Stage(SpreadLoadsPass(), after=Level.SCHEDULED),
    Stage(OverlapStagesPass(), after=Level.SCHEDULED),
    Stage(PrefetchChunksPass(), after=Level.SCHEDULED),
    Stage(ShareChunksPass(), after=Level.SCHEDULED),
    Stage(PipelineDmaPass(), after=Level.SCHEDULED),
    Stage(KeepRowsPass(), after=Level.SCHEDULED),
    Stage(OverlapTurnsPass(), after=Level.SCHEDULED),
    Stage(SendEarlyPass(), after=Level.SCHEDULED),
    Stage(EarlyTransfersPass(), after=Level.SCHEDULED),
    Stage(InsertWaitsPass(), after=Level.SCHEDULED),
    Stage(AllocateSpmPass(), after=Level.PROGRAM),
)


def stages_of(options: Options) -> tuple[Stage, ...]:
    """The stages that the options ask for."""
    wanted = [stage for stage in PIPELINE if options.reassociate or not stage.reassociates]
    return tuple(stage for stage in wanted if stage.after <= options.until and (options.hlo_passes or not stage.is_optional))


def last_stages(options: Options) -> dict[Level, Stage]:
    """The stage after which the IR is at a level."""
    return {stage.after: stage for stage in stages_of(options)}


EXTRA_STAGES: tuple[Stage, ...] = (Stage(FuseByTemplatePass("elementwise"), after=Level.HLO, is_optional=True),)
"""Passes that nobody runs but those who name them, with `hlo2tx8 opt`."""

KERNEL_STAGES: tuple[Stage, ...] = tuple(stage for stage in PIPELINE if stage.per_kernel)
"""What lowers a kernel from LOOPS to PROGRAM, one by one."""

_CONTROL = ("builtin", "func", "scf")
_SCALAR = (*_CONTROL, "arith", "math", "tensor", "xla")

ALLOWED: dict[Level, tuple[str, ...]] = {
    Level.HLO: ("builtin", "func", "stablehlo", "chlo", "hlo"),
    Level.FUSED: ("builtin", "func", "stablehlo", "chlo", "hlo"),
    Level.LOOPS: _SCALAR,
    Level.FLAT: _SCALAR,
    Level.VECTOR: (*_SCALAR, "vec"),
    Level.SCHEDULED: (*_CONTROL, "arith", "xla", "vec", "spm", "tx8"),
    Level.PROGRAM: (*_CONTROL, "arith", "xla", "vec", "tx8"),
}
"""Dialects that may occur at each level; in kernels from LOOPS on, where @main holds launches only."""

_LAUNCHES = ("builtin", "func", "launch", "stablehlo")
"""@main from LOOPS on: launches, and constants too large to be written into kernels."""


def verify_level(module: ModuleOp, level: Level, known: Container[ModuleOp] = ()) -> None:
    """Raise LevelError naming every op that must not exist at the level, and every tensor that should be flat.

    The `known` kernels are at PROGRAM already, and checked there only.
    """
    if level < Level.LOOPS:
        _check(nested_ops(module), level, ALLOWED[level])
        return
    nested = kernels(module)
    for op in module.body.block.ops:
        if not isinstance(op, ModuleOp | LibraryKernelOp):
            _check(nested_ops(op), level, _LAUNCHES)
    for kernel in nested.values():
        if level is Level.PROGRAM or kernel not in known:
            _check(nested_ops(kernel), level, ALLOWED[level], flat=level >= Level.FLAT)


def _check(ops: Iterable[Operation], level: Level, dialects: tuple[str, ...], *, flat: bool = False) -> None:
    wrong: dict[str, int] = {}
    ops = list(ops)
    strange = {name for name in {op.name for op in ops} if name.partition(".")[0] not in dialects}
    for op in ops if flat or strange else ():
        if op.name in strange:
            wrong[op.name] = wrong.get(op.name, 0) + 1
        elif flat and any(type(own.type) is TensorType and len(own.type.get_shape()) > 1 for own in op.results):
            name = f"{op.name} with a tensor of rank > 1"
            wrong[name] = wrong.get(name, 0) + 1
    if wrong:
        listed = ", ".join(f"{count} x {name}" for name, count in wrong.items())
        raise LevelError("E1006", f"not allowed at level {level.name.lower()}: {listed}")
