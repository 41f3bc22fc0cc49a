"""hlo2tx8: HLO and StableHLO to programs for the TX8 spatial accelerator, and the emulator that runs them.

    executable = hlo2tx8.compile("gelu.hlo")
    y = executable(x)

Importing this package imports neither jax nor the compiler: each is loaded when first used.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo2tx8.options import Level, Options

if TYPE_CHECKING:
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.spmd.chips import ChipsExecutable

__version__ = "0.1.0"
__all__ = ["Level", "Options", "compile", "load"]


def compile(
    source: object,
    options: Options | None = None,
    *,
    args: Sequence[object] | None = None,
    format: str = "",
    replicas: int = 0,
    partitions: int = 0,
) -> "Executable | ChipsExecutable":
    """Compile a module for the chip.

    source: a path (.hlo, .mlir, .mlirbc, .onnx), HLO or StableHLO text, a portable artifact's bytes, a jax `Lowered` or
    `Exported`, an ONNX ModelProto or its bytes, or a Python function together with example arguments `args`; for a module with
    dynamic shapes `args` bind them (see docs/cli.md, docs/onnx.md). format: `hlo` or `mlir` where text could be
    either. replicas, partitions: over how many chips, as many as the module says where they are not given; a module with
    collective ops or shardings for several, or with infeed or outfeed, gives a ChipsExecutable. Raises UnsupportedError listing
    all that is not supported, ParseError with line and column, InputError.
    """
    from hlo2tx8.spmd.chips import compile_for_chips

    options = options or Options()
    return compile_for_chips(source, options, args=args, format=format, replicas=replicas, partitions=partitions)


def load(path: str) -> "Executable":
    """The executable that `Executable.save` wrote to a `.tx8x` file."""
    from hlo2tx8.runtime.executable import Executable

    return Executable.load(path)
