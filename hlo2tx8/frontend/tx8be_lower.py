"""`lower_tx8be`: a module in the dialect `tx8be` to StableHLO, op by op as the table of the dialect says.

Tuples are taken apart, groups and loads are what is in them, constants that a module loads by number come from `parameters`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    NoneType,
    StringAttr,
    SymbolRefAttr,
    TupleType,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from hlo2tx8.dialects import chlo, stablehlo
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.tx8be import Tx8beOp
from hlo2tx8.dialects.tx8be_attributes import ParallelAttr
from hlo2tx8.dialects.tx8be_rows import COMMON
from hlo2tx8.dialects.tx8be_shapes import tensor_in
from hlo2tx8.errors import CompileError, InputError, ParseError
from hlo2tx8.frontend.literals import dtype_of, literal_of_bytes
from hlo2tx8.frontend.tx8be_forms import FORMS, HloBuilder

Tree: TypeAlias = Any
"""A value: an SSAValue, None, or a tuple of them."""
_CLASSES = {op.name: op for op in (*stablehlo.OPS.values(), *chlo.OPS.values())}
SHARDING = "mhlo.sharding"
NUMBERS = ("mhlo.num_replicas", "mhlo.num_partitions")
"""Attributes of a module that say how many chips run it."""
_KEPT = ("loc", "op_name")


def lower_tx8be(module: ModuleOp, parameters: bytes | None = None) -> ModuleOp:
    """The module at level HLO. `parameters` are the bytes that LoadConst reads; CompileError names the op that cannot be
    lowered and its place.
    """
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp) or op.name == "tx8be.Subgraph"]
    others = [op for op in module.body.block.ops if op not in functions]
    if others:
        raise ParseError("E1003", f"{origin(others[0])}: {others[0].name} is no function")
    inlined = {_name_of(op): op for op in functions if not isinstance(op, func.FuncOp) and not _calls(op)}
    kept = [op for op in functions if op not in inlined.values()]
    lowered = ModuleOp([_Lowering(parameters, inlined).function(op) for op in kept], sym_name=module.sym_name)
    lowered.attributes.update((key, value) for key, value in module.attributes.items() if key in NUMBERS)
    parts = max((each.num_parts for op in module.walk() if (each := _parallel(op)) is not None), default=1)
    if parts > 1 and not lowered.attributes:
        lowered.attributes[NUMBERS[1]] = IntegerAttr(parts, i32)
    if not any(isinstance(op, func.FuncOp) and op.sym_name.data == "main" for op in lowered.body.block.ops):
        raise InputError("E1004", "the module has no function @main")
    return lowered


def _name_of(function: Operation) -> str:
    return (function.sym_name if isinstance(function, func.FuncOp) else cast(StringAttr, function.attributes["sym_name"])).data


def _calls(function: Operation) -> bool:
    return any(op.name == "tx8be.Call" for op in function.walk())


def _parallel(op: Operation) -> ParallelAttr | None:
    """How an op's results are to be shared out over chips."""
    found = op.attributes.get("chip_parallel")
    return found if isinstance(found, ParallelAttr) and found.sharding else None


def leaves(tree: Tree) -> Iterator[SSAValue]:
    """The tensors in a value, in order."""
    if isinstance(tree, tuple):
        for part in cast(tuple[Tree, ...], tree):
            yield from leaves(part)
    elif tree is not None:
        yield tree


def leaf_types(type_: Attribute) -> Iterator[Attribute]:
    """The types of the tensors in a type."""
    match type_:
        case TupleType():
            for part in type_.types:
                yield from leaf_types(part)
        case NoneType():
            return
        case _:
            yield type_


def _check_types(what: str, given: Sequence[Tree], wanted: Sequence[SSAValue]) -> None:
    """ParseError if values are not those that are declared."""
    types = [value.type for tree in given for value in leaves(tree)], [leaf for v in wanted for leaf in leaf_types(v.type)]
    if types[0] != types[1] or len(given) != len(wanted):
        found, declared = (", ".join(map(str, side)) or "none" for side in types)
        raise ParseError("E1003", f"{what} {found}, and {declared} are declared")


def _tree(type_: Attribute, values: Iterator[SSAValue]) -> Tree:
    if isinstance(type_, TupleType):
        return tuple(_tree(part, values) for part in type_.types)
    return None if isinstance(type_, NoneType) else next(values)


def _put_in_order(block: Block) -> None:
    """Operands in front of what reads them, the first before the second: an order that groups have no part in, so that equal
    modules are compiled alike, however their ops were grouped."""
    found: dict[Operation, None] = {}
    pending = [(op, False) for op in reversed(tuple(block.ops)) if not any(result.uses for result in op.results)]
    while pending:
        op, is_ready = pending.pop()
        if is_ready or op in found:
            found.setdefault(op)
            continue
        reads = (value.owner for each in op.walk() for value in each.operands)
        pending += [(op, True), *reversed([(o, False) for o in reads if isinstance(o, Operation) and o.parent is block])]
    for op in found:
        op.detach()
        block.add_op(op)


@dataclass
class _Lowering:
    parameters: bytes | None
    inlined: Mapping[str, Operation]
    """Subgraphs that call none: they are put where they are called, as groups are."""
    values: dict[SSAValue, Tree] = field(default_factory=dict[SSAValue, Tree])
    shardings: dict[SSAValue, StringAttr] = field(default_factory=dict[SSAValue, StringAttr])
    """Of arguments, as HLO says them."""

    def function(self, op: Operation) -> func.FuncOp:
        name, region = _name_of(op), op.regions[0]
        if len(region.blocks) != 1:
            raise ParseError("E1003", f"{origin(op)}: @{name} has {len(region.blocks)} blocks, and should have 1")
        block, results = self.block(region.block, "func.return")
        _put_in_order(block)
        types = FunctionType.from_lists([a.type for a in block.args], [v.type for v in results])
        made = func.FuncOp(name, types, Region(block), visibility=None if name == "main" else "private")
        if name == "main" and any(arg in self.shardings for arg in block.args):
            given = [{SHARDING: self.shardings[arg]} if arg in self.shardings else {} for arg in block.args]
            made.properties["arg_attrs"] = ArrayAttr(DictionaryAttr(entry) for entry in given)
        return made

    def block(self, source: Block, terminator: str) -> tuple[Block, list[SSAValue]]:
        """The block, and what it returns."""
        block = Block(arg_types=[leaf for arg in source.args for leaf in leaf_types(arg.type)])
        given: Iterator[SSAValue] = iter(block.args)
        self.values.update((arg, _tree(arg.type, given)) for arg in source.args)
        returned = self.ops(source, block)
        results = list(leaves(returned))
        last = func.ReturnOp(*results) if terminator == "func.return" else stablehlo.ReturnOp(results)
        block.add_op(last)
        return block, results

    def ops(self, source: Block, block: Block) -> Tree:
        """Append what a block's ops become; gives what it returns."""
        for op in source.ops:
            if op.name in ("func.return", "tx8be.Return"):
                return tuple(self.values[v] for v in op.operands)
            if not isinstance(op, Tx8beOp):
                raise CompileError("E1001", f"{op.name} is no op of tx8be", origin=origin(op))
            unknown = [name for name in op.attributes if name not in (*COMMON, *op.ROW.properties, *_KEPT)]
            if unknown:
                raise CompileError("E1001", f"{op.name}: what the attribute {unknown[0]} means is not known", origin=origin(op))
            self.lower(op, HloBuilder(block, origin(op)))
        parent = source.parent_op()
        raise ParseError("E1003", f"{origin(parent) if parent else ''}: a block has no end")

    def lower(self, op: Tx8beOp, builder: HloBuilder) -> None:
        operands = [self.values[v] for v in op.operands]
        name = op.ROW.name
        if name == "None":
            found: Sequence[Tree] = [None]
        elif name == "Tuple":
            found = [tuple(operands)]
        elif op.ROW.is_value:
            found = operands
        elif name == "Group":
            found = self.inline(op, op, operands, builder)
        elif name == "GetTupleElement":
            found = [operands[0][_index(op, operands[0])]]
        elif name == "LoadConst":
            found = [self.constant(op, builder)]
        elif name == "Call":
            callee = op.attributes["callee"]
            if not isinstance(callee, SymbolRefAttr):
                raise ParseError("E1003", f"{origin(op)}: callee is {callee}")
            called = self.inlined.get(callee.string_value())
            found = self.call(callee, op, operands, builder) if called is None else self.inline(called, op, operands, builder)
        elif name in FORMS:
            found = [FORMS[name](builder, op, operands)]
        elif op.ROW.hlo:
            found = self.same(op, operands, builder)
        else:
            raise CompileError("E1001", f"{op.name}: what it computes is not published", origin=origin(op))
        self.values.update(zip(op.results, found, strict=True))
        if (parallel := _parallel(op)) is not None:
            for value in (leaf for tree in found for leaf in leaves(tree)):
                self.share_out(value, StringAttr(parallel.sharding))

    def inline(self, source: Operation, op: Operation, operands: Sequence[Tree], builder: HloBuilder) -> Sequence[Tree]:
        """What is in a group or a subgraph, which an op has or calls; ParseError if it takes or gives something else."""
        if len(source.regions[0].blocks) != 1:
            raise ParseError("E1003", f"{builder.place}: {source.name} should have 1 block")
        block = source.regions[0].block
        _check_types(f"{builder.place}: {op.name} has operands", operands, block.args)
        self.values.update(zip(block.args, operands, strict=True))
        found = self.ops(block, builder.block)
        _check_types(f"{builder.place}: in {source.name} are results", found, op.results)
        return found

    def call(self, callee: SymbolRefAttr, op: Operation, operands: Sequence[Tree], builder: HloBuilder) -> Sequence[Tree]:
        """A call of another function."""
        types = [leaf for v in op.results for leaf in leaf_types(v.type)]
        made = builder.add(func.CallOp(callee, [leaf for tree in operands for leaf in leaves(tree)], types))
        given: Iterator[SSAValue] = iter(made.results)
        return [_tree(v.type, given) for v in op.results]

    def share_out(self, value: SSAValue, sharding: StringAttr) -> None:
        """Note the sharding of an argument, or of an op with one result, that has none yet."""
        if isinstance(value, BlockArgument):
            self.shardings.setdefault(value, sharding)
        elif isinstance(value.owner, Operation) and len(value.owner.results) == 1:
            value.owner.attributes.setdefault(SHARDING, sharding)

    def same(self, op: Tx8beOp, operands: Sequence[Tree], builder: HloBuilder) -> Sequence[SSAValue]:
        """What the table says: the StableHLO op with the same operands, attributes under their names there, and regions."""
        wanted: Mapping[str, str] = op.ROW.renamed
        attributes = {key: op.attributes[own] for key, own in wanted.items() if own in op.attributes}
        regions = [Region(self.block(region.block, "return")[0]) for region in op.regions]
        types = [leaf for v in op.results for leaf in leaf_types(v.type)]
        values = [leaf for tree in operands for leaf in leaves(tree)]
        return builder.add(_CLASSES[op.ROW.hlo](values, types, attributes, regions)).results

    def constant(self, op: Tx8beOp, builder: HloBuilder) -> SSAValue:
        type_ = tensor_in(op.results[0].type)
        if self.parameters is None or op["offset"] is None:
            hint = "hlo2tx8 run DIR reads a folder with its data"
            raise InputError("E1004", f"{origin(op)}: LoadConst: its data is in a folder's param.bin", hint=hint)
        if type_ is None or not type_.has_static_shape():
            raise ParseError("E1003", f"{origin(op)}: LoadConst gives {op.results[0].type}")
        size = type_.element_count() * dtype_of(type_).itemsize
        if not 0 <= op["offset"] <= len(self.parameters) - size:
            raise InputError("E1004", f"{origin(op)}: LoadConst: {size} bytes at {op['offset']} of {len(self.parameters)}")
        data = self.parameters[op["offset"] : op["offset"] + size]
        return builder.op("constant", [], type_, value=literal_of_bytes(data, type_))


def _index(op: Tx8beOp, tree: Tree) -> int:
    index = op["index"]
    number = getattr(getattr(index, "value", None), "data", None)
    if not isinstance(tree, tuple) or not isinstance(number, int) or not 0 <= number < len(cast(tuple[Tree, ...], tree)):
        raise ParseError("E1003", f"{origin(op)}: GetTupleElement {index}")
    return number
