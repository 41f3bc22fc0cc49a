"""The command `scale`: sizes of a model, plans of how chips share its training, a table and a picture of what steps take."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.device.rates import Rates
from hlo2tx8.errors import InputError
from hlo2tx8.spmd.scale_model import SCHEDULES, ParallelPlan, StepTime, step_time
from hlo2tx8.tools.flags import add_compiler_flags, options_of, whole
from hlo2tx8.tools.scale.llama import Llama
from hlo2tx8.tools.scale.picture import picture
from hlo2tx8.tools.scale.piece_costs import PieceCosts
from hlo2tx8.tools.table import Table, count, percent, size

SIZES = {"layers": 24, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 5632, "vocabulary": 32000, "sequence": 2048}
"""Of the model that is taken where no flag says another."""
DTYPES = ("bfloat16", "float16", "float32")


@dataclass(frozen=True)
class ScaleRow:
    """What a step takes by one plan: its time and what that is, memory of a chip, tokens per second, the share of the chips' peak
    that six operations for each parameter and token take."""

    plan: ParallelPlan
    mesh: ChipMesh
    time: StepTime
    memory_bytes: float
    seconds: float
    tokens_per_second: float
    utilization: float


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `scale`."""
    parser.set_defaults(function=scale, file="", input_literals_file=None)
    model = parser.add_argument_group("model")
    for name, default in SIZES.items():
        model.add_argument(f"--{name}", type=whole(1), default=default, metavar="N", help=f"({default})")
    model.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="of parameters and activations (bfloat16)")
    group = parser.add_argument_group("training")
    group.add_argument("--batch", type=whole(1), default=512, metavar="N", help="sequences of a step, on all chips (512)")
    group.add_argument("--microbatch", type=whole(1), default=1, metavar="N", help="sequences that a chip takes at once (1)")
    text = "replicas x parts of tensors x stages of the pipeline, as 64x8x1; may be given more than once"
    group.add_argument("--plan", action="append", default=[], metavar="DPxTPxPP", help=text)
    group.add_argument("--schedule", choices=SCHEDULES, default="1f1b", help="of the stages (1f1b)")
    group.add_argument("--format", choices=("text", "json"), default="text", help="(text)")
    group.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of tokens per second over chips")
    add_compiler_flags(parser)


def scale(args: Any) -> int:
    """Print a row for each plan; 0, or an Hlo2tx8Error is raised."""
    from hlo2tx8.compiler.driver import chip_of
    from hlo2tx8.errors import writing

    options = options_of(args)
    chip = chip_of(options)
    model = Llama(**{name: getattr(args, name) for name in SIZES}, dtype=args.dtype)
    plans = [_plan(text, args.batch, args.microbatch) for text in args.plan]
    if not plans:
        raise InputError("E1004", "no --plan is given", hint="--plan=2x8x1 is two replicas of tensors on eight chips each")
    for plan in plans:
        _check(model, plan, ChipMesh.of(chip, plan.num_chips))
    costs = PieceCosts(model, options, chip, lambda name: print(f"compiles {name}", file=sys.stderr))
    rows = [_row(costs, plan, chip, args) for plan in plans]
    if args.format == "json":
        print(json.dumps({"model": asdict(model), "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        sys.stdout.write(text_of(model, rows, chip))
    if args.svg is not None:
        with writing(args.svg):
            args.svg.write_text(picture([(row.plan.num_chips, row.tokens_per_second, _name(row.plan)) for row in rows]))
    return 0


def _plan(text: str, batch: int, microbatch: int) -> ParallelPlan:
    """The plan that is written like 64x8x1."""
    numbers = text.split("x")
    if len(numbers) != 3 or not all(number.isdigit() and int(number) for number in numbers):
        raise InputError("E1004", f"--plan={text} is not three numbers", hint="DPxTPxPP, as 64x8x1")
    dp, tp, pp = map(int, numbers)
    if batch % (dp * microbatch):
        raise InputError(
            "E1004", f"--plan={text}: {batch} sequences are no multiple of {dp} replicas' microbatches of {microbatch}"
        )
    return ParallelPlan(dp, tp, pp, batch // (dp * microbatch))


def _check(model: Llama, plan: ParallelPlan, mesh: ChipMesh) -> None:
    """InputError if a plan does not divide the model, or the mesh."""
    for what, number in (
        ("heads", model.heads),
        ("kv_heads", model.kv_heads),
        ("ffn", model.ffn),
        ("vocabulary", model.vocabulary),
    ):
        if number % plan.tp:
            raise InputError("E1004", f"--plan={_name(plan)}: --{what}={number} is no multiple of {plan.tp}")
    if model.layers % plan.pp:
        raise InputError("E1004", f"--plan={_name(plan)}: --layers={model.layers} is no multiple of {plan.pp} stages")
    if model.hidden % model.heads or model.heads % model.kv_heads:
        raise InputError("E1004", f"--heads={model.heads} is no divisor of --hidden={model.hidden}, or no multiple of --kv_heads")
    if not plan.is_in_rectangles(mesh):
        why = f"{plan.tp} parts of a tensor are no rectangle of a mesh of {mesh.columns} x {mesh.rows} chips"
        raise InputError("E1004", f"--plan={_name(plan)}: {why}")


def _row(costs: PieceCosts, plan: ParallelPlan, chip: Chip, args: Any) -> ScaleRow:
    model, mesh = costs.model, ChipMesh.of(chip, plan.num_chips)
    pieces = costs.pieces(plan, args.microbatch)
    time = step_time(pieces, plan, mesh, chip, args.schedule)
    seconds = time.cycles / chip.clock_hz
    tokens = args.batch * model.sequence / seconds
    peak = plan.num_chips * 2 * chip.tiles * Rates.of(chip).products * chip.clock_hz
    memory = costs.memory_bytes(plan, pieces, args.schedule)
    return ScaleRow(plan, mesh, time, memory, seconds, tokens, 6 * model.num_parameters * tokens / peak)


def _name(plan: ParallelPlan) -> str:
    return f"{plan.dp}x{plan.tp}x{plan.pp}"


def text_of(model: Llama, rows: Sequence[ScaleRow], chip: Chip) -> str:
    """A table of the rows, and a line about the model."""
    header = (">chips", "plan", "mesh", ">micro", ">step", ">tokens/s", ">of peak", ">programs", ">tensor links")
    header += (">stage links", ">gradients", ">bubble", ">update", ">memory")
    cells: list[Sequence[str]] = []
    for row in rows:
        t = row.time
        parts = (t.programs, t.tensor_links, t.stage_links, t.replica_links, t.bubble, t.update)
        memory = size(row.memory_bytes, "B") + ("!" if row.memory_bytes > chip.ddr_bytes else "")
        mesh = f"{row.mesh.columns} x {row.mesh.rows}"
        start = (str(row.plan.num_chips), _name(row.plan), mesh, str(row.plan.microbatches), f"{row.seconds:.3f} s")
        shares = (percent(part / t.cycles) for part in parts)
        cells.append((*start, count(row.tokens_per_second), percent(row.utilization), *shares, memory))
    large = any(row.memory_bytes > chip.ddr_bytes for row in rows)
    note = f"! more than the {size(chip.ddr_bytes, 'B')} that a chip has\n" if large else ""
    lead = f"{size(model.num_parameters)} parameters, {model.layers} layers of {model.hidden}, {model.sequence} tokens\n"
    return lead + Table(header, cells).text(is_terminal=False) + note
