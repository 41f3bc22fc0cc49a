"""Every elementwise and shaping OpSpec, at every sample of its dtypes and shapes, equals the evaluator on every level."""

import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region

sys.path.insert(0, str(Path(__file__).parent))
from hlo_builder import check_all_levels, t

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr
from hlo2tx8.hlo import Kind, OpSpec, Sample, TensorLike, all_specs, element_type
from hlo2tx8.partitioner.instruction import is_elemental

CLASSES = {f"stablehlo.{n}": c for n, c in stablehlo.OPS.items()} | {f"chlo.{n}": c for n, c in chlo.OPS.items()}
SPECS = [
    spec for spec in all_specs() if spec.kind in (Kind.ELEMENTWISE, Kind.SHAPING) and tuple(spec.samples()) and spec.name in CLASSES
]


MAX_SAMPLES = 30
"""Per op: convert alone has one per pair of dtypes."""


def _type(like: TensorLike) -> TensorType[Attribute]:
    return t(*like.shape, element=element_type(like.dtype), layout=like.layout)


def _attribute(value: object) -> Attribute:
    match value:
        case bool() | int():
            return IntegerAttr(int(value), i64)
        case str():
            return StringAttr(value)
        case tuple():
            return DenseArrayBase.from_list(i64, list(value))
        case np.ndarray():
            return LiteralAttr.from_array(value)
        case _:
            raise TypeError(type(value))


def module_of(spec: OpSpec, sample: Sample) -> ModuleOp:
    types = [_type(operand) for operand in sample.operands]
    body = Block(arg_types=types)
    properties = {key: _attribute(value) for key, value in sample.attributes.items()}
    op = CLASSES[spec.name](list(body.args), [_type(result) for result in sample.results], properties)
    body.add_ops([op, stablehlo.ReturnOp(list(op.results))])
    main = Block(arg_types=types)
    fusion = FusionOp(list(main.args), list(op.result_types), "kLoop", Region(body), "f")
    main.add_ops([fusion, func.ReturnOp(*fusion.results)])
    return ModuleOp([func.FuncOp("main", FunctionType.from_lists(types, list(op.result_types)), Region(main))])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_samples(spec: OpSpec) -> None:
    samples = tuple(spec.samples())
    for sample in samples[:: max(1, len(samples) // MAX_SAMPLES)]:
        module = module_of(spec, sample)
        op = next(op for op in module.walk() if op.name == spec.name)
        if is_elemental(op):
            check_all_levels(module)
