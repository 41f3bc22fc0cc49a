"""Fusion by templates changes no number, also by one of a person's own; what is between two sets keeps them apart."""

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from hlo2tx8.compiler.driver import load_source, lower_module
from hlo2tx8.dialects.launch import kernels
from hlo2tx8.fusion.fuse_by_template import fuse_module
from hlo2tx8.fusion.fusion_template import FusionTemplate
from hlo2tx8.fusion.templates import ELEMENTWISE, TEMPLATES
from hlo2tx8.hlo.evaluator import evaluate
from hlo2tx8.options import Level, Options

MODEL = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>) {
  %0 = stablehlo.tanh %x : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.add %1, %2 : tensor<8x16xf32>
  %4 = stablehlo.multiply %3, %0 : tensor<8x16xf32>
  %5 = stablehlo.slice %4 [0:8, 0:4] : (tensor<8x16xf32>) -> tensor<8x4xf32>
  %6 = stablehlo.slice %4 [0:8, 4:16] : (tensor<8x16xf32>) -> tensor<8x12xf32>
  %7 = stablehlo.concatenate %6, %5, dim = 1 : (tensor<8x12xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  %8 = stablehlo.multiply %7, %7 : tensor<8x16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %9 = stablehlo.reduce(%8 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %7, %9 : tensor<8x16xf32>, tensor<8xf32>
}
"""
ADDITIONS = replace(ELEMENTWISE, name="additions", start=lambda op: op.name == "stablehlo.add")


def tagged(module: ModuleOp) -> dict[str, list[str]]:
    """Names of the ops in each function with a tag."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp) and "fusion" in op.attributes]
    return {f.sym_name.data: [op.name.partition(".")[2] for op in f.body.block.ops][:-1] for f in functions}


@pytest.mark.parametrize("template", [*TEMPLATES.values(), ADDITIONS], ids=lambda template: template.name)
def test_a_template_changes_no_number(template: FusionTemplate):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape, np.float32) for shape in ((8, 16), (16, 16), (16,))]
    module = load_source(MODEL)
    wanted = evaluate(module.clone(), *arrays)
    fuse_module(module, template)
    names = tagged(module)
    assert names
    for made, expected in zip(evaluate(module, *arrays), wanted, strict=True):
        np.testing.assert_array_equal(made, expected)
    lowered = lower_module(module, Options(until=Level.LOOPS)).module
    assert next(iter(names)) in kernels(lowered) or template.name in ("trivial", "concat_slice")  # moves may be views


def test_what_a_product_is_between_is_not_one_fusion():
    module = load_source(MODEL)
    fuse_module(module, ELEMENTWISE, single=True)
    assert list(tagged(module).values()) == [["tanh"], ["broadcast_in_dim", "add", "multiply"], ["multiply"]]
