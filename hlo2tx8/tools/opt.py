"""`hlo2tx8-opt`: xDSL's opt driver with our dialects and passes; same flags as xdsl-opt.

hlo2tx8-opt -p inline,simplify --split-input-file file.mlir
"""

import sys
from collections.abc import Sequence

from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.tools.universe import UNIVERSE


class OptMain(xDSLOptMain):
    """Registers ours over xDSL's own, whether or not this package is installed."""

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the driver; 0, or 1 after one diagnostic: what does not parse, verify or lower, a file that cannot be read."""
    try:
        OptMain("hlo2tx8 modular optimizer driver", args=argv).run()
    except (ParseError, DiagnosticException, Hlo2tx8Error) as error:
        print("\n".join((str(error), *getattr(error, "__notes__", ()))), file=sys.stderr)
    except ArgSpecParseError as error:
        print(f"error E1004: {error}", file=sys.stderr)
    except StopIteration:  # of xDSL's reading of an option that ends early
        print("error E1004: the list of passes ends in the middle of an option", file=sys.stderr)
    except OSError as error:
        print(f"error E1004: {error.filename}: {error.strerror}", file=sys.stderr)
    except ValueError as error:
        print(f"error E1004: {error}", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
