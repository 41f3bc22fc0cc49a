"""Element types: between xDSL attributes and numpy/ml_dtypes dtypes, and what kind of number a dtype holds."""

from functools import cache
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import ComplexType, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute

from hlo2tx8.errors import CompileError

DType = np.dtype[Any]

_NUMPY_FLOATS: tuple[tuple[str, str], ...] = (("f16", "float16"), ("f32", "float32"), ("f64", "float64"))
_SMALL_FLOATS: tuple[tuple[str, str, type[Attribute]], ...] = (
    ("bf16", "bfloat16", builtin.BFloat16Type),
    ("f8E3M4", "float8_e3m4", builtin.Float8E3M4Type),
    ("f8E4M3", "float8_e4m3", builtin.Float8E4M3Type),
    ("f8E4M3FN", "float8_e4m3fn", builtin.Float8E4M3FNType),
    ("f8E4M3FNUZ", "float8_e4m3fnuz", builtin.Float8E4M3FNUZType),
    ("f8E4M3B11FNUZ", "float8_e4m3b11fnuz", builtin.Float8E4M3B11FNUZType),
    ("f8E5M2", "float8_e5m2", builtin.Float8E5M2Type),
    ("f8E5M2FNUZ", "float8_e5m2fnuz", builtin.Float8E5M2FNUZType),
    ("f8E8M0FNU", "float8_e8m0fnu", builtin.Float8E8M0FNUType),
    ("f4E2M1FN", "float4_e2m1fn", builtin.Float4E2M1FNType),
    ("f6E2M3FN", "float6_e2m3fn", builtin.Float6E2M3FNType),
    ("f6E3M2FN", "float6_e3m2fn", builtin.Float6E3M2FNType),
)
"""MLIR's word, the dtype name, the type attribute."""
_NARROW_FLOATS = tuple(attribute for word, _, attribute in _SMALL_FLOATS if word != "bf16")
_SUB_BYTE = ("int2", "int4", "uint2", "uint4")
_F6 = ("float6_e2m3fn", "float6_e3m2fn")


def dtype(name: str) -> DType:
    """The dtype of that numpy or ml_dtypes name: "bfloat16", "int4", "bool", "complex64"."""
    return np.dtype(getattr(ml_dtypes, name, name))


@cache
def numpy_dtype(type_: Attribute) -> DType:
    """The dtype arrays of that element type have; CompileError E1001 where there is none."""
    match type_:
        case IntegerType():
            width, unsigned = type_.width.data, type_.signedness.data is Signedness.UNSIGNED
            if width == 1:
                return np.dtype(bool)
            if width in (2, 4, 8, 16, 32, 64):
                return dtype(f"{'u' * unsigned}int{width}")
        case IndexType():
            return np.dtype(np.int64)
        case ComplexType():
            part = numpy_dtype(type_.element_type)
            if part.itemsize in (4, 8):
                return np.dtype(f"complex{16 * part.itemsize}")
        case builtin.Float16Type():
            return np.dtype(np.float16)
        case builtin.Float32Type():
            return np.dtype(np.float32)
        case builtin.Float64Type():
            return np.dtype(np.float64)
        case _:
            for _, name, attribute in _SMALL_FLOATS:
                if isinstance(type_, attribute):
                    return dtype(name)
    raise CompileError("E1001", f"no element type {type_}")


@cache
def element_type(dtype_: DType) -> Attribute:
    """The element type of a dtype; signed integers are signless, bool is i1. CompileError E1001 where there is none."""
    name = dtype_.name
    if name == "bool":
        return builtin.i1
    if dtype_.kind == "c":
        part = element_type(np.dtype(f"float{4 * dtype_.itemsize}"))
        assert isinstance(part, (builtin.Float32Type, builtin.Float64Type))
        return ComplexType(part)
    floats = {"float16": builtin.f16, "float32": builtin.f32, "float64": builtin.f64}
    if name in floats:
        return floats[name]
    for _, small, attribute in _SMALL_FLOATS:
        if small == name:
            return attribute()
    if is_integer(dtype_):
        return IntegerType(bit_width(dtype_), Signedness.UNSIGNED if is_unsigned(dtype_) else Signedness.SIGNLESS)
    raise CompileError("E1001", f"no element type for arrays of {name}")


def mlir_name(dtype_: DType) -> str:
    """The dtype as StableHLO text writes it: f32, bf16, i4, ui8, i1, complex<f32>, f8E4M3FN."""
    name = dtype_.name
    if name == "bool":
        return "i1"
    if dtype_.kind == "c":
        return f"complex<f{4 * dtype_.itemsize}>"
    if is_integer(dtype_):
        return f"{'u' * is_unsigned(dtype_)}i{bit_width(dtype_)}"
    words = {dtype_name: word for word, dtype_name, _ in _SMALL_FLOATS} | {n: w for w, n in _NUMPY_FLOATS}
    return words[name]


@cache
def is_float(dtype_: DType) -> bool:
    """Is it a real float, of any width?"""
    return dtype_.kind == "f" or dtype_.name.startswith(("bfloat", "float"))


def is_complex(dtype_: DType) -> bool:
    """True for a complex dtype."""
    return dtype_.kind == "c"


@cache
def is_integer(dtype_: DType) -> bool:
    """Is it an integer (pred is none)?"""
    return dtype_.kind in "iu" or dtype_.name in _SUB_BYTE


@cache
def is_unsigned(dtype_: DType) -> bool:
    """True for an unsigned integer dtype."""
    return dtype_.kind == "u" or dtype_.name.startswith("uint")


def is_narrow_element(element: Attribute) -> bool:
    """True for f8, f6, f4 and integers of 2 or 4 bits: each is kept in a byte, and no instruction computes with it."""
    if isinstance(element, IntegerType):
        return cast(IntegerType, element).width.data in (2, 4)
    return isinstance(element, _NARROW_FLOATS)


def is_pred(dtype_: DType) -> bool:
    """True for bool."""
    return dtype_.kind == "b"


@cache
def bit_width(dtype_: DType) -> int:
    """Bits of one element by type: 4 for int4 although numpy keeps a byte, 1 for pred."""
    name = dtype_.name
    if name == "bool":
        return 1
    if name in _F6:
        return 6
    if name in (*_SUB_BYTE, "float4_e2m1fn"):
        return 4 if "4" in name else 2
    return 8 * dtype_.itemsize


@cache
def mantissa_bits(dtype_: DType) -> int:
    """Stored bits of the significand of a real float dtype."""
    return int(cast(Any, ml_dtypes).finfo(dtype_).nmant)


@cache
def float_info(dtype_: DType) -> Any:
    """finfo of a float dtype, or of the parts of a complex one: nmant, max, smallest_normal."""
    return cast(Any, ml_dtypes).finfo(dtype(f"float{4 * dtype_.itemsize}") if is_complex(dtype_) else dtype_)


@cache
def epsilon(dtype_: DType) -> float:
    """Spacing of a float or complex dtype's numbers at 1; 0 for integers and pred."""
    return 2.0 ** -int(float_info(dtype_).nmant) if is_float(dtype_) or is_complex(dtype_) else 0.0


@cache
def integer_limits(dtype_: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer dtype."""
    bits = bit_width(dtype_)
    return (0, (1 << bits) - 1) if is_unsigned(dtype_) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@cache
def significant_bits(dtype_: DType) -> int:
    """Bits of the largest significand of a real dtype, with the one that floats do not store; without the sign."""
    if is_float(dtype_):
        return mantissa_bits(dtype_) + 1
    return bit_width(dtype_) - (is_integer(dtype_) and not is_unsigned(dtype_))


@cache
def holds_all(wide: DType, narrow: DType) -> bool:
    """True if dtype `wide` has every value of dtype `narrow`, both real; infinities and NaN count as values of every float."""
    if is_complex(wide) or is_complex(narrow) or is_pred(wide):
        return wide == narrow
    if is_float(narrow):
        if not is_float(wide):
            return False
        a, b = (cast(Any, ml_dtypes).finfo(dtype_) for dtype_ in (wide, narrow))
        return bool(a.nmant >= b.nmant and a.minexp <= b.minexp and a.maxexp >= b.maxexp)
    digits = significant_bits(narrow)
    if is_float(wide):
        return digits <= min(significant_bits(wide), int(cast(Any, ml_dtypes).finfo(wide).maxexp))
    return integer_limits(wide)[1] >= (1 << digits) - 1 and (is_unsigned(narrow) or is_pred(narrow) or not is_unsigned(wide))
