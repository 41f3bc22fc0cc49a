"""Coarse ops with a registered kernel: its records are launched as they are, its LOOPS are lowered as those of emitters.

%1 = hlo.library "softmax"(%0) {kernel = "by_hand 1"}    ⟶    %1 = launch.kernel @softmax(%0)
                                                              launch.library @softmax {records} { what it computes }

What is behind LOOPS is computed before each of their stores:

%3 = tensor.insert %2 into %iter[%i]                     ⟶    %b = tensor.extract %a[%i]
                                                              %e = arith.addf %2, %b
                                                              %3 = tensor.insert %e into %iter[%i]
"""

from xdsl.dialects.builtin import DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.tensor import ExtractOp, InsertOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import LibraryOp
from hlo2tx8.dialects.launch import LIBRARY, LibraryKernelOp
from hlo2tx8.emitters.elemental import emit_function
from hlo2tx8.fusion.library_loops import entry_of, loops_of, written
from hlo2tx8.hlo.regions import terminator_of
from hlo2tx8.partitioner.computation import partition


def library_kernel(op: LibraryOp, name: str) -> Operation:
    """The kernel `name` of a coarse op: records, or a module at level LOOPS."""
    if isinstance(op.code, DictionaryAttr):
        body = op.detach_region(op.body)
        facts = {"sym_name": StringAttr(name), "kernel": op.kernel, **op.code.data}
        return LibraryKernelOp.create(properties=facts, regions=[body])
    module = loops_of(op)
    if op.epilogue is not None:
        _append(op, entry_of(module))
    return ModuleOp([inner.clone() for inner in module.body.block.ops], {LIBRARY: op.kernel}, StringAttr(name))


def _append(op: LibraryOp, entry: FuncOp) -> None:
    """Computes what is behind the kernel before each store of its entry; what that reads besides is given before the result."""
    kernel, behind, _ = op.body.block.ops
    block, body = entry.body.block, behind.regions[0].block
    inputs: dict[SSAValue, SSAValue] = dict(zip(kernel.operands, block.args, strict=False))
    for value in op.body.block.args[len(kernel.operands) :]:
        inputs[value] = block.insert_arg(value.type, len(block.args) - 1)
    partitioned = partition(body)
    (function,) = partitioned.functions
    element = emit_function(partitioned, function, {function: "epilogue"}, body.args, {}).body.block
    tensors: dict[SSAValue, SSAValue] = dict(zip(element.args, behind.operands, strict=False))
    results = written(entry)
    assert results is not None
    for insert in [value.owner for value in results if isinstance(value.owner, InsertOp)]:
        known: dict[SSAValue, SSAValue] = {arg: inputs[value] for arg, value in tensors.items() if value in inputs}
        known.update(zip(element.args[len(tensors) :], insert.indices, strict=True))
        for inner in element.ops:
            if isinstance(inner, ExtractOp) and tensors[inner.tensor] is kernel.results[0]:
                known[inner.result] = insert.scalar
                continue
            if inner is terminator_of(element):
                insert.operands[0] = known[inner.operands[0]]
                break
            block_of_store = insert.parent
            assert block_of_store is not None
            block_of_store.insert_op_before(inner.clone(known), insert)
    for value in results:
        Rewriter.replace_value_with_new_type(value, op.result_types[0])
    entry.function_type = FunctionType.from_lists([arg.type for arg in block.args], list(op.result_types))
