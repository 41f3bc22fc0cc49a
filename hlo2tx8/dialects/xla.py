"""The `xla` dialect: loops over indexing maps, element functions, scalar ops arith and math cannot name.

%r = xla.loop (%tile)[%step, %lane] -> (%i, %j) in #map lanes 1 iter_args(%it = %out) -> (tensor<..>) {
  %v = xla.pure_call @f(%p, %i, %j) : (tensor<..>, index, index) -> bf16
  %n = tensor.insert %v into %it[%i, %j] : tensor<..>
  xla.yield %n : tensor<..>
}
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoMemoryEffect, Pure
from xdsl.utils.hints import isa

from hlo2tx8.dialects.xla_access import IN_ORDER, ExtractAtOp, InsertAtOp
from hlo2tx8.dialects.xla_dot import DotOp
from hlo2tx8.dialects.xla_indexing import ApplyIndexingOp, IndexingMapAttr, InDomainOp, index
from hlo2tx8.dialects.xla_join import JoinAtOp
from hlo2tx8.dialects.xla_loop import LoopOp, YieldOp
from hlo2tx8.dialects.xla_reduce import ReduceLanesOp, ReduceOp, ScanLanesOp
from hlo2tx8.dialects.xla_sort import SortLanesOp
from hlo2tx8.ir import DeclaredOp, i64_array

ROW_TURNS = "xla.row_turns"
"""Of the loop over the chunks of a group by rows that are a tile's."""
ROW_STEPS = "xla.row_steps"
"""Of the loop over the steps of a group by rows: what its turns load is close together in memory and small."""
BAND_TURNS = "xla.band_turns"
"""Of the loop over the bands of a group by bands that are a tile's, if two of them are computed at once."""
MESH = "xla.mesh"
"""Attribute of an entry function whose work split follows the mesh, `array<i64: rows, columns>`: tiles share what they load."""
PHASE_STEPS = "xla.phase_steps"
"""Attribute of an entry function with two phases, `i64`: in how many parts tiles make their rows in each of them."""
RING_SUMS = "xla.ring_sums"
"""Attribute of an entry function with phases: tiles multiply what they have made themselves, and sums go around mesh rows."""
RINGS_AT_ONCE = "xla.rings_at_once"
"""Attribute of an entry function with phases, `array<i64: numbers>`: the same of these, each tile's weights and sums at once."""
GATHERS_ROWS = "xla.gathers_rows"
"""Attribute of an entry function whose first loop makes rows that others multiply: each tile gets those of its mesh row."""
BRINGS_EARLY = "xla.brings_early"
"""Attribute of an entry function with phases: what is added to a product is loaded while other products are computed."""


@irdl_op_definition
class TileIdOp(DeclaredOp):
    """`%tile = xla.tile_id [0, 15]`: the tile this runs on, in the closed range."""

    name = "xla.tile_id"
    range = prop_def(DenseArrayBase.constr(i64))
    tile = result_def(index)
    traits = traits_def(Pure())
    assembly_format = "$range attr-dict"

    def __init__(self, num_tiles: int):
        super().__init__(result_types=[index], properties={"range": i64_array([0, num_tiles - 1])})


@irdl_op_definition
class PureCallOp(DeclaredOp):
    """A call without effects: equal operands give equal results, so it may be merged, moved and dropped."""

    name = "xla.pure_call"
    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    res = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]):
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"callee": SymbolRefAttr(callee)},
        )


@irdl_op_definition
class ElementwiseOp(DeclaredOp):
    """`xla.elementwise "stablehlo.compare"(%a, %b) {..} : (f32, f32) -> i1`: an HLO op on scalars or vectors.

    Used where arith and math have no op of the same meaning; the meaning is the OpSpec of that name, and the
    op's HLO attributes are its attributes here.
    """

    name = "xla.elementwise"
    op = prop_def(StringAttr)
    arguments = var_operand_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$op `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(
        self,
        op: str,
        arguments: Sequence[SSAValue],
        result_type: Attribute,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[arguments],
            result_types=[result_type],
            properties={"op": StringAttr(op)},
            attributes=dict(attributes or {}),
        )


@irdl_op_definition
class ConstantOp(DeclaredOp):
    """A scalar arith.constant cannot hold (unsigned, 8-bit float, complex): `value` is an `hlo.literal`."""

    name = "xla.constant"
    value = prop_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($res)"

    def __init__(self, value: Attribute, result_type: Attribute):
        super().__init__(result_types=[result_type], properties={"value": value})


@irdl_op_definition
class AllocateScratchOp(DeclaredOp):
    """A tensor for what a kernel computes on the way, contents undefined: in device memory, or `in_spm`.

    Of a tensor in SPM a tile has the part that the current step of its loop has written; it reads that part alone.
    """

    name = "xla.allocate_scratch"
    in_spm = opt_prop_def(UnitAttr)
    res = result_def(TensorType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "(`in_spm` $in_spm^)? attr-dict `:` type($res)"

    def __init__(self, result_type: Attribute, *, in_spm: bool = False):
        super().__init__(result_types=[result_type], properties={"in_spm": UnitAttr()} if in_spm else {})


@irdl_op_definition
class SyncTilesOp(DeclaredOp):
    """Barrier of all tiles: after it, every tile sees what any tile wrote into these tensors."""

    name = "xla.sync_tiles"
    arguments = var_operand_def(TensorType)
    res = var_result_def(TensorType)
    traits = traits_def()
    assembly_format = "$arguments attr-dict `:` type($arguments) `->` type($res)"

    def __init__(self, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments], result_types=[[value.type for value in arguments]])


ENTRY: str = "xla.entry"
"""Unit attribute of the function that writes a fusion's results."""
UPDATES: str = "xla.updates"
"""Attribute of that function: result k holds the elements of operand updates[k] when it begins, one for each result."""
STAYS: str = "xla.stays"
"""Attribute of a kernel module, `array<i64: turns, numbers...>`: its plan counts on it that arguments of these numbers stay in the
scratchpads from one launch to the next, in a loop of so many turns that does not change them."""
PART: str = "tiles"
"""Attribute of a kernel module: for how many tiles it is, if they are not all of the chip."""
ROOM: str = "xla.room"
"""Attribute of a kernel module: how many bytes of the scratchpads it may take, if not all."""
LANE: str = "xla.lane"
"""Unit attribute of the scf.for loops over the lanes of one step."""
CHANNEL_BLOCKS: str = "xla.channel_blocks"
"""Unit attribute of a loop [points, channels] of lanes: vectors lie in blocks of channels, [points, 64] each, and a tail."""


def updated_operands(entry: Operation) -> tuple[int, ...]:
    """The operand that each result of an entry function begins as; () if results begin undefined."""
    found = entry.attributes.get(UPDATES)
    if found is None:
        return ()
    assert isa(found, DenseArrayBase[IntegerType])
    return tuple(found.get_values())


Xla = Dialect(
    "xla",
    [
        TileIdOp,
        LoopOp,
        YieldOp,
        ReduceOp,
        DotOp,
        ReduceLanesOp,
        ScanLanesOp,
        SortLanesOp,
        JoinAtOp,
        ApplyIndexingOp,
        InDomainOp,
        PureCallOp,
        ElementwiseOp,
        ConstantOp,
        AllocateScratchOp,
        SyncTilesOp,
        ExtractAtOp,
        InsertAtOp,
    ],
    [IndexingMapAttr],
)

__all__ = [
    "BRINGS_EARLY",
    "CHANNEL_BLOCKS",
    "ENTRY",
    "GATHERS_ROWS",
    "IN_ORDER",
    "LANE",
    "PART",
    "PHASE_STEPS",
    "RINGS_AT_ONCE",
    "RING_SUMS",
    "ROOM",
    "ROW_STEPS",
    "ROW_TURNS",
    "UPDATES",
    "AllocateScratchOp",
    "ApplyIndexingOp",
    "ConstantOp",
    "DotOp",
    "ElementwiseOp",
    "ExtractAtOp",
    "InDomainOp",
    "IndexingMapAttr",
    "InsertAtOp",
    "JoinAtOp",
    "LoopOp",
    "PureCallOp",
    "ReduceLanesOp",
    "ReduceOp",
    "ScanLanesOp",
    "SortLanesOp",
    "SyncTilesOp",
    "TileIdOp",
    "Xla",
    "YieldOp",
]
