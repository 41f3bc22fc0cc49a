"""Emits the instructions of an element operation in a format: the CGRA's where there is one, the kernel core's elsewhere."""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from hlo2tx8.device.formats import Format, Rounding
from hlo2tx8.device.isa import ct_activation, ct_arith, ct_move, kc_function, kc_move, kc_vector
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.device.isa.forms import BITS, CtInstruction
from hlo2tx8.dialects.vec import StoreOp, VecDotOp
from hlo2tx8.dialects.vector_instructions import (
    CT_BITS,
    CT_BITS_OF_UNITS,
    ct_unary,
    is_rounded_exponential,
    rounds_as_it_converts,
    rounds_to_tf32,
)
from hlo2tx8.errors import CompileError
from hlo2tx8.lower.box_levels import BoxLevel
from hlo2tx8.lower.element_format import Operand, PerChannel, Splat, Vector
from hlo2tx8.lower.select.instruction_tables import (
    CT_BINARY,
    CT_COMPARE,
    CT_CONVERT_INTEGERS,
    CT_FORMATS,
    CT_PER_CHANNEL,
    KC_BINARY,
    KC_COMPARE,
    KC_UNARY,
    SWAPPED,
    hlo_name,
)
from hlo2tx8.lower.select.selector import Selector

ONE = 0x3F800000  # FP32
UNIT_BITS = 64
"""Of a unit of packed bits."""
BITS_OF_INTEGERS = (Format.INT8, Format.UINT8, Format.INT32, Format.UINT32)
"""Of what the matrix engine multiplies the vector engine takes bits, though nobody has converted them yet."""


def is_move(op: Operation) -> bool:
    """Does the operation only pass on elements, whatever they are?"""
    return hlo_name(op) in ("select", "to_bits", "from_bits")


def choose(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    """Emits the instructions of an element operation; returns its result."""
    name = hlo_name(op)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(s, op, operands, formats, fmt)
    if rounds_as_it_converts(op):
        return s.buffer(operands[0])
    if len(operands) == 1:
        return _unary(s, op, name, s.buffer(operands[0]), fmt)
    if len(operands) == 2:
        return _binary(s, name, operands[0], operands[1], fmt)
    raise CompileError("E3201", f"no instruction computes {name} on {len(operands)} operands")


def _emit(s: Selector, kind: type[Instruction], fmt: Format, result: Format, **fields: object) -> SSAValue:
    dst = s.step.alloc(result)
    n = s.step.count()
    if fmt not in kind.FORMATS:
        raise CompileError("E3201", f"{kind.MNEMONIC} does not compute in {fmt.name}")
    s.step.insert(kind.make(fmt=fmt, dst=dst, n=n, origin=s.step.origin, **fields))  # pyright: ignore
    return dst


def _unary(s: Selector, op: Operation, name: str, src: SSAValue, fmt: Format) -> SSAValue:
    kind = ct_unary(name, fmt.bytes) if fmt in CT_FORMATS else None
    if is_rounded_exponential(op):
        kind = ct_activation.CtExpLowPrecision
    if name == "not" and fmt is Format.PRED and _is_of_vectors(src):
        unit = s.filled_before_steps(Splat(1, fmt), UNIT_BITS // BITS)
        return _bits(s, CT_BITS_OF_UNITS["xor"], fmt, a=src, unit=unit, u=UNIT_BITS)
    kind = kind or KC_UNARY.get(name)
    if kind is None:
        raise CompileError("E3201", f"no instruction computes {name} in {fmt.name}")
    return _emit(s, kind, fmt, fmt, src=src)


def _binary(s: Selector, name: str, a: Operand, b: Operand, fmt: Format) -> SSAValue:
    if fmt in CT_FORMATS and name in CT_BINARY:
        if name == "divide" and isinstance(a, Splat) and immediate(a) == ONE:
            return _emit(s, ct_arith.CtRecip, fmt, fmt, src=s.buffer(b))
        vector_form, immediate_form, commutes = CT_BINARY[name]
        if commutes and not isinstance(a, SSAValue):
            a, b = b, a
        if isinstance(b, Splat) and isinstance(a, SSAValue):
            return _emit(s, immediate_form, fmt, fmt, a=a, imm=immediate(b))
        if isinstance(b, PerChannel) and isinstance(a, SSAValue):
            return s.apply_per_channel(CT_PER_CHANNEL[name], a, b.buffer, fmt)
        return _emit(s, vector_form, fmt, fmt, a=s.buffer(a), b=s.buffer(b))
    is_of_vectors = (s.is_side and fmt in BITS_OF_INTEGERS) or any(map(_is_of_vectors, (a, b)))
    if name in CT_BITS and fmt in (Format.PRED, Format.INT16, *BITS_OF_INTEGERS) and is_of_vectors:
        if not isinstance(a, SSAValue):
            a, b = b, a
        if isinstance(b, Splat) and isinstance(a, SSAValue):
            unit = s.filled_before_steps(b, UNIT_BITS // (BITS * fmt.bytes))
            return _bits(s, CT_BITS_OF_UNITS[name], fmt, a=a, unit=unit, u=UNIT_BITS)
        return _bits(s, CT_BITS[name], fmt, a=s.buffer(a), b=s.buffer(b))
    if name not in KC_BINARY:
        raise CompileError("E3201", f"no instruction computes {name} in {fmt.name}")
    return _emit(s, KC_BINARY[name], fmt, fmt, a=s.buffer(a), b=s.buffer(b))


def _bits(s: Selector, kind: type[Instruction], fmt: Format, **fields: int | SSAValue) -> SSAValue:
    dst, n = s.step.alloc(fmt), s.step(s.step.count(), BITS * fmt.bytes)
    s.step.insert(kind.make(fmt=Format.BOOL, dst=dst, n=n, origin=s.step.origin, **fields))  # pyright: ignore[reportArgumentType]
    return dst


def _is_of_vectors(value: Operand) -> bool:
    """Did the vector engine write it? What it says of comparisons stays there: the kernel core and it would wait for each other."""
    return isinstance(value, SSAValue) and any(
        isinstance(made := use.operation, CtInstruction) and made.field("dst") is value for use in value.uses
    )


def binary_form(op: Operation, fmt: Format) -> type[Instruction] | None:
    """The instruction on two vectors that computes an element operation."""
    name = hlo_name(op)
    return CT_BINARY[name][0] if fmt in CT_FORMATS and name in CT_BINARY else KC_BINARY.get(name)


def immediate(splat: Splat) -> int:
    """The FP32 bits of a float splat."""
    raw = splat.bits.to_bytes(splat.fmt.bytes, "little")
    value = np.frombuffer(raw, splat.fmt.numpy_dtype)[0]
    return int(np.asarray(value, np.float32).view(np.uint32))


# ------------------------------------------------------------------------------------------------- special ops


def _compare(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    direction, kind_of = _text(op, "comparison_direction"), _text(op, "compare_type")
    (a, b), source = operands, formats[0]
    total = int(kind_of == "TOTALORDER")
    if source not in CT_FORMATS or total:
        return _emit(s, KC_COMPARE[direction], source, Format.PRED, a=s.buffer(a), b=s.buffer(b), total=total)
    if isinstance(a, Splat):
        a, b, direction = b, a, SWAPPED[direction]
    vector_form, immediate_form = CT_COMPARE[direction]
    if isinstance(b, Splat) and not isinstance(a, Splat):
        truth = _emit(s, immediate_form, source, source, a=a, imm=immediate(b))
    else:
        truth = _emit(s, vector_form, source, source, a=s.buffer(a), b=s.buffer(b))
    return _convert_on_ct(s, truth, source, Format.INT8, Rounding.NEAREST_EVEN)


def _text(op: Operation, name: str) -> str:
    attribute = op.attributes.get(name)
    return attribute.data if isinstance(attribute, StringAttr) else ""


def _select(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    pred, then, other = (s.buffer(v) for v in operands)
    if fmt not in CT_FORMATS:
        return _emit(s, kc_move.KcVSelect, fmt, fmt, pred=pred, a=then, b=other)
    dst = other if _is_spent(op.operands[2], op) and isinstance(operands[2], SSAValue) else s.copy(other, fmt)
    mask, mask_format = _as_compared(op, pred, fmt) or (pred, Format.INT8)
    make = ct_move.CtMaskMove.make
    s.step.insert(make(fmt=fmt, fmt2=mask_format, dst=dst, src=then, mask=mask, n=s.step.count(), origin=s.step.origin))
    return dst


def _as_compared(select: Operation, pred: SSAValue, fmt: Format) -> tuple[SSAValue, Format] | None:
    """What the vector engine compared in the select's format, if nobody else needs it as bytes; the conversion goes."""
    users = [use.operation for use in pred.uses]
    if len(users) != 1 or not select.operands[0].has_one_use() or not isinstance(made := users[0], ct_move.CtConvert):
        return None
    truth = made.field("src")
    if made.field("dst") is not pred or made.fmt2 is not fmt or not isinstance(truth, SSAValue):
        return None
    made.detach()
    made.erase()
    return truth, fmt


def _is_spent(value: SSAValue, op: Operation) -> bool:
    """Is it a vector of an arithmetic instruction that nothing reads after this operation, so that its buffer may be the result's?

    Those that read it before have results of their own.
    """
    made = arith.AddfOp | arith.SubfOp | arith.MulfOp | arith.DivfOp
    users = [use.operation for use in value.uses]
    others = [user for user in users if user is not op]
    is_last = all(isinstance(user, made) and user.parent is op.parent and user.is_before_in_block(op) for user in others)
    return isinstance(value.owner, made) and value.owner.parent is op.parent and is_last and len(users) - len(others) == 1


def _clamp(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    low, value, high = operands
    return _binary(s, "minimum", _binary(s, "maximum", value, low, fmt), high, fmt)


def _convert_on_ct(s: Selector, src: SSAValue, source: Format, fmt: Format, rounding: Rounding) -> SSAValue:
    dst = s.step.alloc(fmt)
    make = ct_move.CtConvert.make
    s.step.insert(make(fmt=fmt, fmt2=source, rnd=rounding, dst=dst, src=src, n=s.step.count(), origin=s.step.origin))
    return dst


def _convert(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    source = formats[0]
    if isinstance(operands[0], Splat) and (wide := _widened(operands[0], fmt)) is not None:
        return wide
    src = s.buffer(operands[0])
    if source is fmt:
        return src
    if source is Format.PRED:
        source = Format.INT8  # ones and zeros
    if source in CT_FORMATS and fmt in CT_FORMATS:
        return _convert_on_ct(s, src, source, fmt, Rounding.NEAREST_EVEN)
    if source in CT_CONVERT_INTEGERS and fmt in CT_FORMATS:
        return _convert_on_ct(s, src, source, fmt, Rounding.NEAREST_EVEN)
    if source in CT_FORMATS and fmt in CT_CONVERT_INTEGERS:
        is_rounded = isinstance(made := op.operands[0].owner, Operation) and rounds_as_it_converts(made)
        rounding = Rounding.NEAREST_EVEN if is_rounded else Rounding.TOWARD_ZERO
        if not ct_move.CtConvert.takes(fmt, source, rounding):
            src, source = _convert_on_ct(s, src, source, Format.FP32, Rounding.NEAREST_EVEN), Format.FP32
        return _convert_on_ct(s, src, source, fmt, rounding)
    if source.is_integer and fmt.is_integer and fmt.bytes < source.bytes and _is_stored_product(op):
        return _truncate(s, src, source, fmt)
    return s.as_format(src, source, fmt)


def _is_stored_product(op: Operation) -> bool:
    """Does it only come between the matrix engine and a store?"""
    is_stored = all(isinstance(use.operation, StoreOp) for use in op.results[0].uses)
    return isinstance(op.operands[0].owner, VecDotOp) and is_stored


def _truncate(s: Selector, src: SSAValue, source: Format, fmt: Format) -> SSAValue:
    """The lowest bytes of integers, which DMA takes: the kernel core, no sooner done, would wait for other engines."""
    dst = s.step.alloc(fmt)
    s.step.move(dst, src, [BoxLevel(s.step.count(), (source.bytes // fmt.bytes, 1))], fmt)
    return dst


def _widened(splat: Splat, fmt: Format) -> Splat | None:
    """A 16-bit float in FP32, in which it is the same number; None for other formats and NaN."""
    if fmt is not Format.FP32 or splat.fmt not in (Format.BF16, Format.FP16):
        return None
    bits = immediate(splat)
    return None if np.isnan(np.uint32(bits).view(np.float32)) else Splat(bits, fmt)


def _bitcast(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    if formats[0].bytes != fmt.bytes:
        raise CompileError("E3201", "a bitcast between elements of different width is not elementwise")
    return s.buffer(operands[0])


def _is_finite(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    return _emit(s, kc_vector.KcVIsFinite, formats[0], Format.PRED, src=s.buffer(operands[0]))


def _reduce_precision(s: Selector, op: Operation, operands: Sequence[Operand], formats: Sequence[Format], fmt: Format) -> Vector:
    """Of FP32 to the bits of TF32: a conversion, which an exponential does itself."""
    src = s.buffer(operands[0])
    if rounds_to_tf32(op):
        is_rounded = isinstance(made := op.operands[0].owner, Operation) and is_rounded_exponential(made)
        return src if is_rounded else _convert_on_ct(s, src, fmt, Format.TF32, Rounding.NEAREST_EVEN)
    bits = {name: _integer(op, f"{name}_bits") for name in ("exponent", "mantissa")}
    return _emit(s, kc_function.KcVReducePrecision, fmt, fmt, src=src, **bits)


def _integer(op: Operation, name: str) -> int:
    attribute = op.attributes[name]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


Special = Callable[[Selector, Operation, Sequence[Operand], Sequence[Format], Format], Vector]
_SPECIAL: dict[str, Special] = {
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "bitcast_convert": _bitcast,
    "to_bits": _bitcast,
    "from_bits": _bitcast,
    "is_finite": _is_finite,
    "reduce_precision": _reduce_precision,
}
