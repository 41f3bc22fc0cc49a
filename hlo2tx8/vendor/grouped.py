"""`grouped_module`: a program's module in tx8be, its ops in the groups that the compiler has made, with figures of the allocation.

An op that a plan has in several fusions is in each of their groups; one that a plan has nowhere is where its value is read.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, StringAttr, TupleType, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from hlo2tx8.compiler.driver import chip_of, lower
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.dialects.hlo import FusionOp, GroupOp, origin
from hlo2tx8.dialects.tx8be import OPS, Tx8beOp
from hlo2tx8.dialects.tx8be_attributes import DevAttr, MemScopeAttr, RegionAttr
from hlo2tx8.dialects.tx8be_shapes import dense_layout, shape_of
from hlo2tx8.hlo.module import find_main, module_name
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.spmd.partition_module import TILES
from hlo2tx8.spmd.segments import HostOp, Segment, cut_at_host_ops
from hlo2tx8.spmd.tile_assignment import TileAssignment
from hlo2tx8.vendor.figures import Figures, Kernel
from hlo2tx8.vendor.layouts import set_layouts
from hlo2tx8.vendor.to_tx8be import FlatModule, given_parallel, to_tx8be

DDR = MemScopeAttr("DDR")
LOCAL = ("Constant", "None")
"""Ops that every group has for itself."""
GroupedModule = tuple[ModuleOp, list[Program]]


def grouped_module(
    load: Callable[[], ModuleOp], options: Options, counts: tuple[int, int] = (1, 1), tiles: Sequence[TileAssignment] = ()
) -> GroupedModule:
    """The module that `load` gives, in tx8be, and the programs that its figures are of.

    `counts` of replicas and partitions: the module is what each of several chips runs, in parts between collective ops; `tiles`:
    how its arguments are shared out. Errors as of the compiler; CompileError where an op has none in tx8be.
    """
    numbered = partial(_numbered, load)
    source = numbered()
    flat = to_tx8be(source)
    for op in source.walk():
        op.attributes.pop(TILES, None)
    units: list[_Unit] = []
    figures: dict[int, Kernel] = {}
    programs: list[Program] = []
    for part in _parts(source) if max(counts) > 1 else [_whole(source)]:
        if isinstance(part, _Unit):
            units.append(part)
            continue
        programs.append(compile_module(part.load, options).program)
        found = part.units(lower(part.load, replace(options, until=Level.FUSED, dump_dir=None)).module)
        kernels = Figures(programs[-1]).kernels([unit.origin if unit.is_group else "" for unit in found])
        figures |= {len(units) + number: kernel for number, kernel in kernels.items()}
        units += found
    rows, columns = chip_of(options).mesh
    region = RegionAttr.of(x=0, y=0, dx=columns, dy=rows)
    made = _Grouper(flat, units, figures, region, set_layouts(flat.block)).module(module_name(source))
    for op, assignment in zip((op for op in made.walk() if op.name == "tx8be.Input"), tiles, strict=False):
        if prod(assignment.tile_counts) > 1:
            op.attributes["chip_parallel"] = given_parallel(assignment.tile_counts)
    numbers = zip(("mhlo.num_replicas", "mhlo.num_partitions"), counts, strict=True)
    made.attributes.update((name, IntegerAttr(count, i32)) for name, count in numbers if count > 1)
    return made, programs


@dataclass(frozen=True)
class _Segment:
    """A module that is compiled as one, and what its arguments and results are in the whole."""

    module: ModuleOp
    inputs: Sequence[Hashable]
    outputs: Sequence[Hashable]

    def load(self) -> ModuleOp:
        """A copy for the compiler."""
        return self.module.clone()

    def units(self, fused: ModuleOp) -> "list[_Unit]":
        """The units of its plan."""
        ports = {key: slot for slot, key in enumerate(self.inputs)}, {key: slot for slot, key in enumerate(self.outputs)}
        ops = [op for op in find_main(fused).body.block.ops if not isinstance(op, func.ReturnOp)]
        return [_Unit.of(op, self.inputs, *ports) for op in ops]


def _whole(module: ModuleOp) -> _Segment:
    block = find_main(module).body.block
    assert block.last_op is not None
    return _Segment(module, range(len(block.args)), [_key(value) for value in block.last_op.operands])


def _parts(module: ModuleOp) -> "list[_Segment | _Unit]":
    """The segments and collective ops; nothing, and so no groups, where such ops are in loops or branches."""
    steps = cut_at_host_ops(module).steps
    keys: dict[int, Hashable] = dict(enumerate(range(len(find_main(module).body.block.args))))
    found: list[_Segment | _Unit] = []
    for step in steps:
        if isinstance(step, HostOp):
            keys.update((number, (origin(step.op), k)) for k, number in enumerate(step.outputs))
            found.append(_Unit(origin(step.op), False, frozenset([origin(step.op)]), [], {}, {}))
        elif isinstance(step, Segment):
            inner = _whole(step.module)
            keys.update(zip(step.outputs, inner.outputs, strict=True))
            found.append(_Segment(step.module, [keys[number] for number in step.inputs], inner.outputs))
        else:
            return []
    return found


def _numbered(load: Callable[[], ModuleOp]) -> ModuleOp:
    """The module, every op with its number as its place."""
    module = load()
    for number, op in enumerate(module.walk()):
        if op is not module:
            op.attributes["loc"] = StringAttr(f"op{number}")
    return module


@dataclass(frozen=True)
class _Unit:
    """A fusion or group of the plan, or an op beside them: the numbers of the ops in it, and what the operands of a fusion are;
    the slots of inputs and outputs of the program that it is in, by what they are."""

    origin: str
    is_group: bool
    ids: frozenset[str]
    operands: Sequence[Hashable]
    inputs: Mapping[Hashable, int]
    outputs: Mapping[Hashable, int]

    @staticmethod
    def of(op: Operation, given: Sequence[Hashable], inputs: Mapping[Hashable, int], outputs: Mapping[Hashable, int]) -> "_Unit":
        """`given`: what the arguments of its module are."""
        is_group = isinstance(op, FusionOp | GroupOp)
        inner = op.walk() if is_group else [op]
        operands = [given[key] if isinstance(key := _key(value), int) else key for value in op.operands]
        return _Unit(origin(op), is_group, frozenset(filter(None, map(origin, inner))), operands, inputs, outputs)


def _key(value: SSAValue) -> Hashable:
    """What a value is: an argument of @main, or a result of the op of that number."""
    if isinstance(value, BlockArgument):
        return value.index
    op, number = value.owner, cast(OpResult, value).index
    while isinstance(op, FusionOp | GroupOp):
        assert op.body.block.last_op is not None
        value = op.body.block.last_op.operands[number]
        if isinstance(value, BlockArgument):
            return _key(op.operands[value.index])
        op, number = value.owner, cast(OpResult, value).index
    assert isinstance(op, Operation)
    return (origin(op), number)


@dataclass
class _Grouper:
    flat: FlatModule
    units: Sequence[_Unit]
    figures: Mapping[int, Kernel]
    region: RegionAttr
    layouts: Mapping[SSAValue, str]
    members: dict[int, set[Operation]] = field(default_factory=dict[int, set[Operation]])
    given: dict[int, dict[SSAValue, None]] = field(default_factory=dict[int, dict[SSAValue, None]])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def module(self, name: str) -> ModuleOp:
        block = Block(arg_types=[arg.type for arg in self.flat.block.args])
        for old, arg in zip(self.flat.block.args, block.args, strict=True):
            shape = shape_of(arg)
            attributes = {"layout_str": self.layouts[old], "mem_scope": DDR, "dev_info": DevAttr.of(mem_layout=dense_layout(shape))}
            block.add_op(made := OPS["Input"]([arg], [arg.type], attributes))
            self.values[old] = made.results[0]
        for value in self.flat.results:
            self.demand(value)
        order = {op: number for number, op in enumerate(self.flat.block.ops)}
        for number in sorted(self.members):
            ops = _in_order(self.members[number], order)
            if number < len(self.units) and self.units[number].is_group:
                self.group(number, ops, block)
            else:
                for op in ops:
                    self.copy(op, block, self.values, None)
        results = [self.values[v] for v in self.flat.results]
        type_ = TupleType([v.type for v in results])  # pyright: ignore[reportArgumentType]
        block.add_op(made := OPS["Tuple"](results, [type_], {"input_nums": len(results), "layout_str": "Tuple"}))
        block.add_op(made := OPS["Output"](made.results, [type_], {"layout_str": "Tuple", "mem_scope": DDR}))
        block.add_op(func.ReturnOp(*made.results))
        types = FunctionType.from_lists([a.type for a in block.args], [type_])
        module = ModuleOp([func.FuncOp("main", types, Region(block))])
        if name != "module":
            module.sym_name = StringAttr(name)
        for op in module.walk():
            op.attributes.pop("loc", None)
        return module

    def demand(self, value: SSAValue) -> None:
        """Make the ops that a result of the module needs members of units."""
        pending = [(value, len(self.units))]
        while pending:
            value, reader = pending.pop()
            op = value.owner
            if not isinstance(op, Tx8beOp) or value in self.flat.block.args:
                continue
            unit = self.unit_of(op, reader)
            if unit != reader:
                self.given.setdefault(unit, {})[value] = None
            if op not in self.members.setdefault(unit, set()):
                self.members[unit].add(op)
                pending += [(v, unit) for v in _read(op)]

    def unit_of(self, op: Tx8beOp, reader: int) -> int:
        """The unit that gives the op's value to a reader: itself if it has the op, else the last before it that does."""
        if _is_local(op):
            return reader
        place = origin(op)
        if reader < len(self.units) and place in self.units[reader].ids:
            return reader
        return next((k for k in reversed(range(min(reader, len(self.units)))) if place in self.units[k].ids), reader)

    def copy(self, op: Operation, block: Block, values: dict[SSAValue, SSAValue], kernel: Kernel | None) -> None:
        made = op.clone(value_mapper=dict(values))
        info = kernel.dev_info(origin(op)) if kernel is not None and origin(op) else None
        if info is not None:
            made.attributes["dev_info"] = info
        block.add_op(made)
        values.update(zip(op.results, made.results, strict=True))

    def group(self, number: int, ops: Sequence[Operation], block: Block) -> None:
        kernel, unit = self.figures.get(number), self.units[number]
        own = set(ops)
        inputs = list(dict.fromkeys(v for op in ops for v in _read(op) if v.owner not in own))
        outputs = list(self.given.get(number, {}))
        body = Block(arg_types=[v.type for v in inputs])
        inner: dict[SSAValue, SSAValue] = {}
        for place, value in enumerate(inputs):
            at = [k for k, key in enumerate(unit.operands) if key == _key(value)]
            info = kernel.dev_info(f"argument{at[0]}") if kernel is not None and len(at) == 1 else None
            if kernel is not None and (slot := unit.inputs.get(_key(value))) is not None:
                info = kernel.port_info(SlotKind.INPUT, slot)
            inner[value] = self.moved("LoadVar", body.args[place], value, body, info)
        for op in ops:
            self.copy(op, body, inner, kernel)
        slots = [unit.outputs.get(_key(v)) for v in outputs]
        infos = [kernel.port_info(SlotKind.OUTPUT, slot) if kernel and slot is not None else None for slot in slots]
        stored = [self.moved("StoreVar", inner[v], v, body, info) for v, info in zip(outputs, infos, strict=True)]
        body.add_op(OPS["Return"](stored))
        attributes: dict[str, Any] = {"group_id": number, "group_tag": 0}
        if kernel is not None:
            figures = {"dev_region": self.region, "spm_alloc_size": kernel.spm_bytes, "need_barrier": kernel.has_barrier}
            attributes |= figures
        types = [v.type for v in outputs]
        made = OPS["Group"]([self.values[v] for v in inputs], types, attributes, [Region(body)])
        block.add_op(made)
        self.values.update(zip(outputs, made.results, strict=True))

    def moved(self, name: str, value: SSAValue, old: SSAValue, block: Block, info: Attribute | None) -> SSAValue:
        attributes: dict[str, Any] = {"layout_str": self.layouts[old]} | ({"dev_info": info} if info is not None else {})
        block.add_op(made := OPS[name]([value], [value.type], attributes))
        return made.results[0]


def _read(op: Operation) -> list[SSAValue]:
    """What an op reads of the block that it is in, also in its regions."""
    inner = dict.fromkeys(op.walk())
    reads = (value for each in inner for value in each.operands)
    blocks = {block for each in inner for region in each.regions for block in region.blocks}
    return list(dict.fromkeys(v for v in reads if v.owner not in inner and v.owner not in blocks))


def _in_order(members: set[Operation], order: Mapping[Operation, int]) -> list[Operation]:
    """The members of a unit as they stand in the module, constants in front of what reads them first."""
    found: dict[Operation, None] = {}
    for op in sorted((op for op in members if not _is_local(op)), key=order.__getitem__):
        found |= dict.fromkeys(v.owner for v in _read(op) if isinstance(v.owner, Operation) and _is_local(v.owner))
        found[op] = None
    rest = sorted((op for op in members if op not in found), key=order.__getitem__)
    return [*found, *rest]


def _is_local(op: Operation) -> bool:
    return isinstance(op, Tx8beOp) and op.ROW.name in LOCAL
