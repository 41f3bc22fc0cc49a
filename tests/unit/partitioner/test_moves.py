"""Where the elements of a value are after reshapes and transposes."""

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, TensorType, f32, i64
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.stablehlo import OPS
from hlo2tx8.indexing import IndexingMap
from hlo2tx8.partitioner.instruction import shape_of
from hlo2tx8.partitioner.moves import index_after_moves


def moved(op: str, source: SSAValue, *shape: int, **attributes: list[int]) -> SSAValue:
    properties = {key: DenseArrayBase.from_list(i64, value) for key, value in attributes.items()}
    made: Operation = OPS[op]([source], [TensorType(f32, shape)], properties)
    block = source.owner if isinstance(source.owner, Block) else source.owner.parent_block()
    assert block is not None
    block.add_op(made)
    return made.results[0]


def parameter(*shape: int) -> SSAValue:
    return Block(arg_types=[TensorType(f32, shape)]).args[0]


def test_heads_side_by_side() -> None:
    source = parameter(2, 3, 5, 4)
    turned = moved("transpose", source, 2, 5, 3, 4, permutation=[0, 2, 1, 3])
    root = moved("reshape", moved("negate", turned, 2, 5, 3, 4), 2, 5, 12)
    index = index_after_moves(source, root)
    assert index is not None and [str(expr) for expr in index] == ["d0", "d2", "d1 * 4 + d3"]
    values = np.arange(120).reshape(2, 3, 5, 4)
    expected = values.transpose(0, 2, 1, 3).reshape(2, 5, 12)
    points = np.indices(values.shape).reshape(4, -1)
    at, _ = IndexingMap.from_shape(index, shape_of(source)).evaluate(list(points), [])
    assert np.array_equal(expected[tuple(at)], values.reshape(-1))


def test_no_way() -> None:
    source = parameter(4, 6)
    rows = moved("reshape", source, 24)
    columns = moved("transpose", source, 6, 4, permutation=[1, 0])
    assert index_after_moves(source, rows) is None, "two readers"
    assert index_after_moves(columns, rows) is None, "not on the way"
    assert index_after_moves(source, source) is not None
