"""HLO operations: one OpSpec each, their indexing maps, and the reference evaluator."""

from hlo2tx8.hlo.evaluator import evaluate
from hlo2tx8.hlo.lookup import all_specs, has_spec, operand_indexing, spec_of, spec_of_scalar, tensor_like
from hlo2tx8.hlo.spec import Accepts, Kind, OpSpec, Sample, TensorLike
from hlo2tx8.hlo.types import element_type, numpy_dtype

__all__ = [
    "Accepts",
    "Kind",
    "OpSpec",
    "Sample",
    "TensorLike",
    "all_specs",
    "element_type",
    "evaluate",
    "has_spec",
    "numpy_dtype",
    "operand_indexing",
    "spec_of",
    "spec_of_scalar",
    "tensor_like",
]
