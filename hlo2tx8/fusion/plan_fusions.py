"""Pass plan-fusions: every instruction of @main ends up in a fusion, is control flow or a call; fusions of the source are kept.

Before:
    %0 = stablehlo.constant 2.0, %1 = stablehlo.broadcast_in_dim %0, %2 = stablehlo.multiply %a, %1
    %3 = stablehlo.add %2, %a
    func.return %3

After:
    %0 = hlo.fusion "add_fusion"(%a) { ^bb0(%p0): the four instructions; stablehlo.return } kind kLoop
    func.return %0

From the last instruction up, each joins the fusion of its readers where that saves modelled cycles: `candidate_walk` has the
rules, `costs` what they weigh. Broadcasts, iotas and scalar constants cost nothing: every fusion that needs one has its own.
Other instructions are fusions of their own. The regions of control flow, and the functions that are
called, are fused like @main; a fusion never spans them. A
dynamic_update_slice is no fusion's: the program writes into the value itself. A fusion of the source with one in it, or with
an op that became several kernels, is taken apart.
"""

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from hlo2tx8.device.chip import Chip, load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, LibraryOp
from hlo2tx8.dialects.nested import ops_of
from hlo2tx8.fusion.build_fusions import build_fusions, move_constants
from hlo2tx8.fusion.candidate import is_kernel_of_its_own, name_of
from hlo2tx8.fusion.coarse import settle
from hlo2tx8.fusion.find_candidates import find_candidates
from hlo2tx8.fusion.fused_module import FusedModule, describe
from hlo2tx8.fusion.library_epilogues import join_epilogues
from hlo2tx8.fusion.place_constants import place_constants
from hlo2tx8.hlo.module import program_functions
from hlo2tx8.hlo.placement import placed_calls
from hlo2tx8.hlo.regions import CONTROL, inline_region
from hlo2tx8.notes import Decision, Name, What, add_notes
from hlo2tx8.schedule.costs import Costs


@dataclass(frozen=True)
class PlanFusionsPass(ModulePass):
    """Rewrites @main into fusions; see the module docstring."""

    name = "plan-fusions"

    explain: bool = False
    chip: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        planned = plan_fusions(op, self.chip)
        if self.explain:
            add_notes(op, [decision.line() for decision in planned.decisions])


def plan_fusions(module: ModuleOp, chip: str = "") -> FusedModule:
    """Fuse @main in place for a chip, and describe the result; InputError if there is no @main."""
    plan = _BlockFusions()
    whole = load_chip(chip)
    calls = ((call, tiles) for call, tiles in placed_calls(module, whole.mesh) if not tiles.is_all(whole.mesh))
    parts = {call.callee.string_value(): tiles.num_tiles for call, tiles in calls}
    for function in program_functions(module):
        place_constants(function.body.block)
        part = parts.get(function.sym_name.data)
        plan.fuse(
            function.body.block, Costs(Rates.of(whole if part is None else whole.part(part))), whole if part is None else None
        )
    return describe(module, tuple(plan.decisions))


@dataclass
class _BlockFusions:
    """What was decided so far; how many fusions have each name, and how many instructions have numbers."""

    decisions: list[Decision] = field(default_factory=list[Decision])
    taken: dict[str, int] = field(default_factory=dict[str, int])
    numbered: int = 0

    def fuse(self, block: Block, costs: Costs, chip: Chip | None) -> None:
        """Fuse a block after the regions of its control flow; `chip` if all of it runs the block, so that kernels for it may."""
        for op in [op for op in block.ops if isinstance(op, FusionOp) and op.coarse is not None]:
            self.decisions.append(settle(op, costs, chip))
        for op in ops_of(block):
            if op.name == "hlo.fusion" and any(is_kernel_of_its_own(inner) for inner in op.regions[0].block.ops):
                inline_region(op, op.regions[0].block, list(op.operands))
        for op in ops_of(block):
            if op.name in CONTROL:
                for region in op.regions:
                    self.fuse(region.block, costs, chip)
            elif op.name == "hlo.fusion":
                move_constants(op)
        start = self.numbered
        numbers = {op: number for number, op in enumerate(block.ops, start)}
        candidates, decisions = find_candidates(block, costs, start)
        self.numbered += len(numbers)
        members = [[name for op in c.members for name in _names(op, numbers[op])] for c in candidates]
        made: dict[Operation, list[Name]] = dict(zip(build_fusions(block, candidates, self.taken), members, strict=True))
        self.decisions += decisions
        self.decisions += join_epilogues(block, numbers, made)
        for op in block.ops:
            if isinstance(op, FusionOp):
                inside = made.get(op) or _names(op, numbers.get(op, -1))
                reads = [v.owner for v in op.operands if isinstance(v.owner, FusionOp | LibraryOp)]
                self.decisions.append(
                    Decision(What.FUSION, tuple(inside), name_of(op), reads=tuple(dict.fromkeys(str(name_of(o)) for o in reads)))
                )


def _names(op: Operation, number: int) -> list[Name]:
    """An instruction, and what is in it if it is a fusion."""
    inner = ops_of(op.body.block)[:-1] if isinstance(op, FusionOp) else []
    return [name_of(op, number), *(name_of(other, number) for other in inner)]
