"""The only file that touches jaxlib's private modules: MLIR contexts, HLO text to StableHLO, pass pipelines.

Run as a program it is the child that parses HLO: whether it is a proto, length and text or proto in, status byte, length and
StableHLO bytecode or message out, until its input ends.
"""
# pyright: basic

import io
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

MOST_SECONDS = 300
"""That a child may take for a request."""


def make_context() -> Any:
    """An MLIR context with every dialect a StableHLO module may hold; ops of others parse in generic form.

    Dialects load when first used, and there is no thread pool: making one takes 1 ms, jax's own takes 10.
    """
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    context = mlir.JaxIrContext()
    context.append_dialect_registry(mlir.upstream_dialects)
    context.enable_multithreading(False)
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    sdy.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def ir() -> Any:
    """The module of MLIR's Python bindings."""
    from jaxlib.mlir import ir as bindings

    return bindings


def parse_module(source: str | bytes, context: Any) -> Any:
    """The MLIR module of StableHLO text, bytecode or a portable artifact; MLIRError if it is none."""
    from jaxlib.mlir.dialects import stablehlo

    if isinstance(source, bytes) and source[:4] == b"ML\xefR" and b"StableHLO_v" in source[:64]:
        return stablehlo.deserialize_portable_artifact(context, source)
    if b"quant" in source if isinstance(source, bytes) else "!quant" in source:
        _load_quantized_types(context)
    return ir().Module.parse(source, context)


def _load_quantized_types(context: Any) -> None:
    """Makes the dialect of quantised types known, for which there are no bindings: a pass that may make such types loads it."""
    run_pipeline(ir().Module.parse("module {}", context), "builtin.module(vhlo-legalize-to-stablehlo)")


def has_quantized_types(context: Any) -> bool:
    """May modules of the context hold quantised types?"""
    with context:
        try:
            return context.dialects["quant"] is not None
        except IndexError:
            return False


def main_of(module: Any) -> Any:
    """The function @main of an MLIR module, or None."""
    ops = module.operation.regions[0].blocks[0].operations
    return next((op for op in ops if "sym_name" in op.attributes and op.attributes["sym_name"].value == "main"), None)


def walk(op: Any) -> Iterator[Any]:
    """Every op inside of an MLIR op, each before what is inside of it."""
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                yield from walk(inner.operation)


def portable_artifact(module: Any) -> bytes:
    """The portable artifact of a StableHLO module, of jaxlib's own version; ValueError for other dialects in it."""
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())


def set_numbers(module: Any, numbers: dict[str, int]) -> None:
    """Gives a module i32 attributes."""
    i32 = ir().IntegerType.get_signless(32, module.context)
    for name, value in numbers.items():
        module.operation.attributes[name] = ir().IntegerAttr.get(i32, value)


def numbers_of(module: Any) -> dict[str, int]:
    """How many replicas and partitions a module says that there are, by the names of its attributes."""
    attributes = module.operation.attributes
    return {name: int(attributes[name].value) for name in ("mhlo.num_replicas", "mhlo.num_partitions") if name in attributes}


def mlir_error() -> type[Exception]:
    """The exception class that the bindings raise for malformed modules and failing passes."""
    return ir().MLIRError


def hlo_text_to_mlir(text: str) -> bytes:
    """StableHLO bytecode of an HLO text; fusions are `mhlo.fusion`. Malformed text may abort: call it in a child."""
    return hlo_proto_to_mlir(_hlo_bindings().hlo_module_from_text(text).as_serialized_hlo_module_proto())


def hlo_proto_to_mlir(data: bytes) -> bytes:
    """The same of a serialised HloModuleProto."""
    import jaxlib._jax as extension

    if b"scaled-dot" in data:  # which has no op in MLIR
        from hlo2tx8.frontend.scaled_dot import as_custom_calls

        data = as_custom_calls(data)
    return extension.mlir.hlo_to_stablehlo(data)


def _hlo_bindings() -> Any:
    """The module that holds jaxlib's classes of HLO modules: `jaxlib._hlo` since 0.10.2, `jaxlib._jax` in 0.10.1."""
    try:
        return import_module("jaxlib._hlo")
    except ModuleNotFoundError:
        return import_module("jaxlib._jax")


def mlir_to_hlo_text(text: str) -> str:
    """HLO text of StableHLO text in which every tensor is row major."""
    import jaxlib._jax as extension

    options = _hlo_bindings().HloPrintOptions.short_parsable()
    options.print_large_constants = True
    options.print_metadata = False
    return extension.mlir.mlir_module_to_xla_computation(text, False, False).get_hlo_module().to_string(options)


def run_pipeline(module: Any, pipeline: str) -> None:
    """Runs an MLIR pass pipeline in place."""
    from jaxlib.mlir import passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    with module.context:
        passmanager.PassManager.parse(pipeline).run(module.operation)


def lowered_module(lowered: Any) -> Any:
    """A copy of the MLIR module of a `jax.stages.Lowered`, for passes to change."""
    return lowered.compiler_ir(dialect="stablehlo").operation.clone()


def lower_function(function: Any, args: tuple[Any, ...]) -> Any:
    """The `jax.stages.Lowered` of a Python function for example arguments, for a platform that jax has no rules for."""
    import jax

    _leave_out_our_frames()
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    return jitted.trace(*args).lower(lowering_platforms=("tx8",))


def function_on_tiles(function: Callable[..., Any], tiles: str) -> Callable[..., Any]:
    """The function as one of its own in what calls it, with these `tiles` as frontend attribute of each call."""
    import jax
    from jax.experimental.xla_metadata import set_xla_metadata

    jitted = jax.jit(function)

    def call(*args: Any) -> Any:
        with set_xla_metadata(tiles=tiles):
            return jitted(*args)

    return call


def lower_for_types(function: Any, types: Any) -> Any:
    """The `jax.stages.Lowered` for arrays of these shapes and dtypes, whatever the user has set; 64 bits stay 64 bits."""
    import jax

    args = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in types)
    is_wide = any(arg.dtype.name in ("float64", "complex128", "int64") for arg in args)
    with jax.enable_x64(is_wide), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        return lower_function(jax.jit(function, keep_unused=True), args)


def trees(source: Any) -> tuple[Any, Any, tuple[int, ...]] | None:
    """PyTreeDefs of the arguments and results of a `Lowered` or `Exported`, and the leaves of the arguments that its module takes;
    None for anything else.
    """
    if hasattr(source, "module_kept_var_idx"):
        return source.in_tree, source.out_tree, tuple(source.module_kept_var_idx)
    lowering = getattr(source, "_lowering", None)
    if lowering is None:
        return None
    return source.in_tree, source.out_tree, tuple(sorted(lowering.compile_args["kept_var_idx"]))


def pytrees() -> Any:
    """jax's functions on pytrees."""
    import jax

    return jax.tree


@cache
def _leave_out_our_frames() -> None:
    """Ops come from the user's lines, not from those of this package that trace them."""
    from jax._src import source_info_util

    source_info_util.register_exclusion(str(Path(__file__).parents[1]))


def exported_bytes(exported: Any) -> bytes:
    """The portable artifact of a `jax.export.Exported`."""
    return exported.mlir_module_serialized


def read_exported(data: bytes) -> Any:
    """The `jax.export.Exported` that `serialize` wrote; errors of many kinds where it is none."""
    from jax import export

    return export.deserialize(bytearray(data))


def bytecode(module: Any) -> bytes:
    """A module as MLIR bytecode."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def hlo_to_mlir(is_proto: bool, data: bytes) -> bytes:
    """StableHLO bytecode of an HLO text or proto."""
    return hlo_proto_to_mlir(data) if is_proto else hlo_text_to_mlir(data.decode())


def serve(answer: Callable[[bool, bytes], bytes] = hlo_to_mlir, seconds: int = MOST_SECONDS) -> None:
    """The loop of a child process: read requests from stdin and answer them until stdin ends.

    A request on which a parser hangs ends the child, also where nobody is left who would.
    """
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(9):
        is_proto, size = struct.unpack("<?Q", header)
        data = source.read(size)
        signal.alarm(seconds)
        try:
            status, reply = 0, answer(is_proto, data)
        except Exception as error:  # every parser error is an answer, not an end
            status, reply = 1, str(error).encode()
        signal.alarm(0)
        sink.write(struct.pack("<BI", status, len(reply)) + reply)
        sink.flush()


if __name__ == "__main__":
    serve()
