"""Which outputs take over the memory of an input, as `tf.aliasing_output` and `jax.buffer_donor` of @main's arguments allow.

    @main(%cache {tf.aliasing_output = 0}, %new, %i)         output 0 takes over input 0: the update is in place, nothing is copied
      %0 = launch.update %cache with %new at(%i, %zero)
      return %0

An output takes over its input only if it is computed in the input's place, by updates, loops and elementwise kernels that read it
for the last time. Else it would be computed elsewhere and be copied, or wait for the readers: an output of its own is cheaper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.dialects.launch import KernelOp, RepeatOp, UpdateOp, ViewOp, WhileOp
from hlo2tx8.hlo.liveness import Liveness
from hlo2tx8.hlo.regions import captured, terminator_of

ALIASING, DONOR = "tf.aliasing_output", "jax.buffer_donor"
"""Attributes of an argument: the output that may take over its memory; any output of its type may."""


def taken_over(main: FuncOp, liveness: Liveness) -> dict[int, int]:
    """Outputs of @main to the inputs whose memory they take over; no input or output occurs twice."""
    block = main.body.block
    ops = _Main(block, liveness.of(block))
    outputs = terminator_of(block).operands
    found: dict[int, int] = {}
    for number, attributes in enumerate(_attributes(main, len(block.args))):
        aliasing = attributes.get(ALIASING)
        if isinstance(aliasing, IntegerAttr):
            wanted: Sequence[int] = (aliasing.value.data,)
        else:
            wanted = range(len(outputs)) if DONOR in attributes else ()
        argument = block.args[number]
        for output in wanted:
            is_free = 0 <= output < len(outputs) and output not in found and outputs[output].type == argument.type
            if is_free and ops.is_in_place(outputs[output], argument):
                found[output] = number
                break
    return found


def viewed(value: SSAValue) -> SSAValue:
    """The value whose elements a view shows; itself if it is no view."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.tensor
    return value


def reshaped(value: SSAValue) -> SSAValue:
    """The value that a view shows all of; itself if it is no such view."""
    while isinstance(value.owner, ViewOp) and value.owner.is_whole:
        value = value.owner.tensor
    return value


def _attributes(main: FuncOp, count: int) -> Sequence[Mapping[str, Attribute]]:
    entries = main.arg_attrs.data if main.arg_attrs is not None else ()
    return [entry.data for entry in entries] if len(entries) == count else ()


@dataclass(frozen=True)
class _Main:
    """@main's ops in order, and the values that each reads for the last time."""

    block: Block
    dying: Mapping[Operation, Sequence[SSAValue]]

    @cached_property
    def readers(self) -> dict[SSAValue, list[Operation]]:
        """Of each value, the ops that read it or a view of it, themselves or in their regions, in order."""
        found: dict[SSAValue, list[Operation]] = {}
        for op in self.block.ops:
            if not isinstance(op, ViewOp) or op.starts:
                for value in dict.fromkeys(viewed(operand) for inner in op.walk() for operand in inner.operands):
                    found.setdefault(value, []).append(op)
        return found

    def is_in_place(self, value: SSAValue, argument: SSAValue) -> bool:
        """Is the value the argument, or computed over it by ops that read it for the last time?"""
        value = reshaped(value)
        if value is argument:
            return True
        maker = value.owner
        if isinstance(maker, Block) or maker.parent is not self.block:
            return False
        match maker:
            case UpdateOp():
                replaced = [maker.tensor]
            case WhileOp() | RepeatOp():
                replaced = [old for old, result in zip(maker.operands, maker.results, strict=True) if result is value]
                if viewed(replaced[0]) in map(viewed, captured(maker)):
                    return False
            case KernelOp() if maker.updates is not None:
                replaced = [maker.updated[value]]
            case KernelOp():
                numbers = maker.replaces.get_values() if maker.replaces else ()
                replaced = [maker.operands[n] for n in numbers if maker.operands[n] in self.dying[maker]]
            case _:
                return False
        return any(self.is_replaced(old, maker) and self.is_in_place(old, argument) for old in replaced)

    def is_replaced(self, old: SSAValue, maker: Operation) -> bool:
        """Is the op the last reader of a value, and does no other operand of it show the value?"""
        own = [operand for operand in maker.operands if viewed(operand) is viewed(old)]
        is_elementwise = isinstance(maker, KernelOp) and maker.updates is None and all(reshaped(v) is reshaped(old) for v in own)
        return self.readers[viewed(old)][-1] is maker and (is_elementwise or len(own) == 1)
