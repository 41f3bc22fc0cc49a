"""How the matrix engine sums, bit for bit.

Floats: acc starts at zero or the partial sum, and for each block of 16 along K, in order, acc = RZ(acc + s), where RZ rounds
toward zero to FP32 and s is the sum of the block. For BF16 and TF32 s = RZ(a*b) of the first product, then s = RZ(s + a*b) with the
product exact; for FP16 exact products are summed in FP64, each addition to nearest even, and s = RZ of that. The last block is
filled with zeros. The result is acc, rounded to nearest even into its format. INT8 sums are exact and wrap at 32 bits.

`_chain` is the definition for all floats. Where the host can round toward zero it sums what is finite, with the same bits.
"""

from functools import partial

import numpy as np

from hlo2tx8.device.arithmetic import float_rules
from hlo2tx8.device.arithmetic.rounding_mode import can_round_toward_zero, toward_zero
from hlo2tx8.device.formats import Format

BLOCK = 16
CHUNK_ELEMENTS = 1 << 14  # results computed at once, so that intermediates stay in cache
LARGEST, LEAST = 2.0**126, 2.0**-120
"""Products that FP32 has exactly are zero or between these: no exponent is too large, and no bit is below FP32's least number."""


def accumulate(left: np.ndarray, right: np.ndarray, psum: np.ndarray | None, fmt: Format) -> np.ndarray:
    """The partial sums, float32 or int32 [M, N], of left [M, K] and right [N, K] in a format, on top of psum if there is one."""
    if fmt is Format.INT8:
        return _integer_sums(left, right, psum)
    filled = -left.shape[1] % BLOCK
    a = np.pad(_exact(left, fmt), ((0, 0), (0, filled)))
    b = np.ascontiguousarray(np.pad(_exact(right, fmt), ((0, 0), (0, filled))).T)
    acc = np.zeros((len(left), len(right)), np.float32) if psum is None else psum.astype(np.float32)
    rows = max(1, CHUNK_ELEMENTS // max(1, len(right)))
    if can_round_toward_zero() and all(np.isfinite(x).all() for x in (a, b, acc)):
        chain = _halves_on_host if fmt is Format.FP16 else _chain_on_host
        if fmt is not Format.FP16 and _are_exact_in_fp32(a, b):
            a, b = a.astype(np.float32), b.astype(np.float32)
    else:
        chain = partial(_chain, is_cut=fmt is not Format.FP16)
    for at in range(0, len(acc), rows):
        acc[at : at + rows] = chain(a[at : at + rows], b, acc[at : at + rows])
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


def _chain(a: np.ndarray, b: np.ndarray, acc: np.ndarray, is_cut: bool) -> np.ndarray:
    """acc [M, N] after all blocks of a [M, K] and b [K, N], float64; is each sum inside of a block cut?"""
    acc = acc.astype(np.float64)
    for start in range(0, len(b), BLOCK):
        s = a[:, start, None] * b[start]
        if is_cut:
            s = _toward_zero(s)
        for k in range(start + 1, start + BLOCK):
            product = a[:, k, None] * b[k]
            s = _add_toward_zero(s, product) if is_cut else s + product
        acc = _add_toward_zero(acc, s if is_cut else _toward_zero(s))
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


def _are_exact_in_fp32(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether FP32 has each product of two numbers."""
    (least_a, most_a), (least_b, most_b) = (_extent(x) for x in (a, b))
    return least_a * least_b >= LEAST and most_a * most_b <= LARGEST


def _extent(x: np.ndarray) -> tuple[float, float]:
    """The least size of a number other than zero, and the greatest: of none infinity and zero."""
    sizes = np.abs(x)
    return float(sizes.min(initial=np.inf, where=sizes != 0)), float(sizes.max(initial=0.0))


def _chain_on_host(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """As `_chain`, of finite numbers: in FP32 if it has the products, else each sum is cut in FP64 first, then to FP32."""
    columns = np.ascontiguousarray(a.T)[:, :, None]
    with toward_zero(), np.errstate(over="ignore"):
        for start in range(0, len(b), BLOCK):
            products = columns[start : start + BLOCK] * b[start : start + BLOCK, None]
            s = products[0].astype(np.float32)
            for product in products[1:]:
                s = (s + product).astype(np.float32, copy=False)
            acc = acc + s
    return acc


def _halves_on_host(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """As `_chain`, of finite FP16 numbers: a block's sum is rounded to nearest even in FP64, then toward zero."""
    columns = np.ascontiguousarray(a.T)[:, :, None]
    for start in range(0, len(b), BLOCK):
        s = columns[start] * b[start]
        for k in range(start + 1, start + BLOCK):
            s += columns[k] * b[k]
        with toward_zero():
            acc = acc + s.astype(np.float32)
    return acc
