"""`grouped_module`: a program's module in tx8be, its ops in the groups that the compiler has made, with figures of the allocation.

An op that a plan has in several fusions is in each of their groups; one that a plan has nowhere is where its value is read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, StringAttr, TupleType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from hlo2tx8.compiler.driver import chip_of, lower
from hlo2tx8.device.program import Program, SlotKind
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.tx8be import OPS, Tx8beOp
from hlo2tx8.dialects.tx8be_attributes import DevAttr, MemScopeAttr, RegionAttr
from hlo2tx8.dialects.tx8be_shapes import dense_layout, shape_of
from hlo2tx8.hlo.module import module_name
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.spmd.partition_module import TILES
from hlo2tx8.spmd.tile_assignment import TileAssignment
from hlo2tx8.vendor.figures import Figures, Kernel
from hlo2tx8.vendor.layouts import set_layouts
from hlo2tx8.vendor.subgraphs import share_groups
from hlo2tx8.vendor.to_tx8be import FlatModule, given_parallel, to_tx8be
from hlo2tx8.vendor.units import PlanUnit, all_units, cut_module, value_key, whole_module

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
    units: list[PlanUnit] = []
    figures: dict[PlanUnit, Kernel] = {}
    programs: list[Program] = []
    for part in cut_module(source) if max(counts) > 1 else [whole_module(source)]:
        if isinstance(part, PlanUnit):
            units.append(part)
            continue
        programs.append(compile_module(part.load, options, rerolls=False).program)  # each group has a launch of its own
        found = part.units(lower(part.load, replace(options, until=Level.FUSED, dump_dir=None)).module)
        every = list(all_units(found))
        kernels = Figures(programs[-1]).kernels([unit.origin if unit.is_group else "" for unit in every])
        figures |= {every[number]: kernel for number, kernel in kernels.items()}
        units += found
    rows, columns = chip_of(options).mesh
    region = RegionAttr.of(x=0, y=0, dx=columns, dy=rows)
    numbers = {unit: number for number, unit in enumerate(all_units(units))}
    plan = _PlanFigures(figures, numbers, region, set_layouts(flat.block))
    made = _Grouper(flat, units, plan).module(module_name(source))
    for op, assignment in zip((op for op in made.walk() if op.name == "tx8be.Input"), tiles, strict=False):
        if prod(assignment.tile_counts) > 1:
            op.attributes["chip_parallel"] = given_parallel(assignment.tile_counts)
    share_groups(made)
    of_chips = zip(("mhlo.num_replicas", "mhlo.num_partitions"), counts, strict=True)
    made.attributes.update((name, IntegerAttr(count, i32)) for name, count in of_chips if count > 1)
    return made, programs


def _numbered(load: Callable[[], ModuleOp]) -> ModuleOp:
    """The module, every op with its number as its place."""
    module = load()
    for number, op in enumerate(module.walk()):
        if op is not module:
            op.attributes["loc"] = StringAttr(f"op{number}")
    return module


@dataclass(frozen=True)
class _PlanFigures:
    """Of units: the kernels of those that are groups, and numbers; the chip's tiles; layouts of the ungrouped module's values."""

    figures: Mapping[PlanUnit, Kernel]
    numbers: Mapping[PlanUnit, int]
    region: RegionAttr
    layouts: Mapping[SSAValue, str]


@dataclass
class _Grouper:
    """Puts the ops of a block, @main's or that of a loop or branch, into the groups of its units."""

    flat: FlatModule
    units: Sequence[PlanUnit]
    plan: _PlanFigures
    members: dict[int, set[Operation]] = field(default_factory=dict[int, set[Operation]])
    given: dict[int, dict[SSAValue, None]] = field(default_factory=dict[int, dict[SSAValue, None]])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def module(self, name: str) -> ModuleOp:
        block = Block(arg_types=[arg.type for arg in self.flat.block.args])
        for old, arg in zip(self.flat.block.args, block.args, strict=True):
            shape = shape_of(arg)
            attributes = {
                "layout_str": self.plan.layouts[old],
                "mem_scope": DDR,
                "dev_info": DevAttr.of(mem_layout=dense_layout(shape)),
            }
            block.add_op(made := OPS["Input"]([arg], [arg.type], attributes))
            self.values[old] = made.results[0]
        results = self.fill(block)
        type_ = TupleType([v.type for v in results])  # pyright: ignore[reportArgumentType]
        block.add_op(made := OPS["Tuple"](results, [type_], {"input_nums": len(results), "layout_str": "Tuple"}))
        block.add_op(made := OPS["Output"](made.results, [type_], {"layout_str": "Tuple", "mem_scope": DDR}))
        block.add_op(func.ReturnOp(*made.results))
        types = FunctionType.from_lists([a.type for a in block.args], [type_])
        module = ModuleOp([func.FuncOp("main", types, Region(block))])
        if name != "module":
            module.sym_name = StringAttr(name)
        for op in reversed([*module.walk()]):
            op.attributes.pop("loc", None)
            if _is_local(op) and not any(result.uses for result in op.results):  # groups that read it have their own
                op.detach()
                op.erase()
        return module

    def fill(self, block: Block) -> list[SSAValue]:
        """Append the groups, and ops beside them; the results of the ungrouped block."""
        for value in self.flat.results:
            self.demand(value)
        order = {op: number for number, op in enumerate(self.flat.block.ops)}
        for number in sorted(self.members):
            ops, unit = _in_order(self.members[number], order), self.units[number] if number < len(self.units) else None
            if unit is not None and unit.is_group:
                self.group(number, ops, block)
                continue
            for op in ops:
                if unit is not None and unit.has_groups and len(unit.bodies) == len(op.regions):
                    self.bodies(op, unit, block)
                else:
                    self.copy(op, block, self.values, None)
        return [self.values[v] for v in self.flat.results]

    def demand(self, value: SSAValue) -> None:
        """Make the ops that a result of the module needs members of units."""
        pending = [(value, len(self.units))]
        while pending:
            value, reader = pending.pop()
            op = value.owner
            if not isinstance(op, Tx8beOp) or op.parent is not self.flat.block:
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

    def bodies(self, op: Operation, unit: PlanUnit, block: Block) -> None:
        """A loop or branch with groups in its bodies."""
        regions: list[Region] = []
        for region, units in zip(op.regions, unit.bodies, strict=True):
            body = Block(arg_types=[arg.type for arg in region.block.args])
            given = self.values | dict(zip(region.block.args, body.args, strict=True))
            inner = _Grouper(FlatModule(region.block), units, self.plan, values=given)
            body.add_op(OPS["Return"](inner.fill(body)))
            regions.append(Region(body))
        made = type(op).create(
            operands=[self.values[v] for v in op.operands],
            result_types=[v.type for v in op.results],
            attributes=dict(op.attributes),
            regions=regions,
        )
        block.add_op(made)
        self.values.update(zip(op.results, made.results, strict=True))

    def group(self, number: int, ops: Sequence[Operation], block: Block) -> None:
        unit = self.units[number]
        kernel = self.plan.figures.get(unit)
        own = set(ops)
        inputs = list(dict.fromkeys(v for op in ops for v in _read(op) if v.owner not in own))
        outputs = list(self.given.get(number, {}))
        body = Block(arg_types=[v.type for v in inputs])
        inner: dict[SSAValue, SSAValue] = {}
        for place, value in enumerate(inputs):
            at = [k for k, key in enumerate(unit.operands) if key == value_key(value)]
            info = kernel.dev_info(f"argument{at[0]}") if kernel is not None and len(at) == 1 else None
            if kernel is not None and (slot := unit.inputs.get(value_key(value))) is not None:
                info = kernel.port_info(SlotKind.INPUT, slot)
            inner[value] = self.moved("LoadVar", body.args[place], value, body, info)
        for op in ops:
            self.copy(op, body, inner, kernel)
        slots = [unit.outputs.get(value_key(v)) for v in outputs]
        infos = [kernel.port_info(SlotKind.OUTPUT, slot) if kernel and slot is not None else None for slot in slots]
        stored = [self.moved("StoreVar", inner[v], v, body, info) for v, info in zip(outputs, infos, strict=True)]
        body.add_op(OPS["Return"](stored))
        attributes: dict[str, Any] = {"group_id": self.plan.numbers[unit], "group_tag": 0}
        if kernel is not None:
            figures = {"dev_region": self.plan.region, "spm_alloc_size": kernel.spm_bytes, "need_barrier": kernel.has_barrier}
            attributes |= figures
        types = [v.type for v in outputs]
        made = OPS["Group"]([self.values[v] for v in inputs], types, attributes, [Region(body)])
        block.add_op(made)
        self.values.update(zip(outputs, made.results, strict=True))

    def moved(self, name: str, value: SSAValue, old: SSAValue, block: Block, info: Attribute | None) -> SSAValue:
        layout = self.plan.layouts.get(old) or dense_layout(shape_of(old))  # in bodies nothing follows from products
        attributes: dict[str, Any] = {"layout_str": layout} | ({"dev_info": info} if info is not None else {})
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
