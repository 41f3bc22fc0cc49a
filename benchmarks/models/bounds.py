"""How far deep models may be from XLA's: a share of each output's largest value.

Bounds per element grow with every layer faster than errors do; the sum of the roundings of all operations, relative to the largest
value, does not tell single elements apart but stays small.
"""

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from hlo2tx8.dialects.layout import as_tensor, is_tensor
from hlo2tx8.hlo import numpy_dtype
from hlo2tx8.hlo.accumulation import accumulated_types, is_exact, num_accumulated, num_convolved
from hlo2tx8.hlo.lookup import has_spec, spec_of
from hlo2tx8.hlo.precision import cut_off
from hlo2tx8.hlo.spec import Kind
from hlo2tx8.hlo.types import epsilon
from hlo2tx8.tools.compare import Array


def rounding_of(module: ModuleOp) -> float:
    """The sum over all ops of ulp(op) * eps(dtype), plus n * eps of the accumulator's dtype for reductions and dots over n
    elements, plus the error of multiplying in TF32.
    """
    return sum(_rounding(op) for op in module.walk())


def share_of_largest(expected: list[Array], share: float) -> list[Array]:
    """That share of each array's largest finite value, for each of its elements."""
    sizes = [np.abs(e.astype(np.float64)) for e in expected]
    return [np.full(s.shape, share * float(np.max(s, where=np.isfinite(s), initial=0.0))) for s in sizes]


def _rounding(op: Operation) -> float:
    if not has_spec(op.name) or is_exact(op):
        return 0.0
    found = float(spec_of(op).ulp) * max((_epsilon(t) for t in op.result_types), default=0.0)
    if spec_of(op).kind is Kind.DOT or num_convolved(op):
        found += cut_off(op) * max(1, num_accumulated(op)) ** 0.5
    found += num_convolved(op) * min(_epsilon(op.results[0].type), epsilon(np.dtype(np.float32)))
    return found + num_accumulated(op) * max((_epsilon(t) for t in accumulated_types(op)), default=0.0)


def _epsilon(type_: Attribute) -> float:
    return epsilon(numpy_dtype(as_tensor(type_).element_type if is_tensor(type_) else type_))
