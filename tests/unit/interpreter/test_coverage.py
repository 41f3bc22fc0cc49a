"""Counts of what a LOOPS kernel writes: every element once, beside the nearest kernels that leave one out or write one twice."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, scf, tensor
from xdsl.parser import Parser

from hlo2tx8.dialects.xla import Xla
from hlo2tx8.errors import LevelError
from hlo2tx8.interpreter.coverage import check_written_once, write_counts

KERNEL = """
builtin.module @f {{
  func.func @f(%p0: tensor<10xf32>, %r0: tensor<{size}xf32>) -> tensor<{size}xf32> attributes {{xla.entry}} {{
    %tile = xla.tile_id [0, 3]
    %0 = xla.loop (%tile)[%s, %l] -> (%i) in #xla.indexing_map<"(t)[s, l] -> ({map}), domain: t in [0, {tiles}], s in [0, 0], l in [0, {lanes}]{constraint}"> lanes 1 iter_args(%t = %r0) -> (tensor<{size}xf32>) {{
      %x = tensor.extract %p0[%i] : tensor<10xf32>
      {joined}
      {row}
      %1 = tensor.insert %x into %t[%{index}] : tensor<{size}xf32>
      xla.yield %1 : tensor<{size}xf32>
    }}
    func.return %0 : tensor<{size}xf32>
  }}
}}
"""  # noqa: E501
SUM = "%sum = xla.reduce_lanes over [0] of(%x : f32) init(%x : f32) { ^bb0(%a: f32, %b: f32): xla.yield %a : f32 } : f32"
ROW = '%row = xla.apply_indexing #xla.indexing_map<"(d0) -> (d0 floordiv 5), domain: d0 in [0, 9]">(%i)'
GOOD = {
    "size": 10,
    "map": "t * 3 + l",
    "tiles": 3,
    "lanes": 2,
    "constraint": ", t * 3 + l in [0, 9]",
    "joined": "",
    "row": "",
    "index": "i",
}


def kernel(**changes: object) -> builtin.ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, scf.Scf, tensor.Tensor, Xla):
        ctx.load_dialect(dialect)
    return Parser(ctx, KERNEL.format(**(GOOD | changes))).parse_module()


def test_every_element_once():
    check_written_once(kernel())
    assert [counts.tolist() for counts in write_counts(kernel())] == [[1] * 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"constraint": ", t * 3 + l in [0, 8]"}, r"f writes element \[9\] of result 0 0 times, not once"),
        ({"map": "t * 2 + l", "constraint": ", t * 2 + l in [0, 9]"}, r"f writes element \[2\] of result 0 2 times, not once"),
        ({"tiles": 2, "constraint": ""}, r"f writes element \[9\] of result 0 0 times, not once"),
        ({"map": "l", "lanes": 9, "constraint": ""}, r"f writes element \[0\] of result 0 4 times, not once"),
        ({"constraint": ""}, r"leaves a dimension of size 10"),
    ],
    ids=["border cut too early", "overlapping tiles", "a tile too few", "all tiles do the same", "beyond the border"],
)
def test_anything_else_is_named(changes: dict[str, object], message: str):
    with pytest.raises(LevelError, match=message):
        check_written_once(kernel(**changes))


def test_joined_lanes_write_a_row_together():
    rows = {"map": "t * 5 + l", "tiles": 1, "lanes": 4, "constraint": "", "size": 2}
    by_row = {"row": ROW, "index": "row"}
    with pytest.raises(LevelError, match=r"element \[0\] of result 0 5 times"):
        check_written_once(kernel(**rows, **by_row))
    row_of_tile = {"row": ROW.replace("(%i)", "(%tile)").replace("d0 floordiv 5", "d0").replace("[0, 9]", "[0, 1]"), "index": "row"}
    check_written_once(kernel(**rows, **row_of_tile, joined=SUM))
    assert np.array_equal(write_counts(kernel(**rows, **row_of_tile))[0], [5, 5])
