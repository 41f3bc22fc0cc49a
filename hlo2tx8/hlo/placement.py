"""On which tiles of the mesh something runs, as a source says it of a call and the compiler of fusions and launches.

func.call @total(%x) {mhlo.frontend_attributes = {tiles = "0,1,1,2"}}          row 0, column 1, one row of two columns
hlo.fusion ... {tiles = array<i64: 0, 1, 1, 2>}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, IntegerType, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp
from xdsl.ir import Operation

from hlo2tx8.dialects.nested import nested_of
from hlo2tx8.dialects.xla import PART, ROOM
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.ir import i64_array, i64_attr

FRONTEND, TILES = "mhlo.frontend_attributes", "tiles"


@dataclass(frozen=True)
class Rectangle:
    """`rows` x `columns` tiles of the mesh, the first of them in this row and column."""

    row: int
    column: int
    rows: int
    columns: int

    @property
    def num_tiles(self) -> int:
        return self.rows * self.columns

    def is_all(self, mesh: Sequence[int]) -> bool:
        """Are these all tiles?"""
        return (self.rows, self.columns) == tuple(mesh)

    def tiles(self, mesh: Sequence[int]) -> tuple[int, ...]:
        """Their numbers on a mesh, row by row; () if some of them are not there."""
        if self.row + self.rows > mesh[0] or self.column + self.columns > mesh[1]:
            return ()
        rows, columns = range(self.row, self.row + self.rows), range(self.column, self.column + self.columns)
        return tuple(row * mesh[1] + column for row in rows for column in columns)

    @property
    def attribute(self) -> DenseArrayBase[IntegerType]:
        """As IR holds it."""
        return i64_array([self.row, self.column, self.rows, self.columns])

    @staticmethod
    def of(op: Operation) -> "Rectangle | None":
        """Where a fusion or a launch runs; None for all tiles."""
        found = tiles_of(op)
        return Rectangle(*found.get_values()) if found is not None else None

    def __str__(self) -> str:
        return f"{self.row},{self.column},{self.rows},{self.columns}"


def tiles_of(op: Operation) -> "DenseArrayBase[IntegerType] | None":
    """The same as IR holds it."""
    return cast("DenseArrayBase[IntegerType] | None", op.properties.get(TILES))


def num_tiles(op: Operation) -> int:
    """How many tiles run a fusion or a launch, 0 for all."""
    rectangle = Rectangle.of(op)
    return rectangle.num_tiles if rectangle is not None else 0


def of_part(kernel: ModuleOp, part: int, room: int = 0) -> ModuleOp:
    """The kernel, which says how many tiles it is for if they are not all, and how much room it has in the scratchpads if that is
    not all."""
    kernel.attributes |= {name: i64_attr(number) for name, number in ((PART, part), (ROOM, room)) if number}
    return kernel


def part_of(kernel: ModuleOp) -> int:
    """For how many tiles a kernel is, 0 for all."""
    found = kernel.attributes.get(PART)
    return found.value.data if isinstance(found, IntegerAttr) else 0


def room_of(kernel: ModuleOp) -> int:
    """How many bytes of the scratchpads a kernel may take, 0 for all."""
    found = kernel.attributes.get(ROOM)
    return found.value.data if isinstance(found, IntegerAttr) else 0


def asked_of(call: Operation, mesh: Sequence[int]) -> Rectangle | None:
    """The tiles that a source gives a call on a chip with that mesh, None if it gives it none. InputError for what are no tiles of
    it."""
    given = call.attributes.get(FRONTEND)
    text = given.data.get(TILES) if isinstance(given, DictionaryAttr) else None
    if not isinstance(text, StringAttr):
        return None
    parts = text.data.split(",")
    numbers = [int(part) for part in parts if part.strip().isdecimal()]
    found = Rectangle(*numbers) if len(numbers) == len(parts) == 4 else None
    if found is None or not found.tiles(mesh):
        hint = "row, column, rows, columns"
        raise InputError("E1004", f"tiles {text.data!r} are none of a mesh of {mesh[0]} x {mesh[1]}", hint=hint)
    return found


def placed_calls(module: ModuleOp, mesh: Sequence[int]) -> Iterator[tuple[CallOp, Rectangle]]:
    """The calls that are given tiles, and these."""
    for function in program_functions(module):
        for op in nested_of(function, CallOp):
            if (found := asked_of(op, mesh)) is not None:
                yield op, found
