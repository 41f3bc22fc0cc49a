"""Pass expand-random: random bits and numbers become integer arithmetic on the numbers of the elements.

rng_bit_generator is numbered blocks through the Threefry-2x32 or Philox-4x32 cipher, as XLA defines them; rng is made of such bits.

THREE_FRY          block i = cipher(key, counter + i) gives two words: neighbours along the first even dimension, or the halves of
                   an element of 64 bits
PHILOX, DEFAULT    block i = cipher(key, counter + i) gives four words: elements in order, or halves of them

The state is [key, counter] in 64-bit words, for Philox with three of them [key, low, high]; the new one counts on. rng has no
state: each op of a program draws from a stream of its own, the same in every run and every turn of a loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.formula import Term
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects.hlo import LiteralAttr, origin
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.errors import CompileError
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.signature import port_of
from hlo2tx8.hlo.types import bit_width, is_float, is_unsigned, mantissa_bits, numpy_dtype
from hlo2tx8.ir import i64_attr

Shape = Sequence[int]

WORD, LONG = (IntegerType(width, Signedness.UNSIGNED) for width in (32, 64))
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
STATE_WORDS = {"THREE_FRY": (2,), "PHILOX": (2, 3), "DEFAULT": (2, 3)}
"""Sizes of a state."""
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True)
class ExpandRandomPass(ModulePass):
    """Rewrites rng_bit_generator and rng; CompileError E1001 or E1002 for a type or state it has not. See the module docstring."""

    name = "expand-random"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.rng_bit_generator": _rng_bit_generator, "stablehlo.rng": _rng})


class _Bits(Expansion):
    """Random bits in front of an op."""

    def element(self, state: SSAValue, number: int) -> Term:
        """One word of a state, as a scalar."""
        bounds = {"start_indices": int_array([number]), "limit_indices": int_array([number + 1]), "strides": int_array([1])}
        one = self.emit("slice", [state], TensorType(LONG, [1]), **bounds)
        return Term(self, self.emit("reshape", [one], TensorType(LONG, [])))

    def state(self, words: Sequence[Term], like: SSAValue) -> SSAValue:
        """The words, scalars, as a state tensor like `like`."""
        rows = [self.emit("reshape", [word.value], TensorType(LONG, [1])) for word in words]
        return self.emit("concatenate", rows, like.type, dimension=i64_attr(0))

    def spread(self, word: Term, shape: Shape) -> Term:
        everywhere = self.emit("broadcast_in_dim", [word.value], self.like(word.value, shape), broadcast_dimensions=int_array([]))
        return Term(self, everywhere)

    def numbers(self, count: int) -> Term:
        return Term(self, self.emit("iota", [], TensorType(LONG, [count]), iota_dimension=i64_attr(0)))

    def interleaved(self, parts: Sequence[Term], size: int) -> SSAValue:
        """The elements of the parts taken in turn, as many as `size`."""
        count = as_tensor(parts[0].value.type).get_shape()[0]
        columns = [self.emit("reshape", [part.value], self.like(part.value, (count, 1))) for part in parts]
        rows = self.emit("concatenate", columns, self.like(columns[0], (count, len(parts))), dimension=i64_attr(1))
        flat = self.emit("reshape", [rows], self.like(rows, (count * len(parts),)))
        bounds = {"start_indices": int_array([0]), "limit_indices": int_array([size]), "strides": int_array([1])}
        return self.emit("slice", [flat], self.like(flat, (size,)), **bounds)

    def philox(self, state: SSAValue, shape: Shape, width: int) -> tuple[SSAValue, SSAValue]:
        """(random unsigned integers of 32 or 64 bits, the new state), by Philox-4x32."""
        has_high = as_tensor(state.type).get_shape()[0] >= 3
        key, size = self.element(state, 0), prod(shape)
        low, high = self.element(state, 1), self.element(state, 2) if has_high else key
        count = -(-size * width // 128)
        place = self.spread(low, (count,)) + self.numbers(count)
        carried = self._carried(self.spread(high, (count,)), place, self.spread(low, (count,)))
        words = [half for long in (place, carried) for half in halves(long)]
        found = _philox_rounds(words, [self.spread(half, (count,)) for half in halves(key)])
        if width == 64:
            found = [_joined(*found[:2]), _joined(*found[2:])]
        flat = self.interleaved(found, size)
        after = low + count
        rest = [after, self._carried(high, after, low)] if has_high else [after]
        return self.emit("reshape", [flat], self.like(flat, shape)), self.state([key, *rest], state)

    @staticmethod
    def _carried(high: Term, total: Term, low: Term) -> Term:
        return (total < low).choose(high + 1, high)

    def threefry(self, state: SSAValue, shape: Shape, width: int) -> tuple[SSAValue, SSAValue]:
        """(random unsigned integers of 32 or 64 bits, the new state), by Threefry-2x32."""
        key, counter = self.element(state, 0), self.element(state, 1)
        split = _split_dim(shape)
        half = [-(-n // 2) if d == split else n for d, n in enumerate(shape)] if width == 32 else list(shape)
        count = prod(half)
        place = self.spread(counter, (count,)) + self.numbers(count)
        a, b = _threefry_rounds(halves(place), [self.spread(word, (count,)) for word in halves(key)])
        new = self.state([key, counter + count], state)
        if width == 64:
            long = _joined(a, b)
            return self.emit("reshape", [long.value], self.like(long.value, shape)), new
        if not shape:
            return self.emit("reshape", [a.value], self.like(a.value, ())), new
        pair = [*half[: split + 1], 1, *half[split + 1 :]]
        columns = [self.emit("reshape", [word.value], self.like(word.value, pair)) for word in (a, b)]
        pair[split + 1] = 2
        both = self.emit("concatenate", columns, self.like(columns[0], pair), dimension=i64_attr(split + 1))
        whole = [2 * n if d == split else n for d, n in enumerate(half)]
        found = self.emit("reshape", [both], self.like(both, whole))
        bounds = {"start_indices": int_array([0] * len(shape)), "limit_indices": int_array(shape)}
        strides = int_array([1] * len(shape))
        return self.emit("slice", [found], self.like(found, shape), **bounds, strides=strides), new


def halves(long: Term) -> list[Term]:
    """The lower and the upper word of each 64-bit element."""
    return [long.converted(WORD), (long >> 32).converted(WORD)]


def _joined(low: Term, high: Term) -> Term:
    return low.converted(LONG) | (high.converted(LONG) << 32)


def _split_dim(shape: Shape) -> int:
    """The first even dimension, else the first of the largest ones."""
    even = [d for d, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else max(range(len(shape)), key=lambda d: (shape[d], -d), default=0)


def _threefry_rounds(words: Sequence[Term], key: Sequence[Term]) -> tuple[Term, Term]:
    """Twenty rounds of additions, rotations and exclusive ors; after each four a part of the key and the number of it."""
    keys = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    a, b = words[0] + keys[0], words[1] + keys[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            a = a + b
            b = a ^ ((b << rotation) | (b >> (32 - rotation)))
        a, b = a + keys[(block + 1) % 3], b + keys[(block + 2) % 3] + (block + 1)
    return a, b


def _philox_rounds(words: Sequence[Term], key: Sequence[Term]) -> list[Term]:
    """Ten rounds of products of twice the width, whose halves change places, and exclusive ors."""
    (a, b, c, d), (k, m) = words, key
    for _ in range(10):
        (low0, high0), (low1, high1) = (halves(x.converted(LONG) * f) for x, f in zip((a, c), PHILOX_FACTORS, strict=True))
        a, b, c, d = high1 ^ b ^ k, low1, high0 ^ d ^ m, low0
        k, m = k + PHILOX_STEPS[0], m + PHILOX_STEPS[1]
    return [a, b, c, d]


def _rng_bit_generator(op: Operation) -> None:
    e, (state,), result = _Bits(op), op.operands, tensor_like(op.results[1].type)
    algorithm, width = str(attributes_of(op)["rng_algorithm"]), bit_width(result.dtype)
    kept = tensor_like(state.type)
    if len(kept.shape) != 1 or kept.shape[0] not in STATE_WORDS[algorithm] or kept.dtype.name not in ("uint64", "int64"):
        possible = " or ".join(map(str, STATE_WORDS[algorithm]))
        message = f"{algorithm} keeps its state in {possible} words of 64 bits, not in {port_of(state.type)}"
        raise CompileError("E1002", message, origin=origin(op))
    if 0 in result.shape:
        e.replace(state, e.splat(0, as_tensor(op.results[1].type)))
        return
    draw = e.threefry if algorithm == "THREE_FRY" else e.philox
    bits, new = draw(state, result.shape, max(width, 32))
    e.replace(new, _typed(e, bits, as_tensor(op.results[1].type)))


def _typed(e: _Bits, bits: SSAValue, type_: TensorType[Attribute]) -> SSAValue:
    """The lowest bits as elements of that type."""
    kind = numpy_dtype(type_.element_type)
    unsigned = TensorType(IntegerType(bit_width(kind), Signedness.UNSIGNED), type_.get_shape())
    cut = bits if bits.type == unsigned else e.emit("convert", [bits], unsigned)
    return cut if unsigned == type_ else e.emit("bitcast_convert", [cut], type_)


def _rng(op: Operation) -> None:
    """UNIFORM: low + (high - low) u, u in [0, 1); integers low + bits mod (high - low). NORMAL: mean + deviation n, Box-Muller."""
    e, type_ = _Bits(op), as_tensor(op.results[0].type)
    result = tensor_like(type_)
    if not is_float(result.dtype) and bit_width(result.dtype) < 8:
        raise CompileError("E1001", f"rng of {result} is not supported")
    low, high = (e.spread(Term(e, value), result.shape) for value in op.operands[:2])
    if 0 in result.shape:
        e.replace(low.value)
    elif str(attributes_of(op)["rng_distribution"]) == "NORMAL":
        first, second = (_fractions(e, type_, stream) for stream in range(2))
        radius = ((1.0 - first).call("log") * -2.0).call("sqrt")
        e.replace((low + high * radius * (second * (2 * np.pi)).call("cosine")).value)
    elif is_float(result.dtype):
        e.replace((low + (high - low) * _fractions(e, type_, 0)).value)
    else:
        e.replace(_integers(e, type_, low, high).value)


def _integers(e: _Bits, type_: TensorType[Attribute], low: Term, high: Term) -> Term:
    shape, kind = type_.get_shape(), numpy_dtype(type_.element_type)
    unsigned = TensorType(IntegerType(bit_width(kind), Signedness.UNSIGNED), shape)
    bits = Term(e, _typed(e, _draw(e, shape, max(32, bit_width(kind)), 0), unsigned))
    distance = high - low
    if not is_unsigned(kind):
        distance = Term(e, e.emit("bitcast_convert", [distance.value], unsigned))
    offset = bits.call("remainder", distance)
    return low + (offset if is_unsigned(kind) else Term(e, e.emit("bitcast_convert", [offset.value], type_)))


def _fractions(e: _Bits, type_: TensorType[Attribute], stream: int) -> Term:
    """Numbers in [0, 1) as fine as one in [1, 2) can be."""
    kind = numpy_dtype(type_.element_type)
    width, kept = (64, 52) if kind == np.float64 else (32, mantissa_bits(kind))
    bits = Term(e, _draw(e, type_.get_shape(), width, stream))
    wide = type_.element_type if width == 64 else f32
    return ((bits >> (width - kept)).converted(wide) * 2.0**-kept).converted(type_.element_type)


def _draw(e: _Bits, shape: Shape, width: int, stream: int) -> SSAValue:
    """Philox bits of the op's own stream."""
    block, before = e.op.parent, 0
    assert block is not None
    before = sum(1 for _ in block.walk())  # every expansion adds ops, so no two streams are equal
    seed = LiteralAttr.from_array(np.array([before, stream << 32], np.uint64))
    state = e.emit("constant", [], TensorType(LONG, [2]), value=seed)
    return e.philox(state, shape, width)[0]
