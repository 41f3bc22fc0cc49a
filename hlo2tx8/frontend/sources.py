"""`load`: reads a program from whatever holds it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from hlo2tx8.errors import InputError, ParseError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.all_to_all import expand_all_to_alls
from hlo2tx8.frontend.asynchronous import inline_async
from hlo2tx8.frontend.broadcasts import expand_broadcasts
from hlo2tx8.frontend.bytecode import read_apart
from hlo2tx8.frontend.chip_folder import ChipFolder, is_chip_folder
from hlo2tx8.frontend.coarse import calls_of_composites
from hlo2tx8.frontend.content import Content
from hlo2tx8.frontend.custom_calls import expand_custom_calls
from hlo2tx8.frontend.dynamic import make_static
from hlo2tx8.frontend.elided import fill_elided, mark_elided
from hlo2tx8.frontend.export import to_mlir_text
from hlo2tx8.frontend.hlo_text import num_devices, parse_hlo, place_error
from hlo2tx8.frontend.jax_export import exported_file, exported_of
from hlo2tx8.frontend.locations import LocationReader, instruction_lines
from hlo2tx8.frontend.quantized import expand_quantized
from hlo2tx8.frontend.scan import expand_scans
from hlo2tx8.frontend.tensorflow.package import is_tensorflow_source
from hlo2tx8.frontend.text_limits import check_text
from hlo2tx8.frontend.torch.package import is_torch_source
from hlo2tx8.frontend.tx8be_lower import lower_tx8be
from hlo2tx8.frontend.tx8be_text import is_tx8be, read_tx8be
from hlo2tx8.frontend.walker import walk_module
from hlo2tx8.hlo.regions import CONTROL
from hlo2tx8.options import Filling

CLEAN_UP = "builtin.module(symbol-dce,canonicalize,cse)"
# canonicalize moves constants out of fusions, and a fusion as HLO text gives it stays as it is.
AS_GIVEN = "builtin.module(symbol-dce)"
_STATIC = ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")
_MLIR_ERROR = re.compile(r'error: "([^"]*)":(\d+):(\d+): (.*)')


@dataclass(frozen=True)
class Parsed:
    """A source as an MLIR module, where its ops come from, and the name of the HLO file if it is one: that keeps its fusions.
    Example arguments are part of a module that `is_bound`.
    """

    module: Any
    locations: LocationReader
    hlo_name: str = ""
    is_bound: bool = False


def load(
    source: Any,
    *,
    args: Sequence[Any] | None = None,
    format: str | None = None,
    clean_up: bool = True,
    filling: Filling = "random",
    is_sound: bool = False,
) -> ModuleOp:
    """The module of a source.

    A source is a path (.hlo, .mlir, .mlirbc, .pb, .onnx, .pt2, .jaxexport; also gzipped; a chip folder, see ChipFolder; a
    SavedModel folder or .keras file), its bytes, HLO, StableHLO or tx8be text, a portable artifact as bytes, a jax `Lowered` or
    `Exported`, an ONNX ModelProto, a torch.export.ExportedProgram, or a Python function, tf.function, Keras model or
    torch.nn.Module with example `args`; elsewhere `args` say the shapes, and the values that shapes depend on, of a module with
    dynamic ones; for ONNX, torch and TensorFlow also a mapping from names of inputs. Parameters of torch and variables of
    TensorFlow are constants.
    `format` ("hlo", "mlir" or "stablehlo", "mlirbc", "pb", "onnx", "pt2",
    "jaxexport") overrides the guess for paths, bytes and text. clean_up:
    without it what is computed twice, or for nothing, stays. `filling` says what constants hold whose elements HLO text leaves
    out. `is_sound`: bytecode of which is known that jaxlib has written it. Raises InputError for a source that is none,
    ParseError for malformed text with line and column.
    """
    parsed = parse(source, args=args, format=format, is_sound=is_sound)
    bound = None if _is_function(source) or parsed.is_bound else args
    walked = _walk(parsed.module, parsed.locations, clean_up, args=bound, is_fused=bool(parsed.hlo_name))
    if parsed.hlo_name:
        fill_elided(walked, filling, parsed.hlo_name)
    return walked


def parse(source: Any, *, args: Sequence[Any] | None = None, format: str | None = None, is_sound: bool = False) -> Parsed:
    """The MLIR module of a source, as `load` takes it, for passes to change; how many devices it is for is an attribute."""
    match source:
        case _ if is_tensorflow_source(source):
            return _of_tensorflow(source, args)
        case Path() if is_chip_folder(source):
            folder = ChipFolder.of(source)
            text = _read(folder.module, "mlir").data
            return _for_chips(_of_mlir(text, str(folder.module), parameters=folder.parameters()), folder)
        case Path():
            return _parsed(_read(source, format or ""), str(source), args=args, folder=source.parent)
        case str() if not source.strip():
            raise InputError("E1004", "the source is empty")
        case str() if _is_text(source):
            return _parsed(Content.of_text(source, format or ""), "<text>")
        case str():
            return parse(Path(source), args=args, format=format)
        case bytes():
            return _parsed(Content.of_bytes(source, "<bytes>", format or ""), "<bytes>", is_sound=is_sound, args=args)
        case _ if is_torch_source(source):
            return _of_torch(source, "<torch>", args)
        case _ if hasattr(source, "opset_import"):
            return _of_onnx(source, "<onnx>", args)
        case _ if hasattr(source, "mlir_module_serialized"):
            return _of_mlir(shim.exported_bytes(source), "<exported>")
        case _ if hasattr(source, "compiler_ir"):
            return Parsed(shim.lowered_module(source), LocationReader())
        case _ if callable(source):
            return Parsed(shim.lowered_module(traced(source, args)), LocationReader())
        case _:
            raise InputError("E1004", f"no program in a {type(source).__name__}")


def traced(source: Any, args: Sequence[Any] | None) -> Any:
    """The jax `Lowered` of a Python function for example arguments, InputError without; the `Exported` of a `.jaxexport`
    file; any other source as it is."""
    if not _is_function(source):
        return exported_file(source)
    if args is None:
        raise InputError("E1004", "a Python function needs example arguments", hint="pass args=(...)")
    return shim.lower_function(source, tuple(args))


def _is_function(source: Any) -> bool:
    is_other = is_torch_source(source) or is_tensorflow_source(source)
    return callable(source) and not hasattr(source, "mlir_module_serialized") and not is_other


def _is_text(source: str) -> bool:
    return "\n" in source or source.lstrip().startswith(("HloModule", "module", "func.func"))


def _read(path: Path, format: str) -> Content:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError("E1004", f"{path}: {error.strerror}") from None
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    return Content.of_bytes(data, str(path), format, suffix)


def _parsed(content: Content, name: str, *, is_sound: bool = False, args: Any = None, folder: Path | None = None) -> Parsed:
    if content.format == "stablehlo":
        return _of_mlir(content.data, name, is_sound=is_sound)
    if content.format == "jaxexport":
        return _of_mlir(shim.exported_bytes(exported_of(cast(bytes, content.data), name)), name)
    if content.format == "pt2":
        return _of_torch(content.data, name, args)
    if content.format == "onnx":
        return _of_onnx(content.data, name, args, folder)
    hlo = content.data if isinstance(content.data, bytes) else mark_elided(_without_comments(content.data))
    text = "" if isinstance(hlo, bytes) else hlo
    try:
        found = parse_hlo(hlo, name)
        module = shim.parse_module(found if text else read_apart(found, name), shim.make_context())
    except shim.mlir_error() as error:
        raise place_error(str(error), text, name) from None
    shim.set_numbers(module, num_devices(text))
    return Parsed(module, LocationReader(name, instruction_lines(text)), name)


def _of_onnx(source: Any, name: str, args: Any, folder: Path | None = None) -> Parsed:
    from hlo2tx8.frontend.onnx import ModelFile, import_model

    return Parsed(import_model(ModelFile.of(source, name, folder), args), LocationReader(name), is_bound=True)


def _of_torch(source: Any, name: str, args: Any) -> Parsed:
    from hlo2tx8.frontend.torch.exported import ExportedGraph

    lowered = ExportedGraph.of(source, args, name).traced(has_constants=True).lowered
    if lowered is None:
        raise InputError("E1004", f"{name} computes nothing")
    return Parsed(shim.lowered_module(lowered), LocationReader(name), is_bound=True)


def _of_tensorflow(source: Any, args: Any) -> Parsed:
    from hlo2tx8.frontend.tensorflow.function import TensorFlowFunction

    return Parsed(TensorFlowFunction.of(source, args).with_constants(), LocationReader("<tensorflow>"), is_bound=True)


def _without_comments(text: str) -> str:
    """`#` and `//` comment lines blanked, so that line numbers stay."""
    lines = ["" if line.lstrip().startswith(("#", "//")) else line for line in text.splitlines()]
    return "\n".join(lines)


def _of_mlir(source: str | bytes, name: str, *, is_sound: bool = False, parameters: bytes | None = None) -> Parsed:
    """MLIR as text or bytecode; a module in tx8be, whose constants are in `parameters`, becomes StableHLO."""
    if isinstance(source, str):
        check_text(source, name)
        if is_tx8be(source):
            source = to_mlir_text(lower_tx8be(read_tx8be(source, name), parameters), is_located=True)
    elif not is_sound:
        source = read_apart(source, name)
    try:
        module = shim.parse_module(source, shim.make_context())
    except (shim.mlir_error(), ValueError) as error:
        raise ParseError("E1003", _mlir_message(str(error), name)) from None
    except MemoryError:
        raise ParseError("E1003", f"{name}: there is not enough memory to parse it") from None
    return Parsed(module, LocationReader(name))


def _for_chips(parsed: Parsed, folder: ChipFolder) -> Parsed:
    """The module with the number of the folder's chips, which are partitions where it does not say."""
    numbers = shim.numbers_of(parsed.module)
    if not numbers and len(folder.chips) > 1:
        numbers = {"mhlo.num_partitions": len(folder.chips)}
        shim.set_numbers(parsed.module, numbers)
    if (count := prod(numbers.values())) != len(folder.chips):
        raise InputError("E1004", f"{folder.module.name} is for {count} chips, and the folder has {len(folder.chips)}")
    return parsed


def _mlir_message(message: str, name: str) -> str:
    """`name:line:column: what` of a binding's error."""
    found = _MLIR_ERROR.search(message)
    if found is None:
        return f"{name}: {next(iter(message.splitlines()), 'malformed MLIR')}"
    file, line, column, detail = found.groups()
    name = name if file == "-" else file
    place = f"{name}:{line}:{column}" if int(line) else name
    return f"{place}: {detail.strip()}"


def _walk(
    module: Any, locations: LocationReader, clean_up: bool, *, args: Sequence[Any] | None = None, is_fused: bool = False
) -> ModuleOp:
    names = {op.operation.name for op in _ops_of(module)}
    is_fused = is_fused or "mhlo.fusion" in names
    try:
        if any(_may_be_dynamic(name) for name in names) or _takes_unknown_sizes(module):
            make_static(module, args, locations)
        if "stablehlo.async_start" in names:
            inline_async(module)
        if shim.has_quantized_types(module.context):
            expand_quantized(module, locations)
        if not names.isdisjoint(("stablehlo.composite", *CONTROL)):
            calls_of_composites(module)
        shim.run_pipeline(module, CLEAN_UP if clean_up and not is_fused else AS_GIVEN)
    except shim.mlir_error() as error:
        raise ParseError("E1003", _mlir_message(str(error), locations.file)) from None
    try:
        walked = walk_module(module, locations, inline=True)
    except RecursionError:
        raise ParseError(
            "E1003", f"{locations.file}: types, attributes, locations or calls are too deep inside each other"
        ) from None
    expand_scans(walked)
    expand_custom_calls(walked)
    expand_all_to_alls(walked)
    expand_broadcasts(walked)
    return walked


def _may_be_dynamic(name: str) -> bool:
    """Do ops of that name take or give shapes?"""
    return name.endswith("_dimension_size") or (
        name.startswith(("stablehlo.dynamic_", "stablehlo.real_dynamic")) and name not in _STATIC
    )


def _takes_unknown_sizes(module: Any) -> bool:
    functions = (op.operation for op in module.body.operations if op.operation.name == "func.func")  # a mesh is no function
    return any("?" in str(function.attributes["function_type"].value) for function in functions)


def _ops_of(module: Any) -> Iterator[Any]:
    """The ops at the top of every function's blocks."""
    for function in module.body.operations:
        for region in function.regions:
            for block in region.blocks:
                yield from block.operations
