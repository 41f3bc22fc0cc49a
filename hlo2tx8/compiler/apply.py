"""How the driver applies a pass: with the fields that options give it, and with its defects told from refusals."""

from dataclasses import fields, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hlo2tx8.errors import CompileError, Hlo2tx8Error
from hlo2tx8.hlo.placement import part_of, room_of
from hlo2tx8.options import Options


def configure(step: ModulePass, options: Options, **others: object) -> ModulePass:
    """A copy of the pass in which every field with the name of an option, or of one of the others, has that value."""
    known = {f.name: getattr(options, f.name) for f in fields(options)} | {"chip": str(options.chip or ""), **others}
    given = {f.name: known[f.name] for f in fields(step) if f.name in known}
    return replace(step, **given) if given else step


def for_kernel(step: ModulePass, kernel: ModuleOp) -> ModulePass:
    """The pass as it is for a kernel: of one for some tiles, or a part of the scratchpads, the chip is these."""
    part, room = part_of(kernel), room_of(kernel)
    less = f"@{part}" * bool(part) + f"#{room}" * bool(room)
    has_chip = any(f.name == "chip" for f in fields(step))
    return replace(step, chip=getattr(step, "chip", "") + less) if less and has_chip else step


def apply(step: ModulePass, ctx: Context, module: ModuleOp, where: str) -> None:
    """Apply a pass; CompileError E1006, which says `where` it was, for whatever it raises that is none of our errors."""
    try:
        step.apply(ctx, module)
    except Hlo2tx8Error:
        raise
    except Exception as error:
        raise CompileError(
            "E1006",
            f"pass {step.name} failed on {where}: {type(error).__name__}: {error}",
            hint="a defect of the compiler; --xla_dump_to=DIR shows the IR the pass was given",
        ) from error
