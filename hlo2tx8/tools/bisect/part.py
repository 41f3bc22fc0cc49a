"""Parts of a module as modules of their own, with the values that flow into them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import FusionOp
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.hlo import evaluate
from hlo2tx8.hlo.module import find_main, module_name
from hlo2tx8.hlo.regions import captured, terminator_of

Array = npt.NDArray[Any]
CONSTANT = "stablehlo.constant"


@dataclass(frozen=True, eq=False)
class ModulePart:
    """A block of instructions with one array per argument, and the functions that it may call; immutable.

    `fusion` is the kind of the fusion whose body it is, "" if it is the body of @main.
    """

    block: Block
    arrays: tuple[Array, ...]
    functions: tuple[FuncOp, ...]
    name: str
    fusion: str = ""

    @staticmethod
    def of(module: ModuleOp, arrays: Sequence[Array]) -> "ModulePart":
        """The whole module."""
        main = find_main(module)
        functions = tuple(op for op in module.body.block.ops if isinstance(op, FuncOp) and op is not main)
        return ModulePart(main.body.block, tuple(arrays), functions, module_name(module))

    @property
    def outputs(self) -> tuple[SSAValue, ...]:
        return tuple(terminator_of(self.block).operands)

    @property
    def given(self) -> dict[SSAValue, Array]:
        """Each argument with its array."""
        return dict[SSAValue, Array](zip(self.block.args, self.arrays, strict=True))

    @property
    def instructions(self) -> tuple[Operation, ...]:
        """The ops that compute something: without constants and the terminator."""
        last = terminator_of(self.block)
        return tuple(op for op in self.block.ops if op is not last and op.name != CONSTANT)

    def values(self) -> dict[SSAValue, Array]:
        """The reference's array for every tensor of the block."""
        wanted = [v for v in self._tensors() if not isinstance(v.owner, Block)]
        given = self.given
        part = self.cut(wanted, (), given)
        return given | dict(zip(wanted, evaluate(part.unfused().module(), *part.arrays), strict=True))

    def _tensors(self) -> list[SSAValue]:
        return [v for v in (*self.block.args, *(r for op in self.block.ops for r in op.results)) if is_tensor(v.type)]

    def cut(self, outputs: Sequence[SSAValue], at: Collection[SSAValue], values: Mapping[SSAValue, Array]) -> "ModulePart":
        """The part that computes `outputs` from the values `at`, which become arguments, and from the arguments."""
        needed: set[Operation] = set()
        read: set[SSAValue] = set()
        waiting = list(outputs)
        while waiting:
            value = waiting.pop()
            if value in at or isinstance(value.owner, Block):
                read.add(value)
            elif value.owner not in needed:
                needed.add(value.owner)
                waiting += (*value.owner.operands, *captured(value.owner))
        given = [v for v in (*self.block.args, *(r for op in self.block.ops for r in op.results)) if v in read]
        block = Block(arg_types=[v.type for v in given])
        renamed: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
        for op in self.block.ops:
            if op in needed:
                copy = op.clone(renamed)
                # What is cut is an argument even where the op that had computed it stays for its other results.
                renamed.update(zip(given, block.args, strict=True))
                block.add_op(copy)
        results = [renamed[v] for v in outputs]
        block.add_op(stablehlo.ReturnOp(results) if self.fusion else func.ReturnOp(*results))
        return ModulePart(block, tuple(values[v] for v in given), self.functions, self.name, self.fusion)

    def unfused(self) -> "ModulePart":
        """The same instructions directly in @main instead of in a fusion."""
        if not self.fusion:
            return self
        return ModulePart(self.block, self.arrays, self.functions, self.name).cut(self.outputs, (), self.given)

    def module(self) -> ModuleOp:
        """The part as a module."""
        copy = self.cut(self.outputs, (), self.given)
        types = [v.type for v in copy.outputs]
        block = copy.block
        if self.fusion:
            block = Block(arg_types=[a.type for a in copy.block.args])
            fusion = FusionOp(list(block.args), types, self.fusion, Region(copy.block), "fusion")
            block.add_ops([fusion, func.ReturnOp(*fusion.results)])
        main = FuncOp("main", ([a.type for a in block.args], types), Region(block))
        return ModuleOp([main, *(f.clone() for f in self.functions)], sym_name=StringAttr(self.name))

    def body(self, fusion: FusionOp, values: Mapping[SSAValue, Array]) -> "ModulePart":
        """The instructions of a fusion of this part, as a part."""
        arrays = tuple(values[v] for v in fusion.operands)
        return ModulePart(fusion.body.block, arrays, self.functions, self.name, fusion.kind.data)
