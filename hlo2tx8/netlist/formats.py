"""Data formats: how many bits, and what float32 values become in them. Rounding is by whole arrays, of any shape.

Arrays are numpy's, or those of a function that is traced with jax: what is computed here for the host, chips compute too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hlo2tx8.netlist.fields import Place, means, refuse_name, text
from hlo2tx8.netlist.tree import Node

Array: TypeAlias = NDArray[Any]
Family: TypeAlias = Literal["float", "small", "block", "int", "raw"]
BLOCK = 16
"""Elements of a row that share an exponent."""
LEAST = 2.0**-126
"""What is smaller is 0 in every format but Float32."""

TILE_HEADER = 16
_BYTES = {"Float32": 4, "Tf32": 4, "Int32": 4, "RawUInt32": 4, "Int8": 1, "UInt8": 1, "RawUInt8": 1, "Lf8": 1, "Fp8_e4m3": 1}
"""Of an element of a format that is no block format, if not 2."""


@dataclass(frozen=True)
class Format:
    """`family` says which rule rounds; `bits` are those of the fraction, of a block's mantissa, or of an integer.

    A format is `wide` if its exponent has 8 bits, as those called _b.
    """

    name: str
    family: Family
    bits: int
    wide: bool = True
    bias: int = 127

    @property
    def is_integer(self) -> bool:
        return self.family in ("int", "raw")


_ALL = (
    Format("Float32", "float", 23),
    Format("Tf32", "float", 10),
    Format("Float16_b", "float", 7),
    Format("Float16", "small", 10, wide=False, bias=15),
    Format("Lf8", "small", 2, wide=False, bias=15),
    Format("Fp8_e4m3", "small", 3, wide=False, bias=7),
    *(Format(f"Bfp{n}{b}", "block", m, bool(b)) for n, m in ((8, 7), (4, 3), (2, 1)) for b in ("", "_b")),
    *(Format(f"Int{n}", "int", n - 1) for n in (8, 32)),
    *(Format(f"UInt{n}", "int", n) for n in (8, 16)),
    *(Format(f"RawUInt{n}", "raw", n) for n in (8, 16, 32)),
)
FORMATS: Mapping[str, Format] = {format.name: format for format in _ALL}
FLOATS = ("Float32", "Float16_b", "Float16")
"""Formats that netlists have for floats of 32 and 16 bits."""
IN_NETLISTS = tuple(name for name in FORMATS if name != "Tf32")


def xp(array: Array) -> Any:
    """The module of functions for an array: numpy, or jax.numpy for one of a traced function."""
    return array.__array_namespace__()


def is_known(array: Array) -> bool:
    """Are there values? An array of a traced function has none."""
    return xp(array) is np


@means({"enum": list(IN_NETLISTS)})
def data_format(node: Node, place: Place) -> Format:
    """The format of a name."""
    if (word := text(node, place)) not in IN_NETLISTS:
        refuse_name(word, IN_NETLISTS, "data format", place, node.line)
    return FORMATS[word]


def round_to(values: Array, format: Format) -> Array:
    """Values [..., columns] in a format, as float32; raw integers stay as they are. Columns of block formats are whole blocks."""
    match format.family:
        case "raw":
            return values
        case "float":
            return _cut(values.astype(np.float32, copy=False), 23 - format.bits)
        case "small":
            return _round_small(values.astype(np.float32, copy=False), format)
        case "int":
            return _round_integer(values, format)
        case "block":
            return of_blocks(*to_blocks(values, format), format)


def _cut(values: Array, bits: int) -> Array:
    """Without the lowest bits of the fraction; a NaN stays one."""
    if not bits:
        return values
    cut = (values.view(np.uint32) & np.uint32((0xFFFFFFFF << bits) & 0xFFFFFFFF)).view(np.float32)
    return xp(values).where(xp(values).isnan(values), np.float32(np.nan), cut)


def _round_small(values: Array, format: Format) -> Array:
    """Truncated; no infinities, no NaNs, no subnormals: what is too large is the largest, what is too small is 0 of that sign."""
    n = xp(values)
    exponent = ((values.view(np.uint32) >> 23) & 0xFF).astype(np.int32) - 127
    top = (1 << (5 if format.bias == 15 else 4)) - 1 - format.bias  # the exponent of all ones is an ordinary one
    largest = np.float32(2.0**top * (2 - 2.0**-format.bits))
    cut = _cut(n.where(n.isfinite(values), values, np.float32(0)), 23 - format.bits)
    sized = n.where(exponent > top, largest, n.where(exponent <= -format.bias, np.float32(0), n.abs(cut)))
    return n.copysign(sized, values).astype(np.float32)


def _round_integer(values: Array, format: Format) -> Array:
    """Half away from zero and clamped; positive Int32 are truncated. NaN is 0."""
    n = xp(values)
    size, highest = n.abs(values), 2.0**format.bits - 1
    whole = n.floor(size)
    goes_up = size - whole >= 0.5  # exact, where size + 0.5 is not
    if format.name == "Int32":
        goes_up = goes_up & (values < 0)
    away = n.where(goes_up, whole + 1, whole)
    signed = n.where(values < 0, -away, n.where(values >= 0, away, 0))
    return (n.clip(signed, 0.0 if format.name.startswith("U") else -highest, highest) + 0.0).astype(np.float32)


def to_blocks(values: Array, format: Format) -> tuple[Array, Array]:
    """Values [..., columns] as the bytes of a block format: exponents [..., columns / 16], one, the largest, for each 16 values of
    a row; and [..., columns] signs over mantissas, which are rounded half up in magnitude and never carry.
    """
    n, top = xp(values), (1 << format.bits) - 1
    blocks = values.astype(np.float32, copy=False).reshape(*values.shape[:-1], -1, BLOCK)
    size = n.where(n.abs(blocks) < LEAST, np.float32(0), n.abs(blocks))
    if not format.wide:  # the smallest have the least exponent, and no other fraction than 1
        size = n.where((size > 0) & (size < 2.0**-15), np.float32(2.0**-15), size)
    bias = _bias(format)
    largest = size.max(axis=-1)
    shared = n.clip((largest.view(np.uint32) >> 23).astype(np.int32) - (127 - bias), 0, 255 if format.wide else 31)
    first, second = _powers(bias + format.bits - 1 - shared)
    scaled = size * first[..., None] * second[..., None]  # all that is in the mantissa
    whole = n.floor(scaled)
    rounded = n.where(scaled - whole >= 0.5, whole + 1, whole)
    rounded = n.where(scaled < top - 0.5, rounded, np.float32(top))
    signed = n.where((blocks < 0) & (rounded > 0), rounded + np.float32(top + 1), rounded)
    return shared.astype(np.uint8), signed.reshape(values.shape).astype(np.uint8)


def of_blocks(exponents: Array, signed: Array, format: Format) -> Array:
    """The float32 values of the bytes of a block format; see `to_blocks`."""
    n, sign = xp(signed), np.float32(1 << format.bits)
    blocks = signed.reshape(*signed.shape[:-1], -1, BLOCK).astype(np.float32)
    first, second = _powers(n.minimum(exponents.astype(np.int32) - (_bias(format) + format.bits - 1), 127))
    made = n.where(blocks >= sign, sign - blocks, blocks) * (first * second)[..., None]
    return made.reshape(signed.shape)


def _bias(format: Format) -> int:
    return 127 if format.wide else 15


def _powers(exponent: Array) -> tuple[Array, Array]:
    """Two float32 whose product is 2 to that power; one alone might be no normal number."""
    half = exponent >> 1
    return (half + 127 << 23).view(np.float32), (exponent - half + 127 << 23).view(np.float32)


def to_host(values: Array, format: Format) -> Array:
    """What the host reads: a-formats as Float16, b-formats as Float16_b, integers as such."""
    if format.family == "int":
        return _round_integer(values, format)
    if format.family == "raw" or format.name == "Float32":
        return values
    return round_to(values, FORMATS["Float16_b" if format.wide else "Float16"])


def tile_bytes(format: Format, tile_dim: tuple[int, int], align: int = 32, *, has_header: bool = True) -> int:
    """Of a tile in memory: a header, exponents that blocks share, elements; a multiple of `align`."""
    count = tile_dim[0] * tile_dim[1]
    data = count * _BYTES.get(format.name, 2)
    if format.family == "block":
        data = max(BLOCK, count // BLOCK) + count * (format.bits + 1) // 8
    return -(-(data + TILE_HEADER * has_header) // align) * align
