"""The reference evaluator with a bound beside every value: what each op adds, and what becomes of its operands' bounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, Region, SSAValue

from hlo2tx8.hlo.accumulation import is_exact, only_adds
from hlo2tx8.hlo.error_bounds.bounded import Bounded, all_unknown, any_error, arrays_of
from hlo2tx8.hlo.error_bounds.elementwise import elementwise_bound, flushed
from hlo2tx8.hlo.error_bounds.probes import double, probed
from hlo2tx8.hlo.error_bounds.sums import added_bound, product_bound, reduced_sum_bound, unordered
from hlo2tx8.hlo.evaluator import Evaluator, Value, check_inputs, is_elementwise
from hlo2tx8.hlo.liveness import Liveness
from hlo2tx8.hlo.lookup import attributes_of, has_spec, spec_of, tensor_like
from hlo2tx8.hlo.ops.reduce import fold, rows
from hlo2tx8.hlo.reduction import reduce_op
from hlo2tx8.hlo.region_function import RegionFunction
from hlo2tx8.hlo.spec import Array, Kind, TensorLike
from hlo2tx8.hlo.types import is_complex, is_float

DOUBLE = np.dtype(np.float64)


def evaluate_with_bounds(module: ModuleOp, *arrays: Array, is_xla: bool = False) -> tuple[list[Array], list[Array]]:
    """The results of @main, as `evaluate` gives them, and per element (float64) how far a correct result may be off: 0 bit for bit,
    infinity where nothing is known. `is_xla`: the other result is XLA:CPU's, whose functions are less precise.

    UnsupportedError and InputError as `evaluate`.
    """
    main, functions, inputs = check_inputs(module, arrays)
    found = BoundingEvaluator(functions, is_xla=is_xla).run(main.body.block, [Bounded(a) for a in inputs], {})
    return [np.array(f.array, order="C") for f in found], [np.asarray(f.errors) for f in found]


class BoundingEvaluator(Evaluator):
    """Runs blocks on `Bounded` values."""

    def __init__(self, functions: dict[str, FuncOp], liveness: Liveness | None = None, *, is_xla: bool = False) -> None:
        super().__init__(functions, liveness)
        self.is_xla = is_xla
        self.plain = Evaluator(functions, self.liveness)

    def lifted(self) -> Evaluator:
        return _LiftedBoundingEvaluator(self.functions, self.liveness, is_xla=self.is_xla)

    def step(self, op: Operation, operands: list[Value], values: dict[SSAValue, Value]) -> Sequence[Value]:
        match op.name:
            case "stablehlo.reduce":
                return self.reduce(op, operands, values)
            case "stablehlo.if" | "stablehlo.case":
                found = self.run(self.branch(op, operands[0].array), [], values)
                return found if operands[0].error is None else [all_unknown(value) for value in found]
            case _:
                return super().step(op, operands, values)

    def loop(self, op: Operation, state: list[Value], values: dict[SSAValue, Value]) -> list[Value]:
        condition, body = (region.block for region in op.regions)
        is_known = True
        while True:
            (more,) = self.run(condition, state, values)
            is_known = is_known and more.error is None
            if not bool(more.array):
                return state if is_known else [all_unknown(value) for value in state]
            state = self.run(body, state, values)

    def map(self, op: Operation, arrays: Sequence[Bounded], values: dict[SSAValue, Value]) -> list[Value]:
        results = self.plain.map(op, arrays_of(tuple(arrays)), _plain(values))
        (region,) = op.regions
        found = self.body(region, arrays, values)
        if found is None:
            return [Bounded(result).unknown() for result in results]
        return [Bounded.of(result, f.errors) for result, f in zip(results, found, strict=True)]

    def apply(self, op: Operation, arrays: Sequence[Bounded]) -> Sequence[Bounded]:
        values = [np.asarray(value) for value in self.evaluated(op, [a.array for a in arrays])]
        errors = self.bounds(op, arrays, values)
        if self.is_xla:
            errors = [flushed(v, np.zeros(v.shape) if e is None else e) for v, e in zip(values, errors, strict=True)]
        return [Bounded(v) if e is None else Bounded.of(v, e) for v, e in zip(values, errors, strict=True)]

    def evaluated(self, op: Operation, arrays: Sequence[Array]) -> Sequence[Array]:
        """What the op's reference gives."""
        return self.plain.apply(op, arrays)

    def bounds(self, op: Operation, operands: Sequence[Bounded], values: Sequence[Array]) -> Sequence[Array | None]:
        """A bound for each result of an op without regions; None where it is exact."""
        spec, attributes = spec_of(op), attributes_of(op)
        has_error = any_error(operands)
        if not has_error and not spec.ulp:
            return [None] * len(values)
        results = tuple(tensor_like(r.type) for r in op.results)
        if spec.kind is Kind.ELEMENTWISE and len(values) == 1:
            arrays, errors = [o.array for o in operands], [o.errors for o in operands]
            return [elementwise_bound(spec, attributes, results[0], arrays, errors, values[0], is_xla=self.is_xla)]
        if spec.is_multilinear:
            return [product_bound(op, operands, values[0])]
        if moved := spec.linear_operands(len(operands)):
            if any_error(o for i, o in enumerate(operands) if i not in moved):
                return [np.full(value.shape, np.inf) for value in values]
            shapes = tuple(TensorLike(r.shape, DOUBLE, r.layout) for r in results)
            given = [np.array(o.errors) if i in moved else o.array for i, o in enumerate(operands)]
            return spec.evaluate(attributes, shapes, *given)
        shapes = tuple(TensorLike(r.shape, double(r.dtype), r.layout) for r in results)
        return probed(op, operands, values, lambda moved: spec.evaluate(attributes, shapes, *moved))

    def reduce(self, op: Operation, operands: Sequence[Bounded], values: Mapping[SSAValue, Value]) -> list[Bounded]:
        """A reduce that adds by the rule of sums; another body on values with their bounds, which add up in any order."""
        found = reduce_op(self.plain, op, [o.array for o in operands], _plain(values))
        half, region = len(operands) // 2, op.regions[0]
        if not any_error(operands) and is_exact(op):
            return [Bounded(f) for f in found]
        if half == 1 and only_adds(region.block):
            error = reduced_sum_bound(op, operands[0], operands[1], found[0])
            return [Bounded(found[0]) if error is None else Bounded.of(found[0], error)]
        if not is_elementwise(region, self.functions):
            return [Bounded(f).unknown() for f in found]

        def combine(left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
            pairs = [Bounded(a[i], a[half + i]) for a in (left, right) for i in range(half)]
            joined = self.body(region, pairs, values)
            assert joined is not None
            return [*(j.array for j in joined), *(j.errors for j in joined)]

        dimensions = tuple(attributes_of(op)["dimensions"])
        lines = [rows(a, dimensions) for a in (*(o.array for o in operands[:half]), *(o.errors for o in operands[:half]))]
        starts = [*(o.array for o in operands[half:]), *(np.asarray(o.errors) for o in operands[half:])]
        errors = fold(lines, starts, combine)[half:]
        factor = 1.0 if is_exact(op) else unordered(len(lines[0]))
        return [Bounded.of(f, factor * e.reshape(f.shape)) for f, e in zip(found, errors, strict=True)]

    def body(self, region: Region, arguments: Sequence[Bounded], values: Mapping[SSAValue, Value]) -> list[Bounded] | None:
        """A region written for scalars on arrays of one shape; None if it cannot be run on arrays."""
        if not is_elementwise(region, self.functions):
            return None
        shape = arguments[0].array.shape
        found = self.lifted().run(region.block, list(arguments), dict(values))
        return [Bounded(np.broadcast_to(f.array, shape), np.broadcast_to(f.errors, shape)) for f in found]

    def apply_with_bodies(self, op: Operation, arrays: Sequence[Bounded], values: dict[SSAValue, Value]) -> Sequence[Bounded]:
        given, outside = [a.array for a in arrays], _plain(values)
        found = [np.asarray(f) for f in self.plain.apply_with_bodies(op, given, outside)]
        blocks = [region.block for region in op.regions]
        is_inexact = not all(has_spec(inner.name) and is_exact(inner) for b in blocks for inner in b.ops if inner.results)
        if not any_error(arrays) and not is_inexact:
            return [Bounded(f) for f in found]
        spec, attributes = spec_of(op), attributes_of(op)
        assert spec.body_reference is not None
        reference, shapes = spec.body_reference, [TensorLike(f.shape, double(f.dtype)) for f in found]
        bodies = [RegionFunction(self.plain, region, outside) for region in op.regions]
        if len(found) == 1 and only_adds(blocks[-1]) and (is_float(found[0].dtype) or is_complex(found[0].dtype)):
            sums = [TensorLike(found[0].shape, DOUBLE)]
            error = added_bound(op, arrays, found[0], lambda moved: np.asarray(reference(attributes, sums, bodies, *moved)[0]))
            return [Bounded.of(found[0], error)]
        if not any_error(arrays):
            # Joined by other arithmetic: each element of the operands adds a rounding.
            count = sum(a.size for a in given)
            ulp = count * max(spec.ulp, 1)
            return [
                Bounded.of(f, ulp * np.spacing(np.abs(f.astype(np.float64)))) if is_float(f.dtype) else Bounded(f) for f in found
            ]
        errors = probed(op, arrays, found, lambda moved: reference(attributes, shapes, bodies, *moved))
        return [Bounded.of(f, e) for f, e in zip(found, errors, strict=True)]


class _LiftedBoundingEvaluator(BoundingEvaluator):
    """One in which values of scalar type hold arrays of one common shape."""

    def evaluated(self, op: Operation, arrays: Sequence[Array]) -> Sequence[Array]:
        return self.plain.lifted().apply(op, arrays)


def _plain(values: Mapping[SSAValue, Any]) -> dict[SSAValue, Any]:
    return {name: arrays_of(value) for name, value in values.items()}
