"""A kernel on some tiles of the mesh: its records under a branch, with the tile's number among those tiles for that on the chip.

rows 2 to 3, columns 0 to 1 of a mesh of 4 x 4

KC_floordiv r60 = r1 / 4; KC_mod r61 = r1 % 4
KC_less r62 = r60 < 2; KC_less r63 = 1 < r61; KC_affine r62 = r62 + r63
KC_affine r59 = -4 + 2*r60 + r61
KC_less r63 = r62 < 1
KC_if r63
  the records up to where the kernel's tiles meet, with r59 for r1
KC_endif
KC_wait; KC_barrier                                 of all tiles: there is no other one
.. ; KC_if r63
  the others
KC_endif

A kernel for some tiles leaves the last registers to this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.isa import Engine
from hlo2tx8.device.isa.encoding import NUM_REGISTERS, Operand, Record, Register
from hlo2tx8.device.isa.kc_control import (
    KcAffine,
    KcBarrier,
    KcEnd,
    KcEndIf,
    KcFloorDiv,
    KcIf,
    KcLess,
    KcLoop,
    KcMod,
)
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.placement import Rectangle
from hlo2tx8.link.records import TILE
from hlo2tx8.lower.encode.encode import EncodedKernel
from hlo2tx8.lower.encode.registers import PLACING_REGISTERS

LOCAL, ROW, COLUMN, OUTSIDE, TEST = map(Register, range(NUM_REGISTERS - PLACING_REGISTERS, NUM_REGISTERS))


@dataclass
class PlacedStep:
    """Launches on different tiles of a mesh of which none reads what another one makes: they run side by side, and none may write
    where another one reads. `dying` are the values that nobody reads behind them."""

    mesh: Sequence[int]
    tiles: set[int] = field(default_factory=set[int])
    made: set[SSAValue] = field(default_factory=set[SSAValue])
    dying: list[SSAValue] = field(default_factory=list[SSAValue])

    def begun_by(self, op: Operation) -> list[SSAValue]:
        """Takes an op in, if it belongs to the step; else it begins the next one. The values that died in the one before, then."""
        rectangle = Rectangle.of(op)
        tiles = set(rectangle.tiles(self.mesh) if rectangle is not None else ())
        if tiles and not tiles & self.tiles and not self.made & set(op.operands):
            self.tiles |= tiles
            self.made.update(op.results)
            return []
        dead, self.dying, self.tiles, self.made = self.dying, [], tiles, set[SSAValue](op.results)
        return dead


def placed(kernel: EncodedKernel, rectangle: Rectangle, mesh: Sequence[int], own: Sequence[Record]) -> EncodedKernel:
    """The kernel, of which `own` are the records without a barrier at their end, on a rectangle of the mesh.

    CompileError E1006 for a kernel that sends from tile to tile, whose numbers are not those of the chip, or whose tiles meet in a
    loop.
    """
    begin, end = _begin(rectangle, mesh), Record(KcEndIf)
    records = [*begin]
    at: list[int] = []
    depth = 0
    for record in own:
        depth += (record.kind in (KcIf, KcLoop)) - (record.kind in (KcEndIf, KcEnd))
        is_meeting = record.kind is KcBarrier
        if record.kind.ENGINE is Engine.DTE or (is_meeting and depth):
            raise CompileError("E1006", "a kernel on some tiles sends, or meets in a loop", hint="a defect of the compiler")
        at.append(len(records))
        if is_meeting and rectangle.num_tiles > 1:
            records += end, record, *begin
        elif not is_meeting:  # one tile has nobody to meet
            records.append(_renamed(record))
    at.append(len(records))
    return replace(
        kernel,
        records=(*records, end),
        buffers=tuple(b.between(at[b.first_record], at[b.last_record]) for b in kernel.buffers),
        uses=tuple(use._replace(record=at[use.record]) for use in kernel.uses),
        lives=(),
    )


def _begin(rectangle: Rectangle, mesh: Sequence[int]) -> list[Record]:
    """A tile's number among those of the rectangle, and the branch that it takes if it is one of them."""
    first, last = (rectangle.row, rectangle.column), (rectangle.row + rectangle.rows, rectangle.column + rectangle.columns)
    tests: list[Record] = []
    for place, low, high, size in zip((ROW, COLUMN), first, last, mesh, strict=True):
        tests += [Record(KcLess, {"rd": TEST, "a": place, "b": low}), _sum(TEST)] if low > 0 else []
        tests += [Record(KcLess, {"rd": TEST, "a": high - 1, "b": place}), _sum(TEST)] if high < size else []
    columns = rectangle.columns
    own = {"rd": LOCAL, "c": -rectangle.row * columns - rectangle.column, "r1": ROW, "k1": columns, "r2": COLUMN, "k2": 1}
    return [
        Record(KcFloorDiv, {"rd": ROW, "a": TILE, "b": mesh[1]}),
        Record(KcMod, {"rd": COLUMN, "a": TILE, "b": mesh[1]}),
        Record(KcAffine, {"rd": OUTSIDE, "c": 0}),
        *tests,
        Record(KcAffine, own),
        Record(KcLess, {"rd": TEST, "a": OUTSIDE, "b": 1}),
        Record(KcIf, {"value": TEST}),
    ]


def _sum(test: Register) -> Record:
    return Record(KcAffine, {"rd": OUTSIDE, "c": 0, "r1": OUTSIDE, "k1": 1, "r2": test, "k2": 1})


def _renamed(record: Record) -> Record:
    """The record with another register for the tile's number."""
    new: dict[str, Operand] = {name: LOCAL if value == TILE else value for name, value in record.fields.items()}
    return record.with_fields(new)
