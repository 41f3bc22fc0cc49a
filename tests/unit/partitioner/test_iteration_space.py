"""Splitting and merging of dimensions of an iteration space."""

from xdsl.dialects.builtin import NoneAttr, TensorType, f32
from xdsl.ir import Attribute

from hlo2tx8.dialects.hlo import LayoutAttr
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.partitioner.iteration_space import TensorAccess, iteration_space


def t(*shape: int, layout: tuple[int, ...] | None = None) -> TensorType[Attribute]:
    return TensorType(f32, shape, NoneAttr() if layout is None else LayoutAttr.of(layout))


def space(output: TensorType[Attribute], *accesses: TensorAccess) -> tuple[tuple[int, ...], bool]:
    found = iteration_space(output, accesses)
    return found.shape, found.is_affine


def test_identity_is_one_dimension() -> None:
    assert space(t(6, 512, 4096), TensorAccess(IndexingMap.identity((6, 512, 4096)), t(6, 512, 4096))) == ((12582912,), True)


def test_rank_zero_and_ones() -> None:
    assert space(t()) == ((), True)
    assert space(t(1, 1)) == ((), True)


def test_bias_keeps_its_dimension_apart() -> None:
    bias = TensorAccess(IndexingMap.from_shape([Dim(2)], (4, 5, 6)), t(6))
    assert space(t(4, 5, 6), bias) == ((20, 6), True)


def test_transpose_keeps_dimensions_apart() -> None:
    assert space(t(20, 6), TensorAccess(IndexingMap.from_shape([Dim(1), Dim(0)], (20, 6)), t(6, 20))) == ((20, 6), True)


def test_floordiv_and_mod_split_a_dimension() -> None:
    read = TensorAccess(IndexingMap.from_shape([Dim(0) % 4, Dim(0) // 4, Dim(1)], (12, 8)), t(4, 3, 8))
    assert space(t(12, 8), read) == ((3, 4, 8), True)


def test_a_division_that_does_not_fit_stays() -> None:
    read = TensorAccess(IndexingMap.from_shape([Dim(0) % 5, Dim(0) // 5], (12,)), t(5, 3))
    assert space(t(12), read)[1] is False


def test_space_is_in_buffer_order() -> None:
    output = t(4, 6, layout=(0, 1))
    found = iteration_space(output, [TensorAccess(IndexingMap.identity((4, 6)), t(4, 6))])
    assert found.shape == (6, 4)
    assert found.to_output == (Dim(1), Dim(0))
    assert space(output, TensorAccess(IndexingMap.identity((4, 6)), output)) == ((24,), True)


def test_joined_dimensions_are_turned_as_one() -> None:
    channels_first = TensorAccess(IndexingMap.from_shape([Dim(1), Dim(2), Dim(0)], (64, 14, 14)), t(14, 14, 64))
    found = iteration_space(t(64, 14, 14), [channels_first])
    assert found.shape == (64, 196)
    assert found.walks == ((0,),)
