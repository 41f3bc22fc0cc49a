"""HLO's scaled-dot, a product of narrow operands of which each block of elements has a scale. MLIR has no such op.

%r = f32[2,64] scaled-dot(%a, %b, %s, %t)         a f8e4m3fn[2,256], s f8e8m0fnu[2,8]: a scale for 32 elements of a row

    as_custom_calls      a custom call of that name in the module's proto, its dimension numbers as JSON
    expand_scaled_dot    dot_general of a and b in bf16, times their scales, as XLA's rewriter does where a target has no such op
"""

import json
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, bf16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion, dot_numbers, int_array
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.errors import InputError
from hlo2tx8.protobuf import fields, integers, message, messages

SCALED_DOT = "scaled-dot"
COMPUTATIONS, INSTRUCTIONS = 3, 2
OPCODE, TARGET, DIMENSION_NUMBERS, BACKEND_CONFIG = 2, 28, 30, 43
"""Fields of HloModuleProto and HloComputationProto, and of HloInstructionProto."""
NUMBERS = ("lhs_contracting", "rhs_contracting", "lhs_batching", "rhs_batching")
"""In the order of the fields of DotDimensionNumbers."""


def as_custom_calls(module: bytes) -> bytes:
    """A serialised HloModuleProto with a custom call for each scaled-dot."""
    found = b""
    for number, value in fields(module):
        if number == COMPUTATIONS and isinstance(value, bytes) and SCALED_DOT.encode() in value:
            own = ((n, _as_custom_call(v) if n == INSTRUCTIONS and isinstance(v, bytes) else v) for n, v in fields(value))
            value = b"".join(message(n, v) for n, v in own)
        found += message(number, value)
    return found


def _as_custom_call(instruction: bytes) -> bytes:
    """Of a scaled-dot, with the fields that are others behind it: of two of a number the last one counts."""
    if (OPCODE, SCALED_DOT.encode()) not in fields(instruction):
        return instruction
    (dimensions,) = messages(instruction, DIMENSION_NUMBERS) or (b"",)
    numbers = {name: integers(dimensions, field) for field, name in enumerate(NUMBERS, 1)}
    changed = message(OPCODE, "custom-call") + message(TARGET, SCALED_DOT) + message(BACKEND_CONFIG, json.dumps(numbers))
    return instruction + changed


def expand_scaled_dot(op: Operation, type_: Attribute) -> Sequence[SSAValue]:
    """The product; InputError E1002 if a dimension of an operand is no multiple of that of its scales."""
    e = Expansion(op)
    numbers = json.loads(decode_attributes(op)["backend_config"])
    left, right = (_scaled(e, op.operands[side], op.operands[2 + side]) for side in (0, 1))
    shape = as_tensor(type_).get_shape()
    order = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
    dimensions = dot_numbers(*(numbers[name] for name in order))
    product = e.emit("dot_general", [left, right], TensorType(f32, shape), dot_dimension_numbers=dimensions)
    return [e.converted(product, as_tensor(type_).element_type)]


def _scaled(e: Expansion, operand: SSAValue, scales: SSAValue) -> SSAValue:
    """An operand in bf16, times its scales; scales of rank 0 say that there are none."""
    values, type_, own = e.converted(operand, bf16), as_tensor(operand.type), as_tensor(scales.type)
    shape, counts = type_.get_shape(), own.get_shape()
    if not counts:
        return values
    if len(counts) != len(shape) or any(count == 0 or size % count for size, count in zip(shape, counts, strict=True)):
        raise InputError("E1002", f"scaled-dot: scales {own} do not cut {type_} into equal blocks")
    blocks = [n for size, count in zip(shape, counts, strict=True) for n in (count, size // count)]
    places = int_array(range(0, len(blocks), 2))
    spread = e.emit("broadcast_in_dim", [e.converted(scales, bf16)], TensorType(bf16, blocks), broadcast_dimensions=places)
    return e.emit("multiply", [values, e.emit("reshape", [spread], values.type)], values.type)
