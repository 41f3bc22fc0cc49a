"""`hlo2tx8-opt`: xDSL's opt driver with our dialects and passes; same flags as xdsl-opt.

hlo2tx8-opt -p inline,simplify --split-input-file file.mlir
hlo2tx8-opt -p 'func.func{fusion=elementwise}(simplify)' file.mlir
"""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from hlo2tx8.compiler.trial import KernelTrial
from hlo2tx8.device.chip import load_chip
from hlo2tx8.emitters.emit_fusions import EmitFusionsPass
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.options import Options
from hlo2tx8.tools.command_parser import end_with_hint
from hlo2tx8.tools.nested_passes import without_nested
from hlo2tx8.tools.universe import UNIVERSE


def _ignore(share: float, what: str) -> None:
    """Nobody hears what share of the work is done."""


@dataclass(frozen=True)
class _EmitFusionsAsCompiled(EmitFusionsPass):
    """emit-fusions as the compiler runs it: plans are lowered in memory before one is taken, timed where estimates are rough."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        chip = load_chip(self.chip)
        trial = KernelTrial(Options(chip=Path(self.chip) if self.chip else None), chip, False, _ignore, emission=0, stages=1)
        EmitFusionsPass(self.step_elements, self.chip, self.explain, judge=trial, time=trial.timed).apply(ctx, op)


class OptMain(xDSLOptMain):
    """Registers ours over xDSL's own, whether or not this package is installed. `program` is what the command is called."""

    def __init__(self, program: str, args: Sequence[str] | None) -> None:
        self.program = program
        super().__init__("hlo2tx8 modular optimizer driver", args=args)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog, arg_parser.allow_abbrev = self.program, False
        setattr(arg_parser, "error", partial(end_with_hint, arg_parser))  # noqa: B010

    def setup_pipeline(self) -> None:
        self.args.passes = without_nested(self.args.passes, self.available_passes)
        super().setup_pipeline()

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        for name, dialect in UNIVERSE.all_dialects.items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, dialect)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        for name, make in UNIVERSE.all_passes.items():
            if name not in self.available_passes:
                self.register_pass(name, make)
        self.available_passes[EmitFusionsPass.name] = lambda: _EmitFusionsAsCompiled


def main(argv: Sequence[str] | None = None, program: str = "hlo2tx8-opt") -> int:
    """Run the driver; 0, or 1 after one diagnostic: what does not parse, verify or lower, a file that cannot be read."""
    driver: OptMain | None = None
    try:
        driver = OptMain(program, argv)
        driver.run()
    except (ParseError, DiagnosticException, Hlo2tx8Error) as error:
        print("\n".join((str(error), *getattr(error, "__notes__", ()))), file=sys.stderr)
    except ArgSpecParseError as error:
        print(f"error E1004: {error}", file=sys.stderr)
    except StopIteration:  # of xDSL's reading of an option that ends early
        print("error E1004: the list of passes ends in the middle of an option", file=sys.stderr)
    except OSError as error:
        name = error.filename or (driver and driver.args.output_file) or "a file"
        print(f"error E1004: {name}: {error.strerror}", file=sys.stderr)
    except ValueError as error:
        print(f"error E1004: {error}{_passes_like(str(error))}", file=sys.stderr)
    except RecursionError:
        print("error E1003: what is read is too deep inside of each other", file=sys.stderr)
    else:
        return 0
    return 1


def _passes_like(message: str) -> str:
    """A hint for names of passes that nobody knows, "" if the message is about something else."""
    if not (found := re.match(r"Unrecognized passes: \['([^']*)'", message)):
        return ""
    near = difflib.get_close_matches(found[1], UNIVERSE.all_passes, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "hlo2tx8 opt --help lists all passes"
    return f"\n  hint: {hint}"


if __name__ == "__main__":
    sys.exit(main())
