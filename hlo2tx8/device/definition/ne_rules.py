"""How the matrix engine sums, bit for bit.

Floats: acc starts at zero or the partial sum, and for each block of 16 along K, in order, acc = RZ(acc + s), where RZ rounds
toward zero to FP32 and s is the sum of the block. For BF16 and TF32 s = RZ(a*b) of the first product, then s = RZ(s + a*b) with the
product exact; for FP16 exact products are summed in FP64, each addition to nearest even, and s = RZ of that. The last block is
filled with zeros. The result is acc, rounded to nearest even into its format. INT8 sums are exact and wrap at 32 bits.

`_chain` is the definition for all floats. Numbers that are neither huge nor tiny take `_chain_of_ordinary`, with the same bits.
"""

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.formats import Format

BLOCK = 16
CHUNK_ELEMENTS = 1 << 14  # results computed at once, so that intermediates stay in cache
CUT_BITS = 29
"""So many of the last bits of an FP64 number does FP32 not have."""
KEPT = np.uint64(-1 << CUT_BITS & 0xFFFFFFFFFFFFFFFF)
SIGNIFICANT_BITS = {Format.BF16: 8, Format.FP16: 11, Format.TF32: 11}
LARGEST_SUM, LEAST_PRODUCT = 2.0**126, 2.0**-120
"""Between which numbers are ordinary: no sum overflows, and all are multiples of FP32's least number, so tiny ones are exact."""


def accumulate(left: np.ndarray, right: np.ndarray, psum: np.ndarray | None, fmt: Format) -> np.ndarray:
    """The partial sums, float32 or int32 [M, N], of left [M, K] and right [N, K] in a format, on top of psum if there is one."""
    if fmt is Format.INT8:
        return _integer_sums(left, right, psum)
    filled = -left.shape[1] % BLOCK
    a = np.pad(_exact(left, fmt), ((0, 0), (0, filled)))
    b = np.ascontiguousarray(np.pad(_exact(right, fmt), ((0, 0), (0, filled))).T)
    acc = np.zeros((len(left), len(right)), np.float32) if psum is None else psum.astype(np.float32)
    rows = max(1, CHUNK_ELEMENTS // max(1, len(right)))
    chain = _chain_of_ordinary if _are_ordinary(a, b, acc) else _chain
    for at in range(0, len(acc), rows):
        acc[at : at + rows] = chain(a[at : at + rows], b, acc[at : at + rows].astype(np.float64), fmt)
    return acc


def quantise(acc: np.ndarray, q1: int, q2: int, scale: int, zp_out: int) -> np.ndarray:
    """int8 of int32 sums: zp_out + clip9(clip16(acc >> q1) * scale >> q2), saturated."""
    narrow = np.clip(acc.astype(np.int64) >> q1, -(1 << 15), (1 << 15) - 1)
    scaled = np.clip(narrow * scale >> q2, -(1 << 8), (1 << 8) - 1)
    return np.clip(scaled + zp_out, -128, 127).astype(np.int8)


def result(acc: np.ndarray, fmt: Format) -> np.ndarray:
    """Partial sums in the format of the result: floats rounded once, integers saturated."""
    if fmt is Format.INT8:
        return np.clip(acc, -128, 127).astype(np.int8)
    return acc if fmt is Format.INT32 else float_rules.round_to(acc.astype(np.float64), fmt)


def _integer_sums(left: np.ndarray, right: np.ndarray, psum: np.ndarray | None) -> np.ndarray:
    """FP64 holds every sum of int16 products of operands exactly."""
    total = (left.astype(np.float64) @ right.astype(np.float64).T).astype(np.int64)
    return (total if psum is None else total + psum).astype(np.int32)


def _exact(x: np.ndarray, fmt: Format) -> np.ndarray:
    """float64; of TF32 the bits are dropped that the format does not have."""
    if fmt is Format.TF32:
        x = (float_rules.to_bits(x) & np.uint32(-1 << float_rules.TF32_DROPPED_BITS & 0xFFFFFFFF)).view(np.float32)
    return x.astype(np.float64)


def _chain(a: np.ndarray, b: np.ndarray, acc: np.ndarray, fmt: Format) -> np.ndarray:
    """acc [M, N] after all blocks of a [M, K] and b [K, N]; all float64."""
    for start in range(0, len(b), BLOCK):
        s = a[:, start, None] * b[start]
        if fmt is not Format.FP16:
            s = _toward_zero(s)
        for k in range(start + 1, start + BLOCK):
            product = a[:, k, None] * b[k]
            s = s + product if fmt is Format.FP16 else _add_toward_zero(s, product)
        acc = _add_toward_zero(acc, _toward_zero(s) if fmt is Format.FP16 else s)
    return acc


def _add_toward_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """RZ(x + y): the FP64 sum with its error, which TwoSum gives exactly; without it 1 - 2^-60 would round to 1."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    return _toward_zero(total, error)


def _toward_zero(x: np.ndarray, error: np.ndarray | float = 0.0) -> np.ndarray:
    """RZ(x + error) as float64, where |error| is at most half a unit in the last place of x."""
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    beyond = np.abs(back) > np.abs(x)
    beyond |= (back == x) & (((error < 0) & (x > 0)) | ((error > 0) & (x < 0)))
    bits = nearest.view(np.uint32)
    bits -= beyond
    return nearest.astype(np.float64)


def _are_ordinary(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> bool:
    """All finite, and within the limits for sums and products."""
    (least_a, most_a), (least_b, most_b) = (map(float, _extent(x)) for x in (a, b))  # of Python: nothing warns
    largest = len(b) * most_a * most_b + np.abs(acc).max(initial=0.0)
    return bool(largest < LARGEST_SUM and least_a * least_b >= LEAST_PRODUCT)


def _extent(x: np.ndarray, axis: tuple[int, ...] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The least size of a number other than zero, and the greatest: of none infinity and zero."""
    sizes = np.abs(x)
    return sizes.min(axis, initial=np.inf, where=sizes != 0), sizes.max(axis, initial=0.0)


def _are_exact(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """For each block whether FP64 has all its sums, so that cutting them off is to round them toward zero: the greatest is less
    than 2^53 times the value of the last bit of the least product.
    """
    least_a, most_a = _extent(a.reshape(len(a), len(b) // BLOCK, BLOCK), (0, 2))
    least_b, most_b = _extent(b.reshape(len(b) // BLOCK, BLOCK, b.shape[1]), (1, 2))
    return BLOCK * most_a * most_b <= least_a * least_b * 2.0 ** (53 - 2 * SIGNIFICANT_BITS[fmt])


def _chain_of_ordinary(a: np.ndarray, b: np.ndarray, acc: np.ndarray, fmt: Format) -> np.ndarray:
    """As `_chain`, in arrays that are used again; products are exact in FP32."""
    columns, products = np.ascontiguousarray(a.T)[:, :, None], np.empty((BLOCK, *acc.shape))
    s, spare = np.empty_like(acc), np.empty_like(acc)
    for start, is_exact in zip(range(0, len(b), BLOCK), _are_exact(a, b, fmt), strict=True):
        np.multiply(columns[start : start + BLOCK], b[start : start + BLOCK, None], out=products)
        if fmt is Format.FP16:
            np.add(products[0], products[1], out=s)
            for product in products[2:]:
                s += product
            _cut_off(s)
        elif is_exact:
            np.copyto(s, products[0])
            bits = s.view(np.uint64)
            for product in products[1:]:
                s += product
                bits &= KEPT
        else:
            np.copyto(s, products[0])
            for product in products[1:]:
                s, spare = _add_ordinary(s, product, spare), s
        acc, spare = _add_ordinary(acc, s, spare), acc
    return acc


def _add_ordinary(x: np.ndarray, y: np.ndarray, total: np.ndarray) -> np.ndarray:
    """RZ(x + y) of FP32 numbers, in `total`. The FP64 sum is cut off, which is too far from zero only if the sum is one of them,
    since the other is too small, and that one has the other sign.
    """
    np.add(x, y, out=total)
    is_one = total == x
    is_one |= total == y
    bits = _cut_off(total)
    if is_one.any():
        is_one &= x * y < 0
        bits -= is_one.astype(np.uint64) << np.uint64(CUT_BITS)
    return total


def _cut_off(x: np.ndarray) -> np.ndarray:
    """Drops in place the bits that FP32 does not have; gives the bits of all."""
    bits = x.view(np.uint64)
    bits &= KEPT
    return bits
