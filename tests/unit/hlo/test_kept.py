"""What is kept with an op or a block is found again when one of the things that it was found of is another."""

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Operation

from hlo2tx8.dialects.hlo import CopyOp
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.hlo.lookup import attributes_of, kept, kept_with, known_alike
from hlo2tx8.ir import i64_attr, text_attr


def _copy() -> tuple[Block, CopyOp]:
    block = Block(arg_types=[TensorType(f32, [4]), TensorType(f32, [4])])
    op = CopyOp.create(operands=[block.args[0]], result_types=[TensorType(f32, [4])])
    block.add_ops([op, ReturnOp(list(op.results))])
    return block, op


def test_attributes_are_read_again_when_they_are_others():
    _, op = _copy()
    op.attributes["number"] = i64_attr(1)
    attributes_of(op)["number"] = 7
    assert attributes_of(op)["number"] == 1
    op.attributes["number"] = i64_attr(2)
    assert attributes_of(op)["number"] == 2


def test_what_is_kept_of_an_op_is_of_its_types_and_attributes():
    _, op = _copy()
    asked: list[Operation] = []
    assert [kept(op, "times", lambda own: asked.append(own) or len(asked)) for _ in range(2)] == [1, 1]
    op.properties["number"] = i64_attr(1)
    assert kept(op, "times", lambda own: asked.append(own) or len(asked)) == 2


def test_what_is_known_of_an_op_is_known_of_those_that_are_alike_elsewhere():
    ops = [_copy()[1] for _ in range(3)]
    ops[1].attributes["loc"] = text_attr("elsewhere")
    ops[2].attributes["number"] = i64_attr(1)
    asked: list[Operation] = []
    assert [known_alike(op, "times asked", lambda own: asked.append(own) or len(asked)) for op in ops] == [1, 1, 2]
    assert asked == [ops[0], ops[2]]


def test_what_is_kept_of_a_block_is_of_its_ops_and_operands():
    block, op = _copy()
    asked: list[Block] = []
    assert [kept_with(block, "times", lambda own: asked.append(own) or len(asked)) for _ in range(2)] == [1, 1]
    op.operands[0] = block.args[1]
    assert kept_with(block, "times", lambda own: asked.append(own) or len(asked)) == 2
    other = CopyOp.create(operands=[block.args[0]], result_types=[TensorType(f32, [4])])
    block.insert_op_before(other, op)
    assert kept_with(block, "times", lambda own: asked.append(own) or len(asked)) == 3
