"""`OpLib`: what the vendor's flow asks of an op: its code, cycles and scratch, how it wants its data, and how it can be shared out.

    library = OpLib.of(text)                       a module of one op
    library.get_op_clock_cycle()                   genOpCode, getOpClockCycle, getImmSpSize, queryOpAttr
    library.tile_sharding_split((1, 16), (4, 1))   inferShapes, inferLayout, tileShardingSplit, temporalSliceShape, backWindow

Answers follow from the op's OpSpec and indexing maps, from the dialect tx8be, and from the program that the compiler makes of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.compiler.single_op import single_op
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.ct_pool import CtPoolForm
from hlo2tx8.device.isa.ct_reduce import CtReduce
from hlo2tx8.device.isa.encoding import Record, decode_records
from hlo2tx8.device.isa.forms import CtVuV, CtVuVLoop
from hlo2tx8.device.isa.kc_control import KC_CONTROL, KC_SCALARS
from hlo2tx8.device.isa.lsu import Rdma, Wdma
from hlo2tx8.device.program import SlotKind
from hlo2tx8.dialects.hlo import FusionOp, GroupOp
from hlo2tx8.dialects.tx8be_shapes import dense_layout, inferred_layout
from hlo2tx8.errors import InputError
from hlo2tx8.hlo import Kind, OpSpec, TensorLike, spec_of, tensor_like
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.module import find_main
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.vendor.figures import Figures, Kernel, covered_bytes
from hlo2tx8.vendor.op_shares import OpShares, ShardingSplit, WindowParam
from hlo2tx8.vendor.to_tx8be import to_tx8be

ALIGN, COMPACT, BOTH = "NPU_ALIGN", "NPU_COMPACT", "NPU_BOTH"
IN_BLOCKS = (CtReduce, CtPoolForm, CtVuV, CtVuVLoop)
"""Instructions of CT that want their data in blocks of channels; those of NE do too."""
COMPUTING = (Engine.NE, Engine.CT, Engine.KC, Engine.TDMA)
"""The first of these with an instruction in the program is the op's engine; it is LOAD if none has."""
ALL = (1 << 64) - 1


@dataclass(frozen=True)
class OpAttr:
    """What queryOpAttr answers.

    `alignMode`: does the op want blocks of channels (NPU_ALIGN), dense data (NPU_COMPACT), or take either. `needPresetToNPU`: has
    its program instructions with a shape NHWC. `memInplace`: may the result be where the first operand is. `needLoad`,
    `needStore`: a bit for each operand and result, 1 where it is loaded or stored as a whole. `parallel`: do the engines order all
    accesses themselves; those of the kernel core they do not. `alignCx`: is the last dimension split at blocks of channels only.
    """

    alignMode: str
    defaultLayout: str
    needPresetToNPU: bool
    engine: str
    memInplace: bool
    needLoad: int
    needStore: int
    parallel: bool
    alignCx: bool

    def loads(self, operand: int) -> bool:
        """Is that operand loaded?"""
        return bool(self.needLoad >> operand & 1)

    def stores(self, result: int) -> bool:
        """Is that result stored?"""
        return bool(self.needStore >> result & 1)


@dataclass(frozen=True)
class OpLib:
    """One op, in a module of its own."""

    module: ModuleOp
    op: Operation

    @staticmethod
    def each(source: object, format: str = "") -> "tuple[OpLib, ...]":
        """Those of all ops of a module's @main that have operands, also of ops in fusions; errors as of the loader."""
        module = load_source(source, format=format)
        alone = [single_op(module, op) for op in _ops_in(find_main(module).body.block) if op.operands and op.results]
        return tuple(OpLib(one, _last(one)) for one in alone)

    @staticmethod
    def of(source: object, format: str = "") -> "OpLib":
        """That of the last op of a module."""
        if not (found := OpLib.each(source, format)):
            raise InputError("E1004", "the module has no op with operands")
        return found[-1]

    @property
    def spec(self) -> OpSpec:
        """The op's spec."""
        return spec_of(self.op)

    @cached_property
    def operands(self) -> tuple[TensorLike, ...]:
        """What it takes."""
        return tuple(tensor_like(value.type) for value in self.op.operands)

    @cached_property
    def results(self) -> tuple[TensorLike, ...]:
        """What it gives."""
        return tuple(tensor_like(value.type) for value in self.op.results)

    @cached_property
    def executable(self) -> Executable:
        """The op compiled alone."""
        return compile_module(self.module.clone, Options())

    @cached_property
    def kernels(self) -> Sequence[Kernel]:
        """The launches of its program."""
        return Figures(self.executable.program).launches()

    @cached_property
    def _records(self) -> list[Record]:
        return decode_records(self.executable.program.code, self.executable.program.origins)

    @cached_property
    def shares(self) -> OpShares:
        """How its work can be shared out."""
        return OpShares(self.spec, attributes_of(self.op), self.operands, self.results, self._reduction)

    @property
    def _reduction(self) -> str:
        inner = [op.name for region in self.op.regions for op in region.block.ops]
        return inner[0] if len(inner) == 2 else ""

    def gen_op_code(self) -> str:
        """genOpCode: the op's tile program."""
        return self.executable.as_text(Level.PROGRAM)

    def get_op_clock_cycle(self) -> int:
        """getOpClockCycle: modelled cycles from launch to the end; a loop whose turns depend on data counts one turn."""
        return round(self.executable.time.report.cycles)

    def get_imm_sp_size(self) -> int:
        """getImmSpSize: bytes of a tile's SPM beside what inputs are loaded to and outputs stored from."""
        return max((covered_bytes([b for b in k.buffers if b not in _ports(k)]) for k in self.kernels), default=0)

    def query_op_attr(self) -> OpAttr:
        """queryOpAttr: see `OpAttr`."""
        kinds = [record.kind for record in self._records if record.kind not in (*KC_CONTROL, *KC_SCALARS)]
        first = self.operands[0] if self.operands else self.results[0]
        is_aligned = any(kind.ENGINE is Engine.NE or issubclass(kind, IN_BLOCKS) for kind in kinds)
        is_even = self.spec.kind is Kind.ELEMENTWISE
        return OpAttr(
            alignMode=ALIGN if is_aligned else BOTH if is_even else COMPACT,
            defaultLayout=dense_layout(first.shape),
            needPresetToNPU=any({"h", "w", "c"} <= {f.name for f in kind.FIELDS} for kind in kinds),
            engine=next((e.name for e in COMPUTING if any(kind.ENGINE is e for kind in kinds)), "LOAD"),
            memInplace=is_even and _bytes(first) == _bytes(self.results[0]) and first.shape == self.results[0].shape,
            needLoad=self._moved(Rdma, SlotKind.INPUT, len(self.operands)) & self._unless_chosen(),
            needStore=self._moved(Wdma, SlotKind.OUTPUT, len(self.results)),
            parallel=not any(kind.ENGINE is Engine.KC for kind in kinds),
            alignCx=is_aligned,
        )

    def infer_shapes(self, *shapes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """inferShapes: shapes of the results, also for other shapes of the operands; InputError where none follows."""
        return self.shares.result_shapes(shapes or tuple(t.shape for t in self.operands))

    def infer_layout(self, *layouts: str) -> str:
        """inferLayout: layout_str of the first result from those of the operands, "Unknown" where none follows."""
        block = to_tx8be(self.module.clone()).block
        found: dict[SSAValue, str] = dict(zip(block.args, layouts, strict=False))
        answer = "Unknown"
        for op in block.ops:
            if op.results:
                answer = inferred_layout(op, [found.get(value, "Unknown") for value in op.operands])
                found |= dict.fromkeys(op.results, answer)
        return answer

    def tile_sharding_split(self, sharding: Sequence[int], split: Sequence[int]) -> tuple[ShardingSplit, ...]:
        """tileShardingSplit: parts of each operand, over tiles and in time, from those of the first result."""
        return self.shares.of_operands(ShardingSplit(tuple(sharding), tuple(split)))

    def divisible(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of the first result that can be shared out over tiles, and in time."""
        rank = len(self.results[0].shape)
        halves = [tuple(2 if d == dim else 1 for d in range(rank)) for dim in range(rank)]
        whole = (1,) * rank
        shards = tuple(dim for dim, half in enumerate(halves) if self.tile_sharding_split(half, whole)[0].sharding or not rank)
        return shards, tuple(dim for dim, half in enumerate(halves) if self.tile_sharding_split(whole, half)[0].split)

    def temporal_slice_shape(self, sharding: Sequence[int], split: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """temporalSliceShape: the shape of each operand that a tile needs at once for its part of the first result."""
        return self.shares.slices(ShardingSplit(tuple(sharding), tuple(split)))

    def back_window(self, start: Sequence[int], size: Sequence[int]) -> tuple[WindowParam, ...]:
        """backWindow: what of each operand a box of the first result is computed from, halo included."""
        return self.shares.windows(tuple(start), tuple(size))

    def _moved(self, kind: type[Instruction], slot_kind: SlotKind, count: int) -> int:
        """Ones, but for slots of that kind which the program does not reach with such an instruction."""
        program = self.executable.program
        slots = {record.fields["slot"] for record in self._records if record.kind is kind}
        reached = {slot.index for number, slot in enumerate(program.slots) if slot.kind is slot_kind and number in slots}
        return ALL & ~sum(1 << k for k in range(count) if k not in reached)

    def _unless_chosen(self) -> int:
        """Ones, but for operands of which a part is read that other operands choose."""
        return ALL & ~sum(1 << k for k in self.shares.chosen())


def _ops_in(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        if isinstance(op, FusionOp | GroupOp):
            yield from _ops_in(op.body.block)
        else:
            yield op


def _last(module: ModuleOp) -> Operation:
    *_, op, _ = find_main(module).body.block.ops
    return op


def _ports(kernel: Kernel) -> set[object]:
    kinds = SlotKind.INPUT, SlotKind.OUTPUT
    return {buffer for (kind, _), buffers in kernel.moved.items() if kind in kinds for buffer in buffers}


def _bytes(tensor: TensorLike) -> int:
    return prod(tensor.shape) * tensor.dtype.itemsize
