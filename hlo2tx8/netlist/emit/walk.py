"""The instructions of a module, one after the other, as ops of a netlist; what has no form is listed.

Loops whose condition is known in each turn are written turn by turn, branches that data chooses are all computed.
"""

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
from hlo2tx8.netlist.emit.build import Builder, Value
from hlo2tx8.netlist.emit.instructions import MANY, MISSING, RULES
from hlo2tx8.netlist.emit.operands import Known, Operand, const, repeated
from hlo2tx8.netlist.emit.truth import chosen, equals
from hlo2tx8.netlist.emit.use import Occurrence
from hlo2tx8.netlist.formats import FORMATS, Array

Formats: TypeAlias = Callable[[np.dtype[Any]], str | None]
MOST_FOLDED = 1 << 26
"""Elements of a constant that is computed while the netlist is made."""
MOST_OPS = 20_000
"""That the turns of loops may have become."""
MOST_TURNS = 1 << 16
OF_EMPTY = ("stablehlo.concatenate", "stablehlo.dynamic_update_slice")
"""What takes arrays without elements and others."""


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
                self.refused += [one for one in error.ops if one not in self.refused]
                self.missing |= {*op.results}
        return []

    def step(self, op: Operation) -> None:
        """Emit an instruction, or compute it if all it takes is known. UnsupportedError if it has no form."""
        if any(value in self.missing for value in op.operands):
            self.missing |= {*op.results}  # what it is made of was refused
            return
        self.builder.what, self.builder.origin = op.name, origin(op)
        operands = [self.values[value] for value in op.operands]
        match op.name:
            case "hlo.fusion" | "hlo.group":
                body = op.regions[0].block
                self.values.update(zip(body.args, operands, strict=False))
                self._bind(op.results, self._run(body))
            case "stablehlo.while":
                self._bind(op.results, self._loop(op, operands))
            case "stablehlo.if" | "stablehlo.case":
                self._bind(op.results, self._branch(op, operands[0]))
            case _:
                self._bind(op.results, self._emitted(op, operands))

    def _emitted(self, op: Operation, operands: Sequence[Operand]) -> Sequence[Operand | None]:
        shapes = [tensor_like(result.type).shape for result in op.results]
        if any(0 in shape for shape in shapes):
            kinds = [tensor_like(result.type).dtype for result in op.results]
            return [const(np.zeros(shape, kind), self.format_of(kind) or "") for shape, kind in zip(shapes, kinds, strict=True)]
        known = [operand.array for operand in operands if isinstance(operand, Known)]
        if len(known) == len(operands):
            return self._folded(op, known)
        if any(array.size == 0 for array in known) and op.name not in OF_EMPTY:
            raise self.builder.refuse("an operand without elements")
        if op.name in MANY:
            return MANY[op.name](Occurrence(self.builder, op, operands, self.df(op.results[0], operands), shapes[0]))
        if op.name not in RULES:
            raise self.builder.refuse(MISSING.get(op.name.partition(".")[2], "a netlist has no op for it"))
        made = RULES[op.name](Occurrence(self.builder, op, operands, self.df(op.results[0], operands), shapes[0]))
        kind = tensor_like(op.results[0].type).dtype
        if isinstance(made, Known) and made.array.dtype != kind:  # what follows may be computed from it
            made = const(np.asarray(made.array).astype(kind), self.format_of(kind) or "")
        return [made]

    def _bind(self, values: Sequence[SSAValue], operands: Sequence[Operand | None]) -> None:
        """None stands for what was refused."""
        for value, operand in zip(values, operands, strict=True):
            if operand is None:
                self.missing.add(value)
            else:
                self.missing.discard(value)
                self.values[value] = operand

    def _run(self, block: Block, arguments: Sequence[Operand | None] = ()) -> list[Operand | None]:
        """What a block returns."""
        if arguments:
            self._bind(block.args, arguments)
        return [None if value in self.missing else self.values[value] for value in self.block(block)]

    def _loop(self, op: Operation, operands: Sequence[Operand]) -> Sequence[Operand | None]:
        """One turn after the other, as long as the condition is known to hold."""
        condition, body = (region.block for region in op.regions)
        state, refusals = list[Operand | None](operands), len(self.refused)
        for _ in range(MOST_TURNS):
            goes_on = self._run(condition, state)[0]
            if len(self.refused) > refusals:
                return [None] * len(op.results)
            self.builder.what, self.builder.origin = op.name, origin(op)
            if not isinstance(goes_on, Known):
                raise self.builder.refuse("how often it runs depends on data")
            if not goes_on.array:
                return state
            state = self._run(body, state)
            if len(self.builder.steps) > MOST_OPS:
                break
        self.builder.what, self.builder.origin = op.name, origin(op)
        raise self.builder.refuse(f"its turns are more than {MOST_OPS:,} ops")

    def _branch(self, op: Operation, selector: Operand) -> Sequence[Operand | None]:
        """The branch that is taken; of all, if that depends on data, the results that are chosen."""
        if isinstance(selector, Known):
            return self._run(Evaluator({}).branch(op, np.asarray(selector.array)))
        found = [self._run(region.block) for region in op.regions]
        self.builder.what, self.builder.origin = op.name, origin(op)
        made: list[Operand | None] = []
        for number, result in enumerate(op.results):
            parts = [one[number] for one in found]
            last = parts.pop()
            for at, part in reversed(list(enumerate(parts))):
                if last is None or part is None:
                    last = None
                    continue
                use = Occurrence(self.builder, op, (), self.df(result, [part, last, selector]), tensor_like(result.type).shape)
                index = use.of((), selector.df)
                mask = selector if op.name == "stablehlo.if" else equals(index, selector, index.splat(at))
                last = chosen(use, repeated(mask, (), use.shape), part, last)
            made.append(last)
        return made

    def df(self, value: SSAValue, operands: Sequence[Operand]) -> str:
        """The data format of a result; UnsupportedError if its element type has none.

        Truth values and whole numbers have that of the floats that they are made of, if there are such.
        """
        kind = tensor_like(value.type).dtype
        found = self.format_of(kind)
        if found is None:
            raise self.builder.refuse(f"no data format for {kind}")
        if kind.kind in "biu":
            dfs = [operand.df for operand in operands if isinstance(operand, Value)]
            if made := [df for df in dfs if not FORMATS[df].is_integer or df == "UInt16" or (kind.kind == "b" and df == "Int32")]:
                return next((df for df in made if not FORMATS[df].is_integer), made[0])
        return found

    def _folded(self, op: Operation, arrays: Sequence[Array]) -> Sequence[Operand]:
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
        return [const(array, self.format_of(array.dtype) or "") for array in found]
