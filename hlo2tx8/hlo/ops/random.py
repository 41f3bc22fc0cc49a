"""rng_bit_generator: Threefry-2x32 and Philox-4x32 in counter mode, with XLA's order of words and states."""

from math import prod

import numpy as np

from hlo2tx8.hlo.ops.convert import bitcast_convert
from hlo2tx8.hlo.spec import Array, Attributes, Kind, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import bit_width, dtype

U32, U64 = np.uint32, np.uint64


def threefry(key: int, blocks: Array) -> Array:
    """uint32 [blocks, 2]: twenty rounds on the halves of each block's number."""
    words = [blocks.astype(U32), (blocks >> U64(32)).astype(U32)]
    keys = [U32(key & 0xFFFFFFFF), U32(key >> 32)]
    keys.append(keys[0] ^ keys[1] ^ U32(0x1BD11BDA))
    words = [w + k for w, k in zip(words, keys, strict=False)]
    for number in range(20):
        rotation = U32((13, 15, 26, 6, 17, 29, 16, 24)[number % 8])
        words[0] = words[0] + words[1]
        words[1] = words[0] ^ ((words[1] << rotation) | (words[1] >> (U32(32) - rotation)))
        if number % 4 == 3:
            turn = number // 4 + 1
            words = [words[0] + keys[turn % 3], words[1] + keys[(turn + 1) % 3] + U32(turn)]
    return np.stack(words, -1)


def philox(key: int, low: Array, high: Array) -> Array:
    """uint32 [blocks, 4]: ten rounds on the words of each block's 128-bit number."""
    mask = U64(0xFFFFFFFF)
    words = [low & mask, low >> U64(32), high & mask, high >> U64(32)]
    first, second = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        products = words[0] * U64(0xD2511F53), words[2] * U64(0xCD9E8D57)
        words = [
            (products[1] >> U64(32)) ^ words[1] ^ U64(first),
            products[1] & mask,
            (products[0] >> U64(32)) ^ words[3] ^ U64(second),
            products[0] & mask,
        ]
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(words, -1).astype(U32)


def rng_bit_generator(attributes: Attributes, results: tuple[TensorLike, ...], state: Array) -> tuple[Array, Array]:
    """The new state and random bits as elements of the second result."""
    result = results[1]
    if 0 in result.shape:
        return state, np.zeros(result.shape, result.dtype)
    with np.errstate(over="ignore"):
        if attributes["rng_algorithm"] == "THREE_FRY":
            bits, new = _threefry_bits(state, result)
        else:
            bits, new = _philox_bits(state, result)
    width = bit_width(result.dtype)
    kept = (bits & bits.dtype.type((1 << width) - 1)).astype(dtype(f"uint{width}"))
    return new, bitcast_convert({}, result, kept)


def _philox_bits(state: Array, result: TensorLike) -> tuple[Array, Array]:
    wide = bit_width(result.dtype) == 64
    count = -(-prod(result.shape) // (2 if wide else 4))
    key, low, high = int(state[0]), int(state[1]), int(state[2] if state.size > 2 else state[0])
    ends = (U64(low) + np.arange(count, dtype=U64)).astype(U64)
    above = np.where(ends < U64(low), U64((high + 1) % 2**64), U64(high))
    words = philox(key, ends, above).reshape(-1)
    after = (high << 64) + low + count
    rest = [after % 2**64, (after >> 64) % 2**64][: state.size - 1]
    flat = words.view(U64) if wide else words
    return flat[: prod(result.shape)].reshape(result.shape), np.array([key, *rest], U64)


def _threefry_bits(state: Array, result: TensorLike) -> tuple[Array, Array]:
    shape, (key, counter) = result.shape, (int(state[0]), state[1])
    even = [d for d, n in enumerate(shape) if n % 2 == 0]
    split = even[0] if even else int(np.argmax(shape)) if shape else 0
    is_wide = bit_width(result.dtype) == 64
    half = [-(-n // 2) if d == split and not is_wide else n for d, n in enumerate(shape)]
    count = prod(half)
    words = threefry(key, counter + np.arange(count, dtype=U64))
    new = np.array([state[0], counter + U64(count)], U64)
    if is_wide:
        return words.view(U64).reshape(shape), new
    if not shape:
        return words[0, 0].reshape(()), new
    pairs = np.moveaxis(words.reshape(*half, 2), -1, split + 1)
    whole = pairs.reshape([2 * n if d == split else n for d, n in enumerate(half)])
    return whole[tuple(slice(n) for n in shape)], new


def _samples() -> tuple[Sample, ...]:
    short, long = (TensorLike((size,), np.dtype(U64)) for size in (2, 3))
    cases = [(short, a, n) for a in ("THREE_FRY", "PHILOX", "DEFAULT") for n in ("uint32", "int64", "uint8")]
    cases += [(long, a, "uint32") for a in ("PHILOX", "DEFAULT")]
    return tuple(Sample((s,), (s, TensorLike((3, 4), dtype(name))), {"rng_algorithm": a}) for s, a, name in cases)


SPECS = (
    OpSpec("stablehlo.rng_bit_generator", Kind.HERO, rng_bit_generator, samples=_samples),
    OpSpec("stablehlo.rng", Kind.HERO),
)
