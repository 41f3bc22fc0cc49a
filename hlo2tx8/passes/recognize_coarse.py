"""Pass recognize-coarse: coarse ops that are wanted stay one op each, others become the instructions they are made of.

Before:                                                   After, with --keep=softmax:
    hlo.fusion "gelu"(%x) {coarse, the body}                  the body
    %m = reduce max %y ... %s = divide %e, %t                 %s = hlo.fusion "softmax"(%y) {coarse, these instructions}

Wanted are names that `keep` has, and those for which a kernel is registered. Composites and custom calls have their names from the
source; instructions are recognised by what they compute, see `rules.coarse`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DictionaryAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects.hlo import FusionOp, origin
from hlo2tx8.dialects.nested import nested_ops, ops_of
from hlo2tx8.dialects.stablehlo import ReturnOp
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.regions import CONTROL, inline_region
from hlo2tx8.ir import i64_attr
from hlo2tx8.kernel_registry import REGISTRY, canonical
from hlo2tx8.notes import add_notes
from hlo2tx8.passes.rules.coarse import RECOGNIZED, coarse_ops
from hlo2tx8.passes.rules.coarse_attention import RecognizedOp

KIND = "kCustom"
MOST_INSTRUCTIONS = 120


@dataclass(frozen=True)
class RecognizeCoarsePass(ModulePass):
    """Keep the coarse ops of these names, and those with a registered kernel; see the module docstring."""

    name = "recognize-coarse"

    keep: str = ""
    explain: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        wanted = wanted_names(self.keep)
        _check_names(self.keep, op)
        notes: list[str] = []
        for function in program_functions(op):
            _dissolve(function.body.block, wanted)
            for block in _blocks(function.body.block) if wanted else ():
                notes += keep_found(block, wanted)
        if self.explain:
            add_notes(op, notes)


def wanted_names(keep: str) -> dict[str, None]:
    """The names in a list with commas between them, and those of registered kernels."""
    return dict.fromkeys(canonical(name.strip()) for name in keep.split(",") if name.strip()) | REGISTRY.names()


def _check_names(keep: str, module: ModuleOp) -> None:
    """InputError E1004 for a name that no coarse op of the module has, nothing that is recognised, and no kernel."""
    here = {
        op.fusion_name.data for op in nested_ops(module) if isinstance(op, FusionOp) and op.coarse is not None and op.fusion_name
    }
    known = sorted({*RECOGNIZED, *REGISTRY.names(), *here})
    for name in dict.fromkeys(canonical(name.strip()) for name in keep.split(",") if name.strip()):
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InputError("E1004", f"keep: no coarse op {name} is in the module, recognised or has a kernel", hint=hint)


def recognized_in(module: ModuleOp) -> list[tuple[str, Operation, RecognizedOp | None]]:
    """The coarse ops of a module whose calls are bodies: name, last instruction, and what was found; None if the source names it.

    Fusions of the source are looked into too, though what they have stays theirs.
    """
    found: list[tuple[str, Operation, RecognizedOp | None]] = []
    for function in program_functions(module):
        for op in function.walk():
            if isinstance(op, FusionOp) and op.coarse is not None:
                found.append((op.fusion_name.data if op.fusion_name else "", op, None))
            elif isinstance(op, FuncOp | FusionOp) or op.name in CONTROL:
                made = [each for region in op.regions for each in coarse_ops(region.block)]
                found += [(each.name, each.root.owner, each) for each in made if isinstance(each.root.owner, Operation)]
    return found


def _blocks(block: Block) -> Iterator[Block]:
    """A block, and those of the control flow in it."""
    yield block
    for op in block.ops:
        if op.name in CONTROL:
            for region in op.regions:
                yield from _blocks(region.block)


def _dissolve(block: Block, wanted: Mapping[str, None]) -> None:
    """Replaces coarse ops that are not wanted, or are inside of one that is, by what they are made of."""
    waiting = ops_of(block)[::-1]
    while waiting:
        op = waiting.pop()
        if isinstance(op, FusionOp) and op.coarse is not None:
            inside = ops_of(op.body.block)[:-1]
            if op.fusion_name is None or op.fusion_name.data not in wanted:
                inline_region(op, op.body.block, list(op.operands))
                waiting += inside[::-1]
            else:
                _dissolve(op.body.block, {})
        elif op.name in CONTROL:
            for region in op.regions:
                _dissolve(region.block, wanted)


def keep_found(block: Block, wanted: Mapping[str, None]) -> list[str]:
    """Makes fusions of what is recognised in a block and wanted, the larger of two that share instructions; a line for each."""
    found = [each for each in coarse_ops(block) if each.name in wanted]
    notes: list[str] = []
    made: dict[SSAValue, SSAValue] = {}
    for each in sorted(found, key=lambda one: one.name != "sdpa"):
        root = each.root.owner
        if not isinstance(root, Operation) or root.parent is not block:
            continue
        each = replace(each, inputs=tuple(made.get(value, value) for value in each.inputs))
        inside = _instructions(block, each)
        if inside:
            notes.append(f"{each.name} recognised at {origin(root)}")
            made[each.root] = _outline(root, each, inside)
    return notes


def _instructions(block: Block, found: RecognizedOp) -> list[Operation]:
    """The instructions from the inputs to the root, in the block's order; none if they need something else, or are too many."""
    inside: dict[Operation, None] = {}
    waiting = [found.root]
    while waiting and len(inside) <= MOST_INSTRUCTIONS:
        value = waiting.pop()
        owner = value.owner
        if value in found.inputs or owner in inside:
            continue
        if not isinstance(owner, Operation) or owner.parent is not block or len(owner.results) != 1:
            return []
        inside[owner] = None
        waiting += owner.operands
    return [op for op in block.ops if op in inside] if len(inside) <= MOST_INSTRUCTIONS else []


def _outline(root: Operation, found: RecognizedOp, inside: Sequence[Operation]) -> SSAValue:
    """The result of the fusion in the place of the root; instructions that nobody reads any more go."""
    body = Block(arg_types=[value.type for value in found.inputs])
    copies: dict[SSAValue, SSAValue] = dict(zip(found.inputs, body.args, strict=True))
    for op in inside:
        body.add_op(op.clone(copies))
    body.add_op(ReturnOp([copies[found.root]]))
    fusion = FusionOp(list(found.inputs), [found.root.type], KIND, Region(body), found.name)
    fusion.properties["coarse"] = DictionaryAttr({name: _attribute(value) for name, value in found.attributes.items()})
    fusion.attributes |= {key: value for key, value in root.attributes.items() if key == "loc"}
    Rewriter.replace_op(root, fusion)
    for op in reversed(inside):
        if op is not root and all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)
    return fusion.results[0]


def _attribute(value: Any) -> Attribute:
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return i64_attr(value)
        case float():
            return FloatAttr(value, f64)
        case str():
            return StringAttr(value)
        case _:
            return ArrayAttr([_attribute(each) for each in value])
