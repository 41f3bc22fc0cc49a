"""Pass expand-batch-norm: batch_norm_* become arithmetic, in f32 where the operands are narrower.

inference    (x - mean) * rsqrt(variance + epsilon) * scale + offset
training     mean = sum(x) / n, variance = sum((x - mean)^2) / n, then inference
grad         dscale = sum(dy * normal), doffset = sum(dy), dx = scale * r * (dy - (doffset + normal * dscale) / n)
             with r = rsqrt(variance + epsilon), normal = (x - mean) * r

An inference of elements that the vector engine computes with stays one op: the emitter of its fusion expands it.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, FloatAttr, ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from hlo2tx8.builders.body_builder import BodyBuilder
from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.types import bit_width, numpy_dtype
from hlo2tx8.ir import i64_attr


@dataclass(frozen=True)
class ExpandBatchNormPass(ModulePass):
    """Rewrites batch normalisation; see the module docstring."""

    name = "expand-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(
            op,
            {
                "stablehlo.batch_norm_inference": _inference,
                "stablehlo.batch_norm_training": _training,
                "stablehlo.batch_norm_grad": _grad,
            },
        )


OF_VECTORS = (BFloat16Type, Float16Type, Float32Type)
"""Elements that the vector engine computes with."""


class _Arithmetic:
    """Builds the arithmetic of one op on its operands."""

    def __init__(self, op: Operation) -> None:
        self.e, attributes = Expansion(op), attributes_of(op)
        self.feature, self.epsilon = int(attributes["feature_index"]), float(attributes["epsilon"])
        self.shape = tensor_like(op.operands[0].type).shape
        own = as_tensor(op.operands[0].type).element_type
        self.element: Attribute = own if bit_width(numpy_dtype(own)) >= 32 else Float32Type()
        self.count = prod(self.shape) // max(1, self.shape[self.feature])

    @property
    def operands(self) -> list[SSAValue]:
        """All operands in the type that is computed in."""
        return [self.operand(number) for number in range(len(self.e.op.operands))]

    def operand(self, number: int) -> SSAValue:
        """One of them."""
        return self.e.converted(self.e.op.operands[number], self.element)

    def done(self, *values: SSAValue) -> None:
        """Replace the op's results by these values."""
        results = self.e.op.results
        types = [as_tensor(result.type).element_type for result in results]
        self.e.replace(*(self.e.converted(v, t) for v, t in zip(values, types, strict=True)))

    def spread(self, value: SSAValue) -> SSAValue:
        """A value per feature, broadcast to all elements."""
        along = int_array((self.feature,))
        return self.e.emit("broadcast_in_dim", [value], self.e.like(value, self.shape), broadcast_dimensions=along)

    def __call__(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.e.emit(name, operands, operands[0].type)

    def number(self, value: float, like: SSAValue) -> SSAValue:
        """A constant in the shape of another value."""
        literal = LiteralAttr.from_array(np.array(value, numpy_dtype(self.element)))
        return self.e.emit("constant", [], as_tensor(like.type), value=literal)

    def sum(self, value: SSAValue) -> SSAValue:
        """Per feature the sum of its elements."""
        body = BodyBuilder([self.element] * 2)
        region = body.region(body.emit("add", body.args))
        over = int_array([d for d in range(len(self.shape)) if d != self.feature])
        zero = self.e.splat(0, TensorType(self.element, []))
        type_ = TensorType(self.element, [self.shape[self.feature]])
        return self.e.insert(stablehlo.OPS["reduce"]([value, zero], [type_], {"dimensions": over}, [region])).results[0]

    def mean(self, value: SSAValue) -> SSAValue:
        """Per feature the mean of its elements."""
        total = self.sum(value)
        return self("divide", total, self.number(self.count, total))

    def inverse_deviation(self, variance: SSAValue) -> SSAValue:
        """1 / sqrt(variance + epsilon)."""
        return self("rsqrt", self("add", variance, self.number(self.epsilon, variance)))


def expand_inference(op: Operation) -> None:
    """The arithmetic of a batch norm whose mean and variance are given: each operand where it is needed."""
    a, (x, scale, offset, mean, variance) = _Arithmetic(op), range(5)
    centered = a("subtract", a.operand(x), a.spread(a.operand(mean)))
    normal = a("multiply", centered, a.spread(a.inverse_deviation(a.operand(variance))))
    scaled = a("multiply", normal, a.spread(a.operand(scale)))
    a.done(a("add", scaled, a.spread(a.operand(offset))))


def _inference(op: Operation) -> None:
    if not isinstance(as_tensor(op.operands[0].type).element_type, OF_VECTORS):
        expand_inference(op)


def _training(op: Operation) -> None:
    a = _Arithmetic(op)
    x, scale, offset = a.operands
    mean = a.mean(x)
    centered = a("subtract", x, a.spread(mean))
    variance = a.mean(a("multiply", centered, centered))
    attributes = {"epsilon": FloatAttr(a.epsilon, f32), "feature_index": i64_attr(a.feature)}
    normalized = a.e.insert(stablehlo.OPS["batch_norm_inference"]([x, scale, offset, mean, variance], [x.type], attributes))
    a.done(normalized.results[0], mean, variance)
    _inference(normalized)


def _grad(op: Operation) -> None:
    a = _Arithmetic(op)
    x, scale, mean, variance, dy = a.operands
    inverse = a.inverse_deviation(variance)
    normal = a("multiply", a("subtract", x, a.spread(mean)), a.spread(inverse))
    dscale, doffset = a.sum(a("multiply", dy, normal)), a.sum(dy)
    pull = a("add", a.spread(doffset), a("multiply", normal, a.spread(dscale)))
    centered = a("subtract", dy, a("divide", pull, a.number(a.count, pull)))
    a.done(a("multiply", a.spread(a("multiply", scale, inverse)), centered), dscale, doffset)
