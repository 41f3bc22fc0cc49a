"""Rewrites a function so that every complex value becomes two real ones.

add, slice, select ...          the op on the real parts, and on the imaginary parts
multiply, exponential ...       formulas, see complex_functions
dot_general                     four of them, a difference and a sum
while, if, fusion, reduce ...   the same op with two values for one
parameters, results             f32[..., 2], as complex64[...] lies in memory
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import ComplexType, FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Pred, Term
from hlo2tx8.dialects.hlo import LayoutAttr, LiteralAttr, origin
from hlo2tx8.dialects.layout import as_tensor, is_tensor, minor_to_major
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.accumulation import only_adds
from hlo2tx8.hlo.lookup import attributes_of
from hlo2tx8.hlo.regions import CALL, terminator_of
from hlo2tx8.hlo.signature import SIGNATURE
from hlo2tx8.hlo.spec import Array
from hlo2tx8.ir import i64_attr
from hlo2tx8.passes.complex.functions import BINARY, UNARY, Parts, absolute

Value: TypeAlias = SSAValue | Parts

BOTH_PARTS = (
    *("add", "subtract", "negate", "select", "reshape", "transpose", "broadcast", "broadcast_in_dim", "slice", "reverse"),
    *("concatenate", "pad", "dynamic_slice", "dynamic_update_slice", "dynamic_reshape", "real_dynamic_slice"),
)
PARTWISE = ("hlo.copy", "hlo.bitcast", "hlo.read_at", *(f"stablehlo.{name}" for name in BOTH_PARTS))
"""Ops that do the same with both parts."""
PAIRWISE = (
    *("hlo.fusion", "hlo.group", "hlo.write_at", "hlo.scan", "stablehlo.while", "stablehlo.if", "stablehlo.case"),
    *("stablehlo.reduce", "stablehlo.map", "stablehlo.tuple", "stablehlo.optimization_barrier"),
)
"""Ops on any number of values, a complex one of which is two."""


def is_complex(type_: Attribute) -> bool:
    """True for the type of a complex array."""
    return is_tensor(type_) and isinstance(as_tensor(type_).element_type, ComplexType)


def part_type(type_: Attribute) -> TensorType[Attribute]:
    """The type of one part of a complex array."""
    tensor = as_tensor(type_)
    return TensorType(cast(ComplexType[Any], tensor.element_type).element_type, tensor.get_shape(), tensor.encoding)


def pair_type(type_: Attribute) -> Attribute:
    """The type of a complex array as pairs of floats, [..., 2]; any other type as it is."""
    if not is_complex(type_):
        return type_
    tensor, part = as_tensor(type_), part_type(type_)
    shape = (*tensor.get_shape(), 2)
    if isinstance(tensor.encoding, LayoutAttr):
        return TensorType(part.element_type, shape, LayoutAttr((len(shape) - 1, *minor_to_major(tensor))))
    return TensorType(part.element_type, shape)


class SplitComplex:
    """A function that is being rewritten: the parts of its complex values so far, and the ops to be erased."""

    def __init__(self) -> None:
        self.parts: dict[SSAValue, Parts] = {}
        self.dead_ops: list[Operation] = []
        self.dead_args: list[BlockArgument] = []

    def function(self, function: FuncOp) -> None:
        """Rewrite a function in place. Its type has pairs of floats for complex arrays, and an attribute keeps the type it had."""
        block, old = function.body.block, function.function_type
        first, terminator = block.first_op, terminator_of(block)
        assert first is not None
        for arg in tuple(block.args):
            if is_complex(arg.type):
                pairs = block.insert_arg(pair_type(arg.type), arg.index)
                self.parts[arg] = _split(Expansion(first), pairs, arg.type)
                self.dead_args.append(arg)
        self.ops(block)
        terminator.operands = [self.joined(value, terminator) for value in terminator.operands]
        for op in reversed(self.dead_ops):
            Rewriter.erase_op(op)
        for arg in self.dead_args:
            arg.block.erase_arg(arg)
        inputs, outputs = ([pair_type(type_) for type_ in types] for types in (old.inputs, old.outputs))
        function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)
        function.attributes[SIGNATURE] = old

    def joined(self, value: SSAValue, terminator: Operation) -> SSAValue:
        """A complex value as an array of pairs, built in front of the return."""
        if value not in self.parts:
            return value
        e, shape = Expansion(terminator), as_tensor(value.type).get_shape()
        columns = [e.emit("reshape", [part.value], e.like(part.value, (*shape, 1))) for part in self.parts[value]]
        return e.emit("concatenate", columns, pair_type(value.type), dimension=i64_attr(len(shape)))

    def region(self, block: Block) -> None:
        """Rewrite a block inside of the function: complex arguments and results become two each."""
        terminator = terminator_of(block)
        for arg in tuple(block.args):
            if is_complex(arg.type):
                new = [block.insert_arg(part_type(arg.type), arg.index) for _ in range(2)]
                self.parts[arg] = Parts(*(Term(Expansion(terminator), value) for value in new))
                self.dead_args.append(arg)
        self.ops(block)
        terminator.operands = self.flat(terminator.operands)

    def ops(self, block: Block) -> None:
        for op in ops_of(block):
            if op is not block.last_op:
                self.op(op)

    def flat(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The values, with two parts in place of each complex one."""
        return [flat for value in values for flat in self.flat_one(value)]

    def flat_one(self, value: SSAValue) -> list[SSAValue]:
        return [part.value for part in self.parts[value]] if value in self.parts else [value]

    def of(self, e: Expansion, value: SSAValue) -> Parts:
        """The parts of an operand, usable in front of `e.op`."""
        real, imag = self.parts[value]
        return Parts(Term(e, real.value), Term(e, imag.value))

    def op(self, op: Operation) -> None:
        """Rewrite one op, if any of its values is complex."""
        types = [*(value.type for value in op.operands), *op.result_types]
        inner = [arg.type for region in op.regions for block in region.blocks for arg in block.args]
        if not any(map(is_complex, (*types, *inner))):
            for region in op.regions:
                for block in region.blocks:
                    self.region(block)
            return
        rule = RULES.get(op.name)
        if rule is None:
            raise CompileError("E1001", f"{op.name} of complex numbers is not supported", origin=origin(op))
        self.replace(op, rule(self, Expansion(op), op))

    def replace(self, op: Operation, found: Sequence[Value]) -> None:
        """Replace an op's results by values and parts."""
        for result, value in zip(op.results, found, strict=True):
            if isinstance(value, Parts):
                self.parts[result] = value
            else:
                result.replace_all_uses_with(value)
        self.dead_ops.append(op)


def _split(e: Expansion, pairs: SSAValue, type_: Attribute) -> Parts:
    """The parts of a complex parameter that is an array of pairs."""
    shape = as_tensor(type_).get_shape()
    part = part_type(type_)
    found: list[Term] = []
    for number in range(2):
        start, limit, strides = (*(0 for _ in shape), number), (*shape, number + 1), (1,) * (len(shape) + 1)
        bounds = {"start_indices": int_array(start), "limit_indices": int_array(limit), "strides": int_array(strides)}
        column = e.emit("slice", [pairs], e.like(pairs, (*shape, 1)), **bounds)
        found.append(Term(e, e.emit("reshape", [column], part)))
    return Parts(*found)


def _partwise(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """The same op twice."""
    found: list[Term] = []
    for number in range(2):
        operands = [s.parts[v][number].value if v in s.parts else v for v in op.operands]
        new = type(op).create(operands=operands, result_types=[part_type(op.results[0].type)], properties=dict(op.properties))
        found.append(Term(e, e.insert(new).results[0]))
    return [Parts(*found)]


def _pairwise(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """The same op with two values for each complex one, also in its regions."""
    if op.name == "stablehlo.reduce" and len(op.results) == 1 and only_adds(op.regions[0].block):
        return _sum(s, e, op)
    for region in op.regions:
        for block in region.blocks:
            s.region(block)
    types = [t for type_ in op.result_types for t in ((part_type(type_),) * 2 if is_complex(type_) else (type_,))]
    regions = [op.detach_region(region) for region in tuple(op.regions)]
    new = type(op).create(operands=s.flat(op.operands), result_types=types, properties=dict(op.properties), regions=regions)
    new.attributes |= op.attributes
    results = iter(e.insert(new).results)
    return [Parts(Term(e, next(results)), Term(e, next(results))) if is_complex(t) else next(results) for t in op.result_types]


def _sum(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """A sum is one of each part, which do not wait for each other."""
    found: list[Term] = []
    for number in range(2):
        operands = [s.parts[v][number].value for v in op.operands]
        region = op.regions[0].clone()
        for value in (*region.block.args, *(r for inner in region.block.ops for r in inner.results)):
            Rewriter.replace_value_with_new_type(value, part_type(value.type))
        type_ = part_type(op.results[0].type)
        new = type(op).create(operands=operands, result_types=[type_], properties=dict(op.properties), regions=[region])
        found.append(Term(e, e.insert(new).results[0]))
    return [Parts(*found)]


def _dot(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """(A + Bi)(C + Di) by four real products."""

    def product(a: Term, b: Term) -> Term:
        new = type(op).create(operands=[a.value, b.value], result_types=[type_], properties=dict(op.properties))
        return Term(e, e.insert(new).results[0])

    type_ = part_type(op.results[0].type)
    (a, b), (c, d) = (s.of(e, value) for value in op.operands)
    return [Parts(product(a, c) - product(b, d), product(a, d) + product(b, c))]


def _constant(_: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    literal, type_ = op.properties["value"], part_type(op.results[0].type)
    assert isinstance(literal, LiteralAttr)
    values: tuple[Array, Array] = (np.real(literal.array), np.imag(literal.array))
    return [Parts(*(Term(e, e.emit("constant", [], type_, value=LiteralAttr.from_array(v))) for v in values))]


def _bitcast(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """To the type it has: other widths are expanded before."""
    return [s.of(e, op.operands[0])]


def _call(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """Of a function that takes and gives arrays of pairs."""
    new = e.insert(
        type(op).create(
            operands=[s.joined(value, op) for value in op.operands],
            result_types=list(map(pair_type, op.result_types)),
            properties=dict(op.properties),
        )
    )
    types = zip(new.results, op.result_types, strict=True)
    return [_split(e, result, type_) if is_complex(type_) else result for result, type_ in types]


def _iota(_: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    real = Term(e, e.emit("iota", [], part_type(op.results[0].type), **op.properties))
    return [Parts(real, real.number(0))]


def _convert(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    """To complex from real: no imaginary part; to real or pred: it is dropped."""
    (source,), type_ = op.operands, op.results[0].type
    if not is_complex(type_):
        return [e.emit("convert", [s.parts[source].real.value], type_)]
    part = part_type(type_)
    if source in s.parts:
        return [Parts(*(Term(e, e.emit("convert", [p.value], part)) for p in s.parts[source]))]
    real = Term(e, e.emit("convert", [source], part))
    return [Parts(real, real.number(0))]


def _compare(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    z, w = (s.of(e, value) for value in op.operands)
    direction = str(attributes_of(op)["comparison_direction"])
    tests = [a.compare(direction, b) for a, b in zip(z, w, strict=True)]
    both: dict[str, Callable[[Pred, Pred], Pred]] = {"EQ": Pred.__and__, "NE": Pred.__or__}
    if direction not in both:
        raise CompileError("E1002", f"complex numbers have no order for {direction}", origin=origin(op))
    return [both[direction](*tests).value]


def _by_formula(s: SplitComplex, e: Expansion, op: Operation) -> list[Value]:
    name, operands = op.name.removeprefix("stablehlo."), [s.of(e, value) for value in op.operands]
    return [UNARY[name](*operands) if len(operands) == 1 else BINARY[name](*operands)]


Rule = Callable[[SplitComplex, Expansion, Operation], Sequence[Value]]

RULES: dict[str, Rule] = {
    **dict.fromkeys(PARTWISE, _partwise),
    **dict.fromkeys(PAIRWISE, _pairwise),
    **{f"stablehlo.{name}": _by_formula for name in (*UNARY, *BINARY)},
    "stablehlo.abs": lambda s, e, op: [absolute(s.of(e, op.operands[0])).value],
    "stablehlo.real": lambda s, e, op: [s.parts[op.operands[0]].real.value],
    "stablehlo.imag": lambda s, e, op: [s.parts[op.operands[0]].imag.value],
    "stablehlo.complex": lambda s, e, op: [Parts(*(Term(e, value) for value in op.operands))],
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.constant": _constant,
    "stablehlo.iota": _iota,
    CALL: _call,
    "stablehlo.convert": _convert,
    "stablehlo.compare": _compare,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot,
}
