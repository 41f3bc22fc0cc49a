"""Random inputs for a module that exercise its operations, deterministic by seed.

Floats are normal with a standard deviation of 1 or 4, at most 15, a quarter of them multiples of 1/2, so that there are zeros and
equal numbers; integers half of them small, half over their whole range; pred is fair. What an operation is defined for is kept
where an input reaches it by moves only: logarithms get positive numbers, quotients divisors away from 0, solvers matrices that
are far from singular. Integers that end up as indices are in range, and sorted or unique where a gather or scatter says they are;
those that say how often a loop turns are small. What a sum or product starts with is 0 or 1: how often it comes in is an
implementation's choice.
"""

from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.signature import Port, Signature, dtype_of, port_of
from hlo2tx8.hlo.types import bit_width, float_info, integer_limits
from hlo2tx8.tools.compare import is_inexact

Array = npt.NDArray[Any]
MOVES = ("reshape", "transpose", "convert", "broadcast_in_dim", "copy", "bitcast", "slice", "reverse")
SPREAD = (1.0, 1.0, 1.0, 4.0)
"""Standard deviations of floats, as often as they stand here."""
LARGEST = 15.0
TURNS = 12
"""Numbers that a loop's condition compares with are below this."""


class FloatRange(Enum):
    """Which floats an operation takes."""

    ANY = auto()
    POSITIVE = auto()
    """Powers of 2 from -6 to 6, and what is between."""
    NOT_ZERO = auto()
    """At least 1/8 in size."""
    INSIDE_ONE = auto()
    """Between -1 and 1."""
    ABOVE_ONE = auto()
    """1 to 17."""
    SOLVABLE = auto()
    """Square matrices with a dominant positive diagonal, symmetric."""


DOMAINS: dict[tuple[str, int], FloatRange] = {
    **{(kind, 0): FloatRange.POSITIVE for kind in ("log", "log_plus_one", "sqrt", "rsqrt", "power", "lgamma", "digamma")},
    ("batch_norm_inference", 4): FloatRange.POSITIVE,
    ("batch_norm_grad", 3): FloatRange.POSITIVE,
    ("zeta", 1): FloatRange.POSITIVE,
    ("polygamma", 1): FloatRange.POSITIVE,
    ("divide", 1): FloatRange.NOT_ZERO,
    ("remainder", 1): FloatRange.NOT_ZERO,
    **{(kind, 0): FloatRange.INSIDE_ONE for kind in ("acos", "asin", "atanh", "erf_inv")},
    ("acosh", 0): FloatRange.ABOVE_ONE,
    ("zeta", 0): FloatRange.ABOVE_ONE,
    ("cholesky", 0): FloatRange.SOLVABLE,
    ("triangular_solve", 0): FloatRange.SOLVABLE,
}
"""By the op's name without its dialect and the number of the operand."""


@dataclass(frozen=True)
class Rule:
    """How an input is drawn: indices below `limit`, sorted, or without repeats as its uses need; floats of a domain; or all
    elements equal to `fixed`, the neutral element of a reduction.
    """

    limit: int | None = None
    is_sorted: bool = False
    is_unique: bool = False
    fixed: int | None = None
    domain: FloatRange = FloatRange.ANY

    def join(self, other: "Rule") -> "Rule":
        """The rule for an input that has both uses."""
        limits = [limit for limit in (self.limit, other.limit) if limit is not None]
        fixed = self.fixed if other.fixed is None else other.fixed
        domain = other.domain if self.domain is FloatRange.ANY else self.domain
        is_sorted, is_unique = self.is_sorted or other.is_sorted, self.is_unique or other.is_unique
        return Rule(min(limits) if limits else None, is_sorted, is_unique, fixed, domain)


def random_arguments(
    module: ModuleOp, signature: Signature, rng: np.random.Generator, *, large_floats: bool = False
) -> tuple[Array, ...]:
    """One array per input of @main."""
    rules = [rule_of(arg) for arg in find_main(module).body.block.args]
    return tuple(_fill(p, r, rng, large_floats) for p, r in zip(signature.inputs, rules, strict=True))


def random_array(port: Port, rng: np.random.Generator, *, large_floats: bool = False) -> Array:
    """An array of which no use is known."""
    return _fill(port, Rule(), rng, large_floats)


def rule_of(value: SSAValue, depth: int = 0) -> Rule:
    """The rule that all uses of a value give together, followed through moves and into fusions."""
    rule = Rule()
    for use in value.uses:
        op, index = use.operation, use.index
        kind = op.name.partition(".")[2]
        if kind in MOVES and op.results:
            rule = rule.join(rule_of(op.results[0], depth))
        elif op.name in ("hlo.fusion", "hlo.group") and depth < 8:
            body = op.regions[0].block
            rule = rule.join(rule_of(body.args[index], depth + 1)) if index < len(body.args) else rule
        elif kind == "complex":  # a solver's matrix is real, as its diagonal has to be
            whole = rule_of(op.results[0], depth)
            rule = rule.join(Rule(fixed=0) if index and whole.domain is FloatRange.SOLVABLE else whole)
        elif kind == "while" and depth < 8:
            for region in op.regions:
                rule = rule.join(rule_of(region.block.args[index], depth + 1))
        else:
            rule = rule.join(_index_rule(op, kind, index))
    return rule


def _index_rule(op: Operation, kind: str, index: int) -> Rule:
    match kind:
        case "dynamic_slice" if index >= 1:
            whole, part = _shape(op.operands[0].type), _shape(op.results[0].type)
            return Rule(whole[index - 1] - part[index - 1] + 1)
        case "dynamic_update_slice" if index >= 2:
            whole, part = _shape(op.operands[0].type), _shape(op.operands[1].type)
            return Rule(whole[index - 2] - part[index - 2] + 1)
        case "gather" if index == 1:
            return Rule(min(_shape(op.operands[0].type), default=1), is_sorted=_flag(op, "indices_are_sorted"))
        case "scatter" if index == (len(op.operands) - 1) // 2:
            limit = min(_shape(op.operands[0].type), default=1)
            return Rule(limit, _flag(op, "indices_are_sorted"), _flag(op, "unique_indices"))
        case "reduce" | "reduce_window" if index >= len(op.operands) // 2:
            return Rule(fixed=_neutral(op.regions[0].block))
        case "compare" if _is_condition(op):
            return Rule(TURNS)
        case "shift_left" | "shift_right_arithmetic" | "shift_right_logical" if index == 1:
            return Rule(bit_width(dtype_of(port_of(op.operands[1].type).dtype)) + 2)
        case _:
            return Rule(domain=DOMAINS.get((kind.removeprefix("broadcast_"), index), FloatRange.ANY))


def _is_condition(op: Operation) -> bool:
    """Is it in the condition of a loop?"""
    parent = op.parent_op()
    return parent is not None and parent.name == "stablehlo.while" and op.parent_region() is parent.regions[0]


def _neutral(combiner: Block) -> int | None:
    """What a sum or product starts with; None for other combiners."""
    names = [op.name.partition(".")[2] for op in combiner.ops]
    return {"add": 0, "xor": 0, "multiply": 1}.get(names[0]) if names[1:] == ["return"] else None


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isinstance(type_, TensorType)
    return tuple(type_.get_shape())


def _flag(op: Operation, name: str) -> bool:
    from hlo2tx8.dialects.hlo import decode_attributes

    return bool(decode_attributes(op).get(name, False))


def _fill(port: Port, rule: Rule, rng: np.random.Generator, large_floats: bool) -> Array:
    dtype = dtype_of(port.dtype)
    if rule.fixed is not None:
        return np.full(port.shape, rule.fixed).astype(dtype)
    if rule.limit is not None and not is_inexact(dtype):
        return _indices(port, rule, rng).astype(dtype)
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (_floats(port.shape, half, rule.domain, rng, large_floats) for _ in range(2))
        return (real + 1j * imaginary).astype(dtype)
    if is_inexact(dtype):
        return _floats(port.shape, dtype, rule.domain, rng, large_floats)
    return _integers(port.shape, dtype, rng)


def _floats(shape: tuple[int, ...], dtype: np.dtype[Any], domain: FloatRange, rng: np.random.Generator, large: bool) -> Array:
    wide = np.float64 if dtype == np.float64 else np.float32
    if large:
        info = float_info(dtype)
        low, high = np.log2(float(info.smallest_normal)), np.log2(float(info.max))
        exponent = rng.uniform(low, high, shape)
        return np.asarray(np.where(rng.random(shape) < 0.5, -1.0, 1.0) * np.exp2(exponent)).astype(dtype)
    values = np.asarray(rng.standard_normal(shape, wide))
    values *= np.array(SPREAD, wide)[rng.integers(0, len(SPREAD), shape, np.uint8)]
    values = np.clip(values, -LARGEST, LARGEST)
    values = np.where(rng.integers(0, 4, shape, np.uint8) == 0, np.round(2 * values) / 2, values)
    if dtype.name == "float8_e8m0fnu":
        domain = FloatRange.POSITIVE  # it has no others
    return np.asarray(_within(domain, values)).astype(dtype)


def _within(domain: FloatRange, values: Array) -> Array:
    """Numbers of up to LARGEST made numbers of the domain."""
    match domain:
        case FloatRange.ANY:
            return values
        case FloatRange.POSITIVE:
            return np.exp2(values * (6 / LARGEST))
        case FloatRange.NOT_ZERO:
            return np.where(np.abs(values) < 0.125, values + np.copysign(values.dtype.type(0.125), values), values)
        case FloatRange.INSIDE_ONE:
            return np.tanh(values / 4)
        case FloatRange.ABOVE_ONE:
            return 1 + np.abs(values)
        case FloatRange.SOLVABLE:
            symmetric = (values + np.swapaxes(values, -1, -2)) / (2 * values.shape[-1])
            return symmetric + LARGEST * np.eye(values.shape[-1], dtype=values.dtype)


def _integers(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape, np.uint8)).astype(np.bool_)
    low, high = integer_limits(dtype)
    wide = np.uint64 if low == 0 else np.int64
    anywhere = rng.integers(low, high, shape, wide, endpoint=True)
    small = rng.integers(max(low, -16), min(high, 16), shape, wide, endpoint=True)
    return np.asarray(np.where(rng.random(shape) < 0.5, small, anywhere)).astype(dtype)


def _indices(port: Port, rule: Rule, rng: np.random.Generator) -> Array:
    limit, count = max(rule.limit or 1, 1), prod(port.shape)
    can_be_unique = rule.is_unique and count <= limit
    values = rng.permutation(limit)[:count] if can_be_unique else rng.integers(0, limit, count)
    if rule.is_sorted:
        values = np.sort(values)
    return np.asarray(values).reshape(port.shape)


def seeded(iteration: int, *, different_seeds: bool) -> np.random.Generator:
    """The random generator of an iteration: the same seed with another stream each time, or another seed each time."""
    return np.random.default_rng((1 + iteration,) if different_seeds else (1, iteration))


def zeros(signature: Signature) -> tuple[Array, ...]:
    """All inputs zero: what `--random_init_input_literals=false` asks for."""
    return tuple(np.zeros(port.shape, dtype_of(port.dtype)) for port in signature.inputs)
