"""From a source of HLO to a netlist that computes the same, with the constants that it reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.compiler.apply import apply
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.errors import InputError, UnsupportedError, UnsupportedOp
from hlo2tx8.hlo.module import find_main, module_name
from hlo2tx8.hlo.signature import Port, dtype_of, signature_of
from hlo2tx8.netlist.emit.assemble import GRIDS, Setup, assemble
from hlo2tx8.netlist.emit.build import Builder, Step, Value
from hlo2tx8.netlist.emit.fuse import fused
from hlo2tx8.netlist.emit.layout import AXES, Layout, plain
from hlo2tx8.netlist.emit.operands import Operand, agreed, is_empty, placed
from hlo2tx8.netlist.emit.walk import ModuleWalk
from hlo2tx8.netlist.formats import FLOATS, FORMATS, Array
from hlo2tx8.netlist.model import Netlist
from hlo2tx8.netlist.shapes import Shape
from hlo2tx8.passes.expand_batch_norm import ExpandBatchNormPass
from hlo2tx8.passes.expand_bitcast import ExpandBitcastPass
from hlo2tx8.passes.expand_chlo import ExpandChloPass
from hlo2tx8.passes.expand_dynamic_broadcast import ExpandDynamicBroadcastPass
from hlo2tx8.passes.expand_one_window import ExpandOneWindowPass
from hlo2tx8.passes.expand_parts import ExpandPartsPass
from hlo2tx8.passes.inline_calls import InlineCallsPass
from hlo2tx8.passes.simplify_combiners import SimplifyCombinersPass
from hlo2tx8.passes.simplify_control import SimplifyControlPass
from hlo2tx8.passes.simplify_hlo import SimplifyHloPass

PASSES = (
    InlineCallsPass(),
    ExpandChloPass(),
    SimplifyCombinersPass(),
    ExpandPartsPass(),
    ExpandDynamicBroadcastPass(),
    ExpandOneWindowPass(),
    ExpandBitcastPass(),
    ExpandBatchNormPass(),
    SimplifyControlPass(),
    SimplifyHloPass(),
)
"""Those of the compiler whose results a netlist has ops for."""
OF_DTYPES: Mapping[str, str] = {
    "float32": "Float32",
    "bfloat16": "Float16_b",
    "float16": "Float16",
    "int8": "Int8",
    "uint8": "UInt8",
    "int32": "Int32",
    "int64": "Int32",
    "bool": "Float32",
}


@dataclass(frozen=True)
class Emitted:
    """A netlist with the constants that its rams hold, [1, z, rows, columns] by name, and the arrays it takes and gives by name."""

    netlist: Netlist
    constants: Mapping[str, Array]
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]

    def host_inputs(self, arrays: Mapping[str, Sequence[Array]]) -> dict[str, Array]:
        """What `netlist run --inputs` takes: constants and, for each argument, its arrays as tensors of whole tiles with zeros
        around. InputError if one is missing or of another shape.
        """
        made = dict(self.constants)
        for name, port in self.inputs.items():
            given = [np.asarray(array) for array in arrays.get(name, ())]
            entries = self.netlist.queues[name].entries
            if len(given) != entries or any(array.shape != port.shape for array in given):
                raise InputError("E1004", f"argument {name} should be {entries} times {port}")
            made[name] = np.stack([packed(array.astype(np.float32), plain(port.shape)) for array in given])
        return made

    def results(self, found: Mapping[str, Array]) -> dict[str, list[Array]]:
        """Arrays of the source's shapes and types from what `netlist run` gives."""
        return {
            name: [unpacked(tensor, plain(port.shape)).astype(dtype_of(port.dtype)) for tensor in found[name]]
            for name, port in self.outputs.items()
        }


def packed(array: Array, layout: Layout) -> Array:
    """A tensor [z, rows, columns] with an array in its place, and zeros elsewhere."""
    data = np.zeros(layout.tiles.elements, np.float32)
    keys = layout.keys
    data[tuple(layout.places(name, keys) for name in AXES)] = array.reshape([layout.size(key) for key in keys])
    return data


def unpacked(tensor: Array, layout: Layout) -> Array:
    """The array that lies in a tensor."""
    keys = layout.keys
    return tensor[tuple(layout.places(name, keys) for name in AXES)].reshape(layout.shape)


def emit(
    source: object,
    args: Sequence[object] | None = None,
    *,
    arch: str = "wormhole_b0",
    grid: tuple[int, int] | None = None,
    format: str = "",
    tensors: int = 1,
    turns: int = 1,
    sparse: bool = False,
) -> Emitted:
    """The netlist of anything that `compile` takes, or of a module, which is changed; `args` are example arguments of a function.
    Arguments that it does not use are left out of their numbers.

    Floats are in `format`, else in that of their own type. It runs on `tensors` of each argument at once, `turns` times.
    Matrices that are mostly zeros are products that an encoding lists if they are large, or if it shall be `sparse`.
    UnsupportedError names every instruction that a netlist has no form for.
    """
    module = source if isinstance(source, ModuleOp) else load_source(source, args=args)
    for step in PASSES:
        apply(step, Context(), module, module_name(module))
    return emit_module(module, Setup(arch, grid or GRIDS.get(arch, (8, 8)), tensors, turns), format, sparse=sparse)


def emit_module(module: ModuleOp, plan: Setup, format: str = "", *, sparse: bool = False) -> Emitted:
    """The netlist of a module that the passes have been run on."""

    def format_of(dtype: np.dtype[Any]) -> str | None:
        found = OF_DTYPES.get(dtype.name)
        return format if format and found in FLOATS else found

    signature, main = signature_of(module), find_main(module)
    builder = Builder(arch=plan.arch, sparse=sparse)
    walk = ModuleWalk(builder, format_of)
    inputs = dict(zip(_names(signature.inputs, "arg"), signature.inputs, strict=True))
    for (name, port), value in zip(inputs.items(), main.body.block.args, strict=True):
        df = format_of(dtype_of(port.dtype))
        if df is None or 0 in port.shape:
            walk.refused.append(UnsupportedOp("parameter", (name,), f"no tensor of {port}"))
            walk.missing.add(value)
            continue
        layout = plain(port.shape)
        builder.known[name] = (layout.tiles, df)
        walk.values[value] = Value(name, layout, df, 0.0)
    returned = walk.block(main.body.block)
    if walk.refused:
        raise UnsupportedError(walk.refused)
    builder.what, builder.origin = "result", ""
    outputs = dict(zip(_names(signature.outputs, "out"), signature.outputs, strict=True))
    taken: set[str] = set()
    sources = {name: _fed(builder, walk.values[value], taken) for name, value in zip(outputs, returned, strict=True)}
    steps, chains = fused(_needed(builder.steps, sources.values()), taken, plan.arch)
    queues: dict[str, tuple[Shape, str]] = {name: builder.known[name] for name in inputs if name in _read(steps)}
    shapes = {name: str(port).replace(",", "x") for name, port in {**inputs, **outputs}.items()}
    netlist = assemble(builder, steps, chains, queues, sources, plan, shapes)
    constants = {name: data[None] for name, data in builder.rams.items() if name in netlist.queues}
    return Emitted(netlist, constants, {name: inputs[name] for name in queues}, outputs)


def _names(ports: Sequence[Port], word: str) -> list[str]:
    return [f"{word}{number}" for number in range(len(ports))]


def _fed(builder: Builder, operand: Operand, taken: set[str]) -> str:
    """The op that makes a result as the host has it, for one queue alone."""
    if is_empty(operand) or operand.df not in FORMATS:
        raise builder.refuse(f"no tensor without elements, or of {operand.df or 'its element type'}")
    target = plain(operand.layout.shape)
    (operand, _), (_, target) = agreed(builder, [operand, Value("", target, operand.df)])
    value = placed(builder, operand, target)
    if value.tms or value.source not in builder.steps or value.source in taken:
        value = builder.copied(value)
    taken.add(value.source)
    return value.source


def _read(steps: Sequence[Step]) -> set[str]:
    return {source for step in steps for source, _ in step.inputs}


def _needed(steps: Mapping[str, Step], wanted: Iterable[str]) -> list[Step]:
    """Ops that results are made of, in order."""
    needed = set(wanted)
    kept: list[Step] = []
    for step in reversed(list(steps.values())):
        if step.name in needed:
            kept.insert(0, step)
            needed |= {source for source, _ in step.inputs}
    return kept
