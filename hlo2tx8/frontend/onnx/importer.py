"""`import_model`: an ONNX model to a StableHLO module, every op as the function of jax that means it."""

# pyright: basic

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.errors import Hlo2tx8Error, InputError, ParseError, UnsupportedError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.onnx.conversion import dtype_of
from hlo2tx8.frontend.onnx.graph import Tracer
from hlo2tx8.frontend.onnx.model_file import ModelFile
from hlo2tx8.frontend.onnx.scope import NameScope, TracedValue
from hlo2tx8.frontend.traced import Lost, Refused, first_line
from hlo2tx8.hlo.signature import VALUE, Port, array_of

HINT = "values and shapes are bound by inputs: compile(source, args=...), --input_literals_file=FILE"


def input_names(file: ModelFile) -> list[str]:
    """The names of the inputs that a model takes, in order: those that no initializer gives."""
    given = {tensor.name for tensor in file.model.graph.initializer}
    given |= {sparse.values.name for sparse in file.model.graph.sparse_initializer}
    return [port.name for port in file.model.graph.input if port.name not in given]


def output_names(file: ModelFile) -> list[str]:
    """The names of its outputs, in order."""
    return [port.name for port in file.model.graph.output]


def import_model(file: ModelFile, args: Sequence[Any] | Mapping[str, Any] | None = None) -> Any:
    """The MLIR module of a model: @main takes its inputs, less those that initializers give, and gives its outputs.

    `args`, arrays in order or by name, say sizes that the model leaves open, and values that shapes depend on: such inputs stay
    parameters, and may have no other value then. UnsupportedError lists all nodes that cannot be compiled, by op; InputError where
    `args` do not fit; ParseError where nodes, tensors or shapes do not fit together.
    """
    try:
        return _imported(file, args)
    except Hlo2tx8Error:
        raise
    except Exception as error:  # such as a name that is no text
        raise ParseError("E1003", f"{file.name}: {type(error).__name__}: {first_line(error)}") from error


def _imported(file: ModelFile, args: Sequence[Any] | Mapping[str, Any] | None) -> Any:
    names = input_names(file)
    given = _given(names, args)
    ports = {port.name: port for port in file.model.graph.input}
    types = [_array_type(file, ports[name], given.get(name)) for name in names]
    bound: dict[str, np.ndarray[Any, Any]] = {}
    tracer = Tracer(file)

    def known(name: str) -> Callable[[], Any]:
        def value() -> Any:
            if name not in given:
                raise Refused(f"must be known at compile time and depends on the input {name!r}")
            bound[name] = given[name]
            return given[name]

        return value

    def main(*arrays: Any) -> Any:
        opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in file.model.opset_import}
        scope = NameScope(opsets)
        tracer.constants(file.model.graph, scope)
        scope.values.update((name, TracedValue(array, known(name))) for name, array in zip(names, arrays, strict=True))
        tracer.nodes(file.model.graph.node, scope)
        if tracer.refused:
            raise UnsupportedError(tracer.unsupported, hint="" if args is not None else HINT)
        try:
            results = [tracer.value(scope, name).array for name in output_names(file)]
        except (ValueError, Lost) as error:
            raise ParseError("E1003", f"{file.name}: an output of the graph: {error}") from None
        if any(isinstance(result, tuple) for result in results):
            raise InputError("E1004", f"{file.name}: an output is a sequence; a program gives arrays")
        return [jnp.asarray(result) for result in results]

    main.__name__ = re.sub(r"\W", "_", file.model.graph.name) or "model"
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.default_matmul_precision("highest"),
    ):
        lowered = shim.lower_function(jax.jit(main, keep_unused=True), tuple(types))
    module = shim.lowered_module(lowered)
    _bind(module, [bound.get(name) for name in names])
    return module


def _given(names: Sequence[str], args: Sequence[Any] | Mapping[str, Any] | None) -> dict[str, np.ndarray[Any, Any]]:
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        if len(args) != len(names):
            raise InputError("E1004", f"takes {len(names)} inputs ({', '.join(names)}), got {len(args)}")
        args = dict(zip(names, args, strict=True))
    unknown = [name for name in args if name not in names]
    if unknown:
        raise InputError("E1004", f"there is no input {unknown[0]!r}", hint=f"inputs: {', '.join(names)}")
    return {name: array_of(array) for name, array in args.items() if array is not None}


def _array_type(file: ModelFile, port: Any, given: np.ndarray[Any, Any] | None) -> Any:
    """Shape and dtype of an input: as the model says, sizes that it leaves open as the array has them."""
    kind = port.type.WhichOneof("value")
    if kind != "tensor_type":
        raise InputError(
            "E1004", f"{file.name}: input {port.name!r} is no array but {(kind or 'of no type').removesuffix('_type')}"
        )
    tensor = port.type.tensor_type
    try:
        dtype = dtype_of(tensor.elem_type)
    except Refused as refused:
        raise InputError("E1004", f"{file.name}: input {port.name!r}: {refused}") from None
    sizes = [dim.dim_value if dim.WhichOneof("value") == "dim_value" else None for dim in tensor.shape.dim]
    if given is None:
        if None in sizes or not tensor.HasField("shape"):
            words = [dim.dim_param or "?" if size is None else str(size) for dim, size in zip(tensor.shape.dim, sizes, strict=True)]
            shape = f"[{','.join(words)}]" if tensor.HasField("shape") else "of any shape"
            raise InputError("E1004", f"{file.name}: unknown sizes: input {port.name!r} is {shape}", hint=HINT)
        if any(size < 0 for size in sizes if size is not None):
            raise ParseError("E1003", f"{file.name}: input {port.name!r} has the sizes {sizes}")
        return jax.ShapeDtypeStruct(tuple(sizes), dtype)
    is_fit = not tensor.HasField("shape") or (
        len(sizes) == given.ndim and all(size in (None, n) for size, n in zip(sizes, given.shape, strict=True))
    )
    if not is_fit or given.dtype != dtype:
        words = ",".join("?" if size is None else str(size) for size in sizes)
        raise InputError("E1004", f"input {port.name!r} should be {dtype.name}[{words}], got {Port(given.shape, given.dtype.name)}")
    return jax.ShapeDtypeStruct(given.shape, dtype)


def _bind(module: Any, values: Sequence[np.ndarray[Any, Any] | None]) -> None:
    """Says of arguments of @main what they must be."""
    if all(value is None for value in values):
        return
    ir, main = shim.ir(), shim.main_of(module)
    with module.context, ir.Location.unknown():
        marks = []
        for value in values:
            if value is None:
                marks.append(ir.DictAttr.get({}))
            elif value.dtype.kind in "iub":
                marks.append(ir.DictAttr.get({VALUE: ir.DenseI64ArrayAttr.get([int(v) for v in value.ravel()])}))
            else:
                marks.append(ir.DictAttr.get({VALUE: ir.DenseF64ArrayAttr.get([float(v) for v in value.ravel()])}))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
