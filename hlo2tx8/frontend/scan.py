"""chlo.scan as the loop it is: a turn per element of the dimension, slices read and results written at its place.

%out, %last = chlo.scan(%x) inits(%init) dimension=0 {body}
    ⟶    while (i < n): slice x[i]; body(slice, carry) → result, carry; out[i] = result
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import decode_attributes
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.dialects.nested import nested_ops

INDEX: TensorType[Attribute] = TensorType(i32, [])


def expand_scans(module: ModuleOp) -> None:
    """Replace every chlo.scan of the module by a loop, in place; inner ones first."""
    for op in reversed([op for op in nested_ops(module) if op.name == "chlo.scan"]):
        _expand(op)


def _expand(op: Operation) -> None:
    attributes, e = decode_attributes(op), Expansion(op)
    dim, (num_inputs, _) = int(attributes["dimension"]), attributes["operandSegmentSizes"]
    num_outputs = attributes["resultSegmentSizes"][0]
    inputs, carries = op.operands[:num_inputs], list(op.operands[num_inputs:])
    sized = inputs[0].type if inputs else op.results[0].type
    count = as_tensor(sized).get_shape()[dim]
    outputs = [e.splat(0, as_tensor(result.type)) for result in op.results[:num_outputs]]
    state = [e.splat(0, INDEX), *carries, *outputs]
    types = [value.type for value in state]

    condition, end = _block(types)
    inner = Expansion(end)
    less = stablehlo.OPS["compare"](
        [condition.args[0], inner.splat(count, INDEX)], [TensorType(i1, [])], {"comparison_direction": StringAttr("LT")}
    )
    end.operands = [inner.insert(less).results[0]]

    body, end = _block(types)
    inner = Expansion(end)
    turn = body.args[0]
    place = turn
    if attributes.get("is_reverse", False):
        place = inner.emit("subtract", [inner.splat(count - 1, INDEX), turn], INDEX)
    old = op.regions[0].block
    slices = [_slice(inner, value, dim, place) for value in inputs]
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, [*slices, *body.args[1 : 1 + len(carries)]], strict=True))
    for member in old.ops:
        if member is not old.last_op:
            inner.insert(member.clone(values))
    assert old.last_op is not None
    found = [values.get(value, value) for value in old.last_op.operands]
    wholes = body.args[1 + len(carries) :]
    written = [_written(inner, whole, part, dim, place) for whole, part in zip(wholes, found[:num_outputs], strict=True)]
    end.operands = [inner.emit("add", [turn, inner.splat(1, INDEX)], INDEX), *found[num_outputs:], *written]

    loop = e.insert(stablehlo.OPS["while"](state, types, {}, [Region(condition), Region(body)]))
    results = loop.results[1:]
    e.replace(*results[len(carries) :], *results[: len(carries)])


def _block(types: Sequence[Attribute]) -> tuple[Block, Operation]:
    """A block of these arguments and its terminator, which has no operands yet."""
    block, end = Block(arg_types=types), stablehlo.ReturnOp([])
    block.add_op(end)
    return block, end


def _starts(e: Expansion, rank: int, dim: int, place: SSAValue) -> list[SSAValue]:
    zero = e.splat(0, INDEX)
    return [place if d == dim else zero for d in range(rank)]


def _slice(e: Expansion, value: SSAValue, dim: int, place: SSAValue) -> SSAValue:
    """value[..., place, ...] without the dimension."""
    shape = list(as_tensor(value.type).get_shape())
    shape[dim] = 1
    starts = _starts(e, len(shape), dim, place)
    part = e.emit("dynamic_slice", [value, *starts], e.like(value, shape), slice_sizes=int_array(shape))
    return e.emit("reshape", [part], e.like(value, [n for d, n in enumerate(shape) if d != dim]))


def _written(e: Expansion, whole: SSAValue, part: SSAValue, dim: int, place: SSAValue) -> SSAValue:
    """The whole with value[..., place, ...] replaced."""
    shape = list(as_tensor(whole.type).get_shape())
    shape[dim] = 1
    update = e.emit("reshape", [part], e.like(whole, shape))
    return e.emit("dynamic_update_slice", [whole, update, *_starts(e, len(shape), dim, place)], whole.type)
