"""Programs written by hand: instructions one after the other, loops as `with` blocks, registers by themselves.

    tx8 = Assembler()
    x, y = tx8.input("float32", (16, 4096)), tx8.output("float32", (16, 4096))
    row = tx8.affine(0, (tx8.tile, 4096 * 4))
    tx8(Rdma, Format.FP32, dst=0x10000, slot=x, offset=row, count=4096)
    tx8(CtVVAdd, Format.FP32, dst=0x10000, a=0x10000, b=0x10000, n=4096)
    tx8(Wdma, Format.FP32, slot=y, offset=row, src=0x10000, count=4096)
    program = tx8.program()

Engines of a tile order accesses to the same SPM bytes themselves; `wait` and `barrier` order everything else.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import Engine, Instruction
from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Operand, Record, Register, encode_records
from hlo2tx8.device.isa.kc_control import KcAffine, KcBarrier, KcEnd, KcFloorDiv, KcHalt, KcLoadScalar, KcLoop, KcMod, KcWait
from hlo2tx8.device.isa.lsu import Rdma, TdmaGatherScatter, Wdma
from hlo2tx8.device.isa.tdma import TdmaChannelNorm
from hlo2tx8.device.layouts import Blocked
from hlo2tx8.device.program import Program, Slot, SlotKind, numpy_dtype

Shape = tuple[int, int, int, int]
Fields = Mapping[str, Operand]
TILE_REGISTER = 1
NUM_TERMS = 4  # of one KC_affine
LEVELS = {f"{side}{kind}{i}": int(kind == "n") for side in ("", "r", "w") for kind in "sn" for i in (1, 2, 3)}
"""Levels of a transfer that are not given: one turn."""


@dataclass
class Assembler:
    """Collects records; every register is written by one instruction and free again behind the block it was made in."""

    tile: Register = field(default=Register(TILE_REGISTER), init=False)
    records: list[Record] = field(default_factory=list[Record])
    slots: list[Slot] = field(default_factory=list[Slot])
    constants: list[np.ndarray] = field(default_factory=list[np.ndarray])
    next_register: int = TILE_REGISTER + 1

    def __call__(
        self,
        kind: type[Instruction],
        fmt: Format = Format.INT8,
        fmt2: Format = Format.INT8,
        rounding: Rounding = Rounding.NEAREST_EVEN,
        *,
        origin: str = "",
        **fields: Operand,
    ) -> None:
        """Appends an instruction; levels of a transfer that are left out make one turn."""
        self._add(Record(kind, fields, fmt, fmt2, rounding, origin))

    def _add(self, record: Record) -> None:
        names = {f.name for f in record.kind.FIELDS}
        defaults = {name: value for name, value in LEVELS.items() if name in names}
        if unknown := record.fields.keys() - names:
            raise ValueError(f"{record.kind.MNEMONIC} has no operands {', '.join(sorted(unknown))}")
        self.records.append(replace(record, fields=defaults | dict(record.fields)))

    def affine(self, constant: int, *terms: tuple[Register, int]) -> Register:
        """constant + the sum of register * factor, in a register."""
        rd = self.register()
        fields: dict[str, Operand] = {"rd": rd, "c": constant}
        for i, (register, factor) in enumerate(terms, start=1):
            fields |= {f"r{i}": register, f"k{i}": factor}
        self.records.append(Record(KcAffine, fields))
        return rd

    def copy_of(self, address: int, size_bytes: int, turn: Register, copies: int = 2) -> Register:
        """The address of the buffer that turn number `turn` uses, of `copies` that follow each other."""
        return self.affine(address, (self.remainder(turn, copies), size_bytes))

    def quotient(self, a: Register, b: int) -> Register:
        """a // b."""
        rd = self.register()
        self(KcFloorDiv, rd=rd, a=a, b=b)
        return rd

    def remainder(self, a: Register, b: int) -> Register:
        """a % b."""
        rd = self.register()
        self(KcMod, rd=rd, a=a, b=b)
        return rd

    @contextmanager
    def loop(self, end: int | Register, start: int = 0) -> Generator[Register]:
        """What is appended inside runs for start <= i < end; gives i."""
        first = self.next_register
        counter = self.register()
        self(KcLoop, rd=counter, lo=start, hi=end, step=1)
        yield counter
        self(KcEnd)
        self.next_register = first

    def register(self) -> Register:
        """A register nothing uses."""
        if self.next_register == NUM_REGISTERS:
            raise ValueError(f"more than {NUM_REGISTERS} registers in use")
        self.next_register += 1
        return Register(self.next_register - 1)

    def op_loadVar(self, fmt: Format, *, dst: Operand, slot: int, offset: Operand = 0, count: Operand, **levels: Operand) -> None:
        """RDMA: `count` elements of an input, output or scratch tensor from byte `offset` on to SPM, by levels as of `Rdma`."""
        self._load((SlotKind.INPUT, SlotKind.OUTPUT, SlotKind.SCRATCH), fmt, dst, slot, offset, count, levels)

    def op_loadConst(self, fmt: Format, *, dst: Operand, slot: int, offset: Operand = 0, count: Operand, **levels: Operand) -> None:
        """The same of a constant."""
        self._load((SlotKind.CONSTANT,), fmt, dst, slot, offset, count, levels)

    def op_dma_store(self, fmt: Format, *, slot: int, offset: Operand = 0, src: Operand, count: Operand, **levels: Operand) -> None:
        """WDMA: `count` elements from SPM to byte `offset` of a tensor, by levels as of `Wdma`."""
        self._add(Record(Wdma, {"slot": slot, "offset": offset, "src": src, "count": count, **levels}, fmt))

    def op_rdmaGather(
        self, fmt: Format, *, dst: int, slot: int, rows: int | Register, row: int, indices: int, index_fmt: Format = Format.INT32
    ) -> None:
        """Row indices[i] of a tensor, `row` elements, to row i in SPM, for i < rows; indices are in SPM.

        RDMA takes no list: the kernel core reads each index, behind a wait for whoever wrote it, and issues a load.
        """
        for i, place in self._indexed(fmt, rows, row, indices, index_fmt):
            self(Rdma, fmt, dst=self.affine(dst, (i, row * fmt.bytes)), slot=slot, offset=place, count=row)

    def op_wdmaScatter(
        self, fmt: Format, *, slot: int, src: int, rows: int | Register, row: int, indices: int, index_fmt: Format = Format.INT32
    ) -> None:
        """Row i in SPM to row indices[i] of a tensor; of rows with equal indices the last one stays."""
        for i, place in self._indexed(fmt, rows, row, indices, index_fmt):
            self(Wdma, fmt, slot=slot, offset=place, src=self.affine(src, (i, row * fmt.bytes)), count=row)

    def op_gatherScatter(self, *, dst: Operand, src: Operand, run_bytes: Operand, **levels: Operand) -> None:
        """TDMA: runs of bytes inside SPM, by levels as of `TdmaGatherScatter`."""
        self._add(Record(TdmaGatherScatter, {"dst": dst, "src": src, "run_bytes": run_bytes, **levels}))

    def op_reshape(self, fmt: Format, *, dst: int, src: int, scratch: int, shape: Shape, result: Shape) -> None:
        """A tensor [n, h, w, c] in channel blocks (Cx, NCx) as one of another shape, in channel blocks again.

        TDMA has no reshape: blocks are spread to dense data at `scratch`, which channelnorm makes blocks of the new shape.
        """
        if prod(shape) != prod(result):
            raise ValueError(f"{list(shape)} and {list(result)} have different numbers of elements")
        n, h, w, c = shape
        blocked, row, points = Blocked(fmt, n, h * w, c), c * fmt.bytes, h * w
        for block in blocked.blocks():
            read = {"rs1": block.width * fmt.bytes, "rn1": points, "rs2": blocked.batch_stride_bytes, "rn2": n}
            write = {"ws1": row, "wn1": points, "ws2": points * row, "wn2": n}
            runs = {"run_bytes": block.channels * fmt.bytes, **read, **write}
            self.op_gatherScatter(dst=scratch + block.first * fmt.bytes, src=src + block.offset * fmt.bytes, **runs)
        batch, h, w, c = result
        self(TdmaChannelNorm, fmt, dst=dst, src=scratch, batch=batch, h=h, w=w, c=c)

    def _load(
        self, kinds: Sequence[SlotKind], fmt: Format, dst: Operand, slot: int, offset: Operand, count: Operand, levels: Fields
    ) -> None:
        if self.slots[slot].kind not in kinds:
            raise ValueError(f"slot {slot} is {self.slots[slot].kind.value}, not {' or '.join(kind.value for kind in kinds)}")
        self._add(Record(Rdma, {"dst": dst, "slot": slot, "offset": offset, "count": count, **levels}, fmt))

    def _indexed(
        self, fmt: Format, rows: int | Register, row: int, indices: int, index_fmt: Format
    ) -> Generator[tuple[Register, Register]]:
        """A loop over rows: its counter, and the byte at which the row begins that the counter's index names."""
        self.wait()
        with self.loop(rows) as i:
            index = self.register()
            self(KcLoadScalar, index_fmt, rd=index, address=self.affine(indices, (i, index_fmt.bytes)))
            yield i, self.affine(0, (index, row * fmt.bytes))

    def wait(self, *engines: Engine) -> None:
        """Adds a wait until these engines, or all, have finished what was issued."""
        self(KcWait, engines=sum(1 << e for e in engines or tuple(Engine)))

    def barrier(self) -> None:
        """Adds waits and a barrier: all engines of all tiles have finished behind it."""
        self.wait()
        self(KcBarrier)

    def input(self, dtype: str, shape: tuple[int, ...]) -> int:
        """Adds an input and returns its slot."""
        return self._slot(SlotKind.INPUT, dtype, shape)

    def output(self, dtype: str, shape: tuple[int, ...]) -> int:
        """Adds an output and returns its slot."""
        return self._slot(SlotKind.OUTPUT, dtype, shape)

    def scratch(self, dtype: str, shape: tuple[int, ...]) -> int:
        """Adds a tensor that only the program sees and returns its slot."""
        return self._slot(SlotKind.SCRATCH, dtype, shape)

    def constant(self, array: np.ndarray) -> int:
        """Adds a constant and returns its slot."""
        self.constants.append(array)
        return self._slot(SlotKind.CONSTANT, array.dtype.name, array.shape)

    def _slot(self, kind: SlotKind, dtype: str, shape: tuple[int, ...]) -> int:
        index = sum(slot.kind is kind for slot in self.slots)
        size = prod(shape) * numpy_dtype(dtype).itemsize
        self.slots.append(Slot(kind, index, dtype, shape, size, f"{kind.value}{index}"))
        return len(self.slots) - 1

    def program(self, spm_bytes: int) -> Program:
        """All of it, a wait for all engines and the end; `spm_bytes` is how far it uses the scratchpad."""
        records = [*self.records, Record(KcWait, {"engines": sum(1 << e for e in Engine)}), Record(KcHalt)]
        code, origins = encode_records(records)
        return Program(code, tuple(self.slots), tuple(self.constants), origins, spm_bytes)
