"""Ops and attributes that are made in a shorter way are those that xDSL makes."""

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, f32, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from hlo2tx8.device.isa import Instruction
from hlo2tx8.dialects import spm, vec, xla
from hlo2tx8.dialects.made import compare, constant_index, extract_op, for_op, if_op, insert_op, of_two, yield_op
from hlo2tx8.indexing import Dim, IndexingMap
from hlo2tx8.ir import DeclaredOp, append, i64_array, i64_attr, index_attr, integers, vector_type_of

INDEX = xla.index


def same(a: Operation, b: Operation) -> bool:
    return a.is_structurally_equivalent(b) and a.properties == b.properties and [*a.operands] == [*b.operands]


def values() -> tuple[SSAValue, SSAValue]:
    return Block(arg_types=[INDEX, INDEX]).args  # pyright: ignore[reportReturnType]


def test_attributes():
    numbers = [0, -1, 1 << 40, -(1 << 63), (1 << 63) - 1]
    assert i64_array(numbers) == DenseArrayBase.from_list(i64, numbers)
    assert i64_array([1 << 63, (1 << 64) - 1]) == DenseArrayBase.from_list(i64, [1 << 63, (1 << 64) - 1])
    assert integers(i64_array(numbers)) == tuple(numbers)
    assert i64_attr(-3) == IntegerAttr(-3, i64)
    assert index_attr(7) == IntegerAttr(7, INDEX)
    assert vector_type_of(f32, (4, 2)).get_shape() == (4, 2)


def test_ops_are_put_at_the_end_of_a_block():
    block, ops = Block(), [constant_index(n) for n in range(3)]
    for op in ops:
        append(block, op)
    assert [*block.ops] == ops and block.last_op is ops[-1] and all(op.parent is block for op in ops)
    ops[1].detach()
    append(block, ops[1])
    assert [*block.ops] == [ops[0], ops[2], ops[1]] and ops[1].prev_op is ops[2] and ops[1].next_op is None


def test_ops_of_xdsl():
    a, b = values()
    block = Block(arg_types=[TensorType(f32, [8]), f32])
    source, element = block.args
    assert same(constant_index(3), arith.ConstantOp(IntegerAttr(3, INDEX)))
    assert same(of_two(arith.AddiOp, a, b), arith.AddiOp(a, b))
    assert same(of_two(arith.MinSIOp, a, b), arith.MinSIOp(a, b))
    for predicate in ("eq", "slt", "sgt", "uge"):
        assert same(compare(a, b, predicate), arith.CmpiOp(a, b, predicate))
    assert same(yield_op(a, b), scf.YieldOp(a, b))
    assert same(extract_op(source, [a], f32), tensor.ExtractOp(source, [a], f32))
    assert same(insert_op(element, source, [a]), tensor.InsertOp(element, source, [a]))
    loops = for_op(a, b, a, [b], Block(arg_types=[INDEX, INDEX])), scf.ForOp(a, b, a, [b], Block(arg_types=[INDEX, INDEX]))
    assert same(*loops)
    condition = compare(a, b, "eq").result
    assert same(if_op(condition, [], Region(Block())), scf.IfOp(condition, [], Region(Block())))


def test_ops_of_ours():
    a, b = values()
    map = xla.IndexingMapAttr(IndexingMap.from_shape([Dim(0) + Dim(1)], (4, 4)))
    ours = xla.ApplyIndexingOp(map, [a, b])
    theirs = ours.clone()
    IRDLOperation.__init__(theirs, operands=[[a, b], []], result_types=[[INDEX]], properties={"map": map})
    assert same(ours, theirs)
    assert [use.operation for use in a.uses].count(ours) == 1
    ours.verify()


def test_classes_are_told_apart():
    alloc = spm.AllocOp(64)
    assert isinstance(alloc, DeclaredOp) and isinstance(alloc, Operation) and not isinstance(alloc, Instruction)
    assert isinstance(alloc, spm.AllocOp | vec.LoadOp) and not isinstance("text", DeclaredOp)
    assert issubclass(spm.AllocOp, DeclaredOp) and not issubclass(Operation, DeclaredOp)
