"""Random inputs for a module, drawn by the rules of run_hlo_module.

Floats are uniform in [-0.1, 0.2] (or log-uniform over the dtype's range), integers uniform over their range, pred fair.
Integers that end up as indices are in range, and sorted or unique where a gather or scatter says they are. What a sum or product
starts with is 0 or 1: how often it comes in is an implementation's choice.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.signature import Port, Signature, dtype_of
from hlo2tx8.tools.compare import float_info, is_inexact

Array = npt.NDArray[Any]
MOVES = ("reshape", "transpose", "convert", "broadcast_in_dim", "copy", "bitcast", "slice", "reverse")


@dataclass(frozen=True)
class Rule:
    """How an input is drawn: indices below `limit`, sorted, or without repeats as its uses need; or all elements equal to `fixed`,
    the neutral element of a reduction.
    """

    limit: int | None = None
    is_sorted: bool = False
    is_unique: bool = False
    fixed: int | None = None

    def join(self, other: "Rule") -> "Rule":
        """The rule for an input that has both uses."""
        limits = [limit for limit in (self.limit, other.limit) if limit is not None]
        fixed = self.fixed if other.fixed is None else other.fixed
        return Rule(min(limits) if limits else None, self.is_sorted or other.is_sorted, self.is_unique or other.is_unique, fixed)


def random_arguments(
    module: ModuleOp, signature: Signature, rng: np.random.Generator, *, large_floats: bool = False
) -> tuple[Array, ...]:
    """One array per input of @main."""
    rules = [rule_of(arg) for arg in find_main(module).body.block.args]
    return tuple(_fill(p, r, rng, large_floats) for p, r in zip(signature.inputs, rules, strict=True))


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
        case _:
            return Rule()


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
        real, imaginary = (_floats(port.shape, half, rng, large_floats) for _ in range(2))
        return (real + 1j * imaginary).astype(dtype)
    if is_inexact(dtype):
        return _floats(port.shape, dtype, rng, large_floats)
    return _integers(port.shape, dtype, rng)


def _floats(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, large: bool) -> Array:
    wide = np.float64 if dtype == np.float64 else np.float32
    if not large:
        values = rng.random(shape, wide)
        values *= wide(0.3)
        values -= wide(0.1)
        return np.asarray(values).astype(dtype, copy=False)
    info = float_info(dtype)
    low, high = np.log2(float(info.smallest_normal)), np.log2(float(info.max))
    exponent = rng.uniform(low, high, shape)
    return np.asarray(np.where(rng.random(shape) < 0.5, -1.0, 1.0) * np.exp2(exponent)).astype(dtype)


def _integers(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape, np.uint8)).astype(np.bool_)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    small: Any = ml_dtypes.iinfo(dtype)
    return np.asarray(rng.integers(int(small.min), int(small.max), shape, np.int64, endpoint=True)).astype(dtype)


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
