"""hlo2tx8: HLO and StableHLO to programs for the TX8 spatial accelerator, and the emulator that runs them.

    executable = hlo2tx8.compile("gelu.hlo")
    y = executable(x)

Importing this package imports neither jax nor the compiler: each is loaded when first used.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from hlo2tx8.options import Level, Options

if TYPE_CHECKING:
    from pathlib import Path

    from hlo2tx8.kernel_registry import register_kernel
    from hlo2tx8.runtime.executable import Executable
    from hlo2tx8.runtime.session import Session
    from hlo2tx8.spmd.chips import ChipsExecutable
    from hlo2tx8.tensorflow_backend import TensorFlowExecutable
    from hlo2tx8.torch_backend import TorchExecutable

__version__ = "0.1.0"
__all__ = ["Level", "Options", "Session", "compile", "load", "register_kernel", "report"]


def compile(
    source: object,
    options: Options | None = None,
    *,
    args: Sequence[object] | Mapping[str, object] | None = None,
    format: str = "",
    replicas: int = 0,
    partitions: int = 0,
) -> "Executable | ChipsExecutable | TorchExecutable | TensorFlowExecutable":
    """Compile a module for the chip.

    source: a path (.hlo, .mlir, .mlirbc, .onnx, .pt2, .jaxexport, .keras, a SavedModel folder), HLO or StableHLO text, a portable
    artifact's bytes, a jax `Lowered` or `Exported`, an ONNX ModelProto or its bytes, a torch.export.ExportedProgram, or a
    Python function, torch.nn.Module, tf.function or Keras model together with example arguments `args`; for a module with
    dynamic shapes `args` bind them (see docs/cli.md, docs/onnx.md). What comes from torch gives a TorchExecutable, which takes
    and gives tensors (see docs/torch.md), what comes from TensorFlow a TensorFlowExecutable (see docs/tensorflow.md). format:
    `hlo` or `mlir` where text could be either. replicas, partitions: over how many chips, as many as the module says where they
    are not given; a module with collective ops or shardings for several, or with infeed or outfeed, gives a ChipsExecutable.
    Raises UnsupportedError listing all that is not supported, ParseError with line and column, InputError.
    """
    from hlo2tx8.frontend.tensorflow.package import is_tensorflow_source
    from hlo2tx8.frontend.torch.package import is_torch_source
    from hlo2tx8.spmd.chips import compile_for_chips

    options = options or Options()
    if format in ("", "pt2") and is_torch_source(source):
        from hlo2tx8.torch_backend import compile_torch

        return compile_torch(source, options, args)
    if not format and is_tensorflow_source(source):
        from hlo2tx8.tensorflow_backend import compile_tensorflow

        return compile_tensorflow(source, options, args)
    return compile_for_chips(source, options, args=cast(Any, args), format=format, replicas=replicas, partitions=partitions)


def report(
    source: object,
    args: Sequence[object] | None = None,
    *,
    output: "str | Path | None" = None,
    against: object = None,
    options: Options | None = None,
    format: str = "",
) -> str:
    """A page of HTML that shows what is known of a program for one chip, written to `output` if that is given.

    source, args, options and format are those of `compile`; a source may also be an Executable, whose last run's trip counts are
    taken, and whose IR is printed level by level, each of which takes a compilation if it is not from a file. against: another
    source; the page says what the first does otherwise. Needs the extra `hlo2tx8[report]`, InputError without it. See
    docs/report.md.
    """
    from pathlib import Path

    from hlo2tx8.reports.make import make_page
    from hlo2tx8.tools.saved import parsed

    sources = [source] if against is None else [source, against]
    file = None if output is None else Path(output)
    return make_page(sources, cast(Any, args), options or Options(explain=True), file, format, parsed)


def load(path: str) -> "Executable":
    """The executable that `Executable.save` wrote to a `.tx8x` file."""
    from hlo2tx8.runtime.executable import Executable

    return Executable.load(path)


def __getattr__(name: str) -> object:
    """Session and register_kernel, loaded when they are first asked for."""
    if name == "register_kernel":
        from hlo2tx8.kernel_registry import register_kernel

        return register_kernel
    if name != "Session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hlo2tx8.runtime.session import Session

    return Session
