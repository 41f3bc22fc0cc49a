"""The instructions of a module, one after the other, as ops of a netlist; what has no form is listed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import origin
from hlo2tx8.errors import Hlo2tx8Error, UnsupportedError, UnsupportedOp
from hlo2tx8.hlo.evaluator import Evaluator
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.netlist.emit.build import Builder
from hlo2tx8.netlist.emit.instructions import RULES
from hlo2tx8.netlist.emit.operands import Known, Operand, const
from hlo2tx8.netlist.emit.use import Occurrence
from hlo2tx8.netlist.formats import Array

Formats: TypeAlias = Callable[[np.dtype[Any]], str | None]
MOST_FOLDED = 1 << 26
"""Elements of a constant that is computed while the netlist is made."""


@dataclass
class ModuleWalk:
    """Instructions of a module, one after the other. `format_of` gives the data format of an element type."""

    builder: Builder
    format_of: Formats
    values: dict[SSAValue, Operand] = field(default_factory=dict[SSAValue, Operand])
    refused: list[UnsupportedOp] = field(default_factory=list[UnsupportedOp])
    missing: set[SSAValue] = field(default_factory=set[SSAValue])

    def block(self, block: Block) -> list[SSAValue]:
        """Emit all instructions of a block; what it returns."""
        for op in block.ops:
            if op.name in ("func.return", "stablehlo.return"):
                return list(op.operands)
            try:
                self.step(op)
            except UnsupportedError as error:
                self.refused += error.ops
                self.missing |= {*op.results}
        return []

    def step(self, op: Operation) -> None:
        """Emit an instruction, or compute it if all it takes is known. UnsupportedError if it has no form."""
        if any(value in self.missing for value in op.operands):
            self.missing |= {*op.results}  # what it is made of was refused
            return
        self.builder.what, self.builder.origin = op.name, origin(op)
        if op.name in ("hlo.fusion", "hlo.group"):
            body = op.regions[0].block
            self.values.update(zip(body.args, (self.values[v] for v in op.operands), strict=False))
            for result, value in zip(op.results, self.block(body), strict=True):
                if value in self.missing:
                    self.missing.add(result)
                else:
                    self.values[result] = self.values[value]
            return
        operands = [self.values[value] for value in op.operands]
        known = [operand.array for operand in operands if isinstance(operand, Known)]
        if len(known) == len(operands) and self._fold(op, known):
            return
        if op.name not in RULES:
            raise self.builder.refuse("")
        self.values[op.results[0]] = RULES[op.name](Occurrence(self.builder, op, operands, self.df(op.results[0])))

    def df(self, value: SSAValue) -> str:
        """The data format of a value; UnsupportedError if its element type has none."""
        kind = tensor_like(value.type).dtype
        found = self.format_of(kind)
        if found is None:
            raise self.builder.refuse(f"no data format for {kind}")
        return found

    def _fold(self, op: Operation, arrays: Sequence[Array]) -> bool:
        results = [tensor_like(result.type) for result in op.results]
        if op.name == "stablehlo.broadcast_in_dim":
            dims = attributes_of(op)["broadcast_dimensions"]
            shape = [1] * len(results[0].shape)
            for size, dim in zip(arrays[0].shape, dims, strict=True):
                shape[dim] = size
            found: Sequence[Array] = [np.broadcast_to(arrays[0].reshape(shape), results[0].shape)]
        elif any(prod(result.shape) > MOST_FOLDED for result in results):
            raise self.builder.refuse("a constant of more elements than are computed beforehand")
        else:
            try:
                found = Evaluator({}).step(op, list(arrays), {})
            except Hlo2tx8Error as error:
                raise self.builder.refuse(error.message) from None
        for result, array in zip(op.results, found, strict=True):
            df = "" if array.dtype == bool else self.format_of(array.dtype) or ""
            self.values[result] = const(array, df)
        return True
