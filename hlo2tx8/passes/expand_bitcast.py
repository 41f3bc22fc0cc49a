"""Pass expand-bitcast: bitcast_convert between widths becomes shifts and cuts of the bits as unsigned integers.

f32 → 2 x i16                  ⟶    the bits as i32, repeated along the new dimension, each shifted and cut
2 x i16 → f32                  ⟶    each part widened, shifted, put together, the bits as f32
complex<f64> → 2 x complex<f32>, and back, part by part
hlo.bitcast to another type    ⟶    hlo.bitcast to one dimension, bitcast_convert, hlo.bitcast to the result
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f32, f64, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import BitcastOp
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import tensor_like
from hlo2tx8.hlo.types import bit_width, is_complex
from hlo2tx8.ir import i64_attr


@dataclass(frozen=True)
class ExpandBitcastPass(ModulePass):
    """Rewrites bitcasts to other types, and bitcast_convert to another width; see the module docstring."""

    name = "expand-bitcast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"hlo.bitcast": expand_type})
        rewrite_named(op, {"stablehlo.bitcast_convert": _bitcast_convert})


def _unsigned_element(width: int) -> IntegerType:
    return IntegerType(width, Signedness.UNSIGNED)


def _unsigned(width: int, shape: Sequence[int]) -> TensorType[Attribute]:
    return TensorType(_unsigned_element(width), shape)


def _element(e: Expansion, value: SSAValue, j: int) -> SSAValue:
    """Element j of the last dimension, which stays with size 1."""
    last = len(as_tensor(value.type).get_shape()) - 1
    return e.sliced(value, last, j, j + 1)


def expand_type(op: Operation) -> None:
    """A bitcast to another type as one of bits between two of shapes: in memory elements of one type lie where those of the other
    one are read."""
    source, result = tensor_like(op.operands[0].type), tensor_like(op.results[0].type)
    if source.dtype == result.dtype:
        return
    e = Expansion(op)
    wide, narrow, size = bit_width(source.dtype), bit_width(result.dtype), prod(source.shape)
    given = (size,) if wide >= narrow else (size * wide // narrow, narrow // wide)
    taken = (size, wide // narrow) if wide > narrow else given[:1]
    line = _read_as(e, op.operands[0], TensorType(as_tensor(op.operands[0].type).element_type, given))
    bits = e.emit("bitcast_convert", [line], TensorType(as_tensor(op.results[0].type).element_type, taken))
    e.replace(_read_as(e, bits, op.results[0].type))


def _read_as(e: Expansion, value: SSAValue, type_: Attribute) -> SSAValue:
    """The same elements in another shape or layout."""
    return e.insert(BitcastOp(operands=[[value]], result_types=[[type_]])).results[0]


def _bitcast_convert(op: Operation) -> None:
    source, result = tensor_like(op.operands[0].type), tensor_like(op.results[0].type)
    wide, narrow = bit_width(source.dtype), bit_width(result.dtype)
    if wide == narrow:
        return
    e = Expansion(op)
    if 0 in result.shape:
        # Nothing to compute; an op without operands of the right type will do.
        e.replace(e.emit("iota", [], op.results[0].type, iota_dimension=i64_attr(result.shape.index(0))))
    elif is_complex(source.dtype):
        (_split_complex if wide > narrow else _join_complex)(e, op)
    elif wide > narrow:
        _split(e, op, wide, narrow, result.shape)
    else:
        _join(e, op, wide, narrow, source.shape)


def _split(e: Expansion, op: Operation, wide: int, narrow: int, shape: tuple[int, ...]) -> None:
    """Part j along the last dimension holds bits j * narrow and up."""
    bits = e.emit("bitcast_convert", [op.operands[0]], _unsigned(wide, shape[:-1]))
    full = _unsigned(wide, shape)
    spread = e.emit("broadcast_in_dim", [bits], full, broadcast_dimensions=int_array(range(len(shape) - 1)))
    part = e.emit("iota", [], full, iota_dimension=i64_attr(len(shape) - 1))
    shift = e.emit("multiply", [part, e.splat(narrow, full)], full)
    shifted = e.emit("shift_right_logical", [spread, shift], full)
    if narrow == 1:
        bit = e.emit("and", [shifted, e.splat(1, full)], full)
        e.replace(e.emit("convert", [bit], op.results[0].type))
        return
    cut = e.emit("convert", [shifted], _unsigned(narrow, shape))
    e.replace(e.emit("bitcast_convert", [cut], op.results[0].type))


def _join(e: Expansion, op: Operation, narrow: int, wide: int, shape: tuple[int, ...]) -> None:
    """Part j along the last dimension gives bits j * narrow and up."""
    outer = shape[:-1]
    part = _unsigned_element(narrow) if narrow > 1 else i1
    bits = e.emit("bitcast_convert", [op.operands[0]], TensorType(part, shape)) if narrow > 1 else op.operands[0]
    whole: SSAValue | None = None
    for j in range(shape[-1]):
        flat = e.emit("reshape", [_element(e, bits, j)], TensorType(part, outer))
        widened = e.emit("convert", [flat], _unsigned(wide, outer))
        moved = e.emit("shift_left", [widened, e.splat(j * narrow, _unsigned(wide, outer))], _unsigned(wide, outer))
        whole = moved if whole is None else e.emit("or", [whole, moved], _unsigned(wide, outer))
    assert whole is not None
    e.replace(e.emit("bitcast_convert", [whole], op.results[0].type))


def _split_complex(e: Expansion, op: Operation) -> None:
    """complex<f64> → 2 x complex<f32>: the halves of the real part, then those of the imaginary one."""
    shape = as_tensor(op.operands[0].type).get_shape()
    column, both = TensorType(f64, (*shape, 1)), TensorType(f64, (*shape, 2))
    columns = [e.emit("reshape", [e.emit(name, op.operands, TensorType(f64, shape))], column) for name in ("real", "imag")]
    parts = e.emit("concatenate", columns, both, dimension=i64_attr(len(shape)))
    bits = Term(e, parts).bitcast(_unsigned_element(64))
    halves = [word.converted(_unsigned_element(32)).bitcast(f32).value for word in (bits, bits >> 32)]
    e.replace(e.emit("complex", halves, op.results[0].type))


def _join_complex(e: Expansion, op: Operation) -> None:
    """2 x complex<f32> → complex<f64>: the first has the halves of the real part."""
    shape = as_tensor(op.operands[0].type).get_shape()
    words = [Term(e, e.emit(name, op.operands, TensorType(f32, shape))) for name in ("real", "imag")]
    low, high = (word.bitcast(_unsigned_element(32)).converted(_unsigned_element(64)) for word in words)
    doubles = (low | (high << 32)).bitcast(f64).value
    parts = [e.emit("reshape", [_element(e, doubles, j)], TensorType(f64, shape[:-1])) for j in range(2)]
    e.replace(e.emit("complex", parts, op.results[0].type))
