"""What is asked of an op: the published examples, and answers of a few ops against arithmetic by hand."""

import json

import numpy as np
import pytest

from hlo2tx8.dev.oplib_page import PATH, answer
from hlo2tx8.device.program import SlotKind
from hlo2tx8.errors import InputError
from hlo2tx8.hlo import spec_of
from hlo2tx8.vendor.op_probes import probe_of, templates
from hlo2tx8.vendor.op_shares import ShardingSplit
from hlo2tx8.vendor.oplib import ALL, OpLib


def library(op: str, dtype: str = "") -> OpLib:
    return OpLib.of(probe_of(op, dtype), "stablehlo")


def of_line(line: str, arguments: str, result: str) -> OpLib:
    return OpLib.of(f"func.func public @main({arguments}) -> {result} {{\n%r = {line}\nreturn %r : {result}\n}}", "stablehlo")


def norm(dtype: str, channels: int) -> OpLib:
    sizes = {"N": 4, "H": 112, "W": 2, "C": channels}
    return OpLib.of(templates()["stablehlo.batch_norm_inference"][1].filled(dtype, sizes), "stablehlo")


def test_transpose_changes_shape_and_layout():
    types = "tensor<3x4x5x6xbf16>", "tensor<3x5x6x4xbf16>"
    found = of_line(f"stablehlo.transpose %a, dims = [0, 2, 3, 1] : ({types[0]}) -> {types[1]}", f"%a: {types[0]}", types[1])
    assert found.infer_shapes() == ((3, 5, 6, 4),)
    assert found.infer_shapes((7, 8, 9, 10)) == ((7, 9, 10, 8),)
    assert found.infer_layout("NCHW") == "NHWC"
    assert found.tile_sharding_split((1, 2, 3, 4), (3, 1, 1, 1)) == (ShardingSplit((1, 4, 2, 3), (3, 1, 1, 1)),)


def test_batch_norm_is_sharded_along_channels_and_split_along_the_others():
    found = norm("bfloat16", 129)
    data, *parameters = found.tile_sharding_split((1, 1, 1, 4), (2, 7, 1, 1))
    assert data == ShardingSplit((1, 1, 1, 4), (2, 7, 1, 1))
    assert parameters == [ShardingSplit((1, 1, 1, 4), (1, 1, 1, 1))] * 4
    assert found.temporal_slice_shape((1, 1, 1, 4), (2, 7, 1, 1)) == ((2, 16, 2, 33), *((33,),) * 4)
    assert found.infer_layout("NHWC") == "NHWC"


@pytest.mark.parametrize(
    ("sharding", "split", "left"),
    [((2, 1, 1, 4), (2, 1, 1, 1), ((), (2, 1, 1, 1))), ((1, 1, 1, 4), (1, 1, 1, 2), ((1, 1, 1, 4), ()))],
)
def test_what_batch_norm_cannot_have_is_an_empty_vector(sharding, split, left):
    assert norm("float32", 30).tile_sharding_split(sharding, split)[0] == ShardingSplit(*left)


def test_batch_norm_wants_blocks_of_channels_and_more_scratch_than_its_published_design():
    for dtype in ("bfloat16", "float16"):
        found = norm(dtype, 30)
        (kernel,) = found.kernels
        (slices,) = kernel.moved[SlotKind.INPUT, 0]
        assert found.get_imm_sp_size() > 2 * slices.size_bytes
    assert found.query_op_attr().alignMode == "NPU_ALIGN"


def test_masks_are_asked_bit_by_bit():
    attributes = library("stablehlo.gather").query_op_attr()
    assert attributes.needLoad == ALL - 1
    assert [attributes.loads(k) for k in range(3)] == [False, True, True]
    assert [bool(attributes.needLoad >> k & 1) for k in range(64)] == [attributes.loads(k) for k in range(64)]
    assert library("stablehlo.add").query_op_attr().needLoad == ALL
    assert library("stablehlo.dynamic_update_slice").query_op_attr().loads(1)


def test_products_and_windows_have_parts_of_their_operands():
    product = library("stablehlo.dot_general")  # 2x16x32 and 2x32x8
    assert product.tile_sharding_split((2, 4, 2), (1, 2, 1)) == (
        ShardingSplit((2, 4, 1), (1, 2, 1)),
        ShardingSplit((2, 1, 2), (1, 1, 1)),
    )
    assert product.temporal_slice_shape((2, 4, 2), (1, 2, 1)) == ((1, 2, 32), (1, 32, 4))
    image = "tensor<1x8x8x4xbf16>"
    conv = of_line(
        f'"stablehlo.convolution"(%a, %w) {{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, '
        f"padding = dense<1> : tensor<2x2xi64>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}} : "
        f"({image}, tensor<3x3x4x16xbf16>) -> tensor<1x8x8x16xbf16>",
        f"%a: {image}, %w: tensor<3x3x4x16xbf16>",
        "tensor<1x8x8x16xbf16>",
    )
    window, weight = conv.back_window((0, 0, 4, 0), (1, 4, 4, 16))
    assert (window.start, window.size) == ((0, 0, 3, 0), (1, 5, 5, 4))
    assert (window.low, window.high) == ((0, 1, 0, 0), (0, 0, 1, 0))
    assert weight.size == (3, 3, 4, 16)
    pooled = library("stablehlo.reduce_window")  # windows of 2x3 over 5x70
    assert pooled.back_window((1, 10), (2, 4))[0].size == (3, 6)
    assert pooled.tile_sharding_split((2, 1), (1, 4))[0] == ShardingSplit((2, 1), (1, 4))


@pytest.mark.parametrize(
    "op", ["stablehlo.reshape", "stablehlo.concatenate", "stablehlo.slice", "stablehlo.reduce", "stablehlo.gather"]
)
def test_a_box_of_the_result_is_computed_from_its_windows(op: str):
    """Every element that the maps name lies in the box, and the box is no larger than the operand."""
    found = library(op)
    shape = found.results[0].shape
    size = tuple(max(1, n // 2) for n in shape)
    for own, window, tensor in zip(found.shares.maps, found.back_window((0,) * len(shape), size), found.operands, strict=True):
        assert all(a >= 0 and a + n <= whole for a, n, whole in zip(window.start, window.size, tensor.shape, strict=True))
        for map_ in own:
            grids = np.indices((*size, *(v.hi + 1 for v in map_.syms)), np.int64).reshape(len(size) + len(map_.syms), -1)
            places, mask = map_.evaluate(list(grids[: len(size)]), list(grids[len(size) :]))
            for place, start, count in zip(places, window.start, window.size, strict=True):
                inside = np.broadcast_to(place, mask.shape)[mask] if mask.ndim else np.atleast_1d(place)[: int(mask)]
                assert ((inside >= start) & (inside < start + count)).all()


def test_shapes_follow_from_other_operands_or_are_refused():
    assert library("stablehlo.dot_general").infer_shapes((3, 5, 9), (3, 9, 4)) == ((3, 5, 4),)
    assert library("stablehlo.reduce").infer_shapes((9, 11), ()) == ((9,),)
    with pytest.raises(InputError, match="one size"):
        library("stablehlo.dot_general").infer_shapes((3, 5, 9), (2, 9, 4))
    with pytest.raises(InputError, match="does not follow"):
        library("stablehlo.sort").infer_shapes((5, 34))
    with pytest.raises(InputError, match="no box"):
        library("stablehlo.add").back_window((0, 0), (6, 1))
    with pytest.raises(InputError, match="cannot be shared out"):
        library("stablehlo.sort").temporal_slice_shape((1, 2), (1, 1))


def test_code_and_cycles_are_those_of_the_op_alone():
    found = library("stablehlo.tanh", "float32")
    assert "tanh.fp32" in found.gen_op_code()
    assert found.get_op_clock_cycle() == round(found.executable.time.report.cycles) > 2000
    assert found.get_imm_sp_size() == 0
    assert found.query_op_attr().memInplace


@pytest.mark.parametrize("op", ["stablehlo.add", "stablehlo.dot", "stablehlo.gather", "stablehlo.reshape"])
def test_the_stored_rows_are_what_the_compiler_does(op: str):
    assert json.loads(PATH.read_text())[op] == answer(op)
    assert spec_of(op)
