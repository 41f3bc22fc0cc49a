"""What a step needs for no product goes behind its products; what products need stays, and so does the order of both."""

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects, scf
from xdsl.parser import Parser

from hlo2tx8.device.isa import Instruction
from hlo2tx8.lower.dma.defer_epilogue import defer_epilogue
from hlo2tx8.tools.universe import UNIVERSE

STEP = """
func.func @step(%p: tensor<8192xbf16>) {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %y = "spm.alloc"() <{{size = 8192 : i64, copies = 1 : i64}}> : () -> !tx8.buffer
  scf.for %s = %0 to %1 step %1 {{
    %g = "spm.alloc"() <{{size = 8192 : i64, copies = 1 : i64}}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%g : !tx8.buffer) slot(%p : tensor<8192xbf16>) offset(%0 : index) {shape}
    %a = "spm.alloc"() <{{size = 8192 : i64, copies = 1 : i64}}> : () -> !tx8.buffer
    tx8.RDMA_load dst(%a : !tx8.buffer) slot(%p : tensor<8192xbf16>) offset(%1 : index) {shape}
    tx8.CGRATensor_ArithOp_V_V_neg dst(%g : !tx8.buffer) src(%g : !tx8.buffer) n(4096) bf16
    tx8.NE_gemm dst(%y : !tx8.buffer) left({left} : !tx8.buffer) right(%a : !tx8.buffer) psum(%y : !tx8.buffer) {gemm}
  }}
  func.return
}}
"""
SHAPE = "count(4096) s1(0) n1(1) s2(0) n2(1) s3(0) n3(1) bf16"
GEMM = "rows(64) columns(64) depth(64) batch(1) transpose_left(0) transpose_right(1) accumulate(0) bf16 from bf16 nearest_even"
LOAD, NEG, PRODUCT = "tx8.RDMA_load", "tx8.CGRATensor_ArithOp_V_V_neg", "tx8.NE_gemm"


@pytest.mark.parametrize(
    ("left", "expected"), [("%a", [LOAD, PRODUCT, LOAD, NEG]), ("%g", [LOAD, LOAD, NEG, PRODUCT])], ids=["unread", "read"]
)
def test_what_no_product_depends_on_is_last(left: str, expected: list[str]):
    context = Context()
    for name, dialect in (get_all_dialects() | UNIVERSE.all_dialects).items():
        context.register_dialect(name, dialect)
    module = Parser(context, STEP.format(shape=SHAPE, gemm=GEMM, left=left)).parse_module()
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    defer_epilogue(loop)
    module.verify()
    assert [op.name for op in loop.body.block.ops if isinstance(op, Instruction)] == expected
