"""A function of TensorFlow as an MLIR module: TensorFlow's own compiler gives its HLO, with variables as parameters.

    f(x) reads w and writes n        @main(x, n, w) -> (result, n)

Parameters are the tensors of the call, then what the function captures. Results are what it returns, then the variables it writes.
"""

# pyright: basic

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo2tx8.errors import Hlo2tx8Error, InputError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.calling import Star, call_text
from hlo2tx8.frontend.hlo_text import parse_hlo
from hlo2tx8.frontend.tensorflow.package import is_saved, tensorflow_module
from hlo2tx8.frontend.tensorflow.saved import HINT, load_saved
from hlo2tx8.frontend.traced import first_line
from hlo2tx8.hlo.types import mlir_name
from hlo2tx8.protobuf import integers, messages

_ALIASES, _ENTRIES, _OUTPUT, _PARAMETER = 8, 1, 1, 2
"""Fields of HloModuleProto, of its input_output_alias, and of one of those."""
_UNSUPPORTED = re.compile(r"([\w.]+) \(No registered '[\w.]+' OpKernel")
_PRODUCTS = ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution")
_HIGHEST = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"


@dataclass(frozen=True)
class TensorFlowFunction:
    """A function for inputs of known shapes. `module` is its MLIR module; `leaves` are the inputs that it was made for, of which
    those with numbers in `kept` are parameters, and the others have one value for ever; `captured` are the variables and tensors
    behind them; results behind the first `num_results` are written to the captured ones of number `targets`. `takes` and `gives`
    are the structures of inputs, (positional, by name), and of results.
    """

    module: Any
    leaves: tuple[Any, ...]
    kept: tuple[int, ...]
    captured: tuple[Any, ...]
    num_results: int
    targets: tuple[int, ...]
    takes: Any
    gives: Any

    @classmethod
    def of(cls, source: Any, args: Sequence[Any] | Mapping[str, Any] | None, name: str = "") -> "TensorFlowFunction":
        """That of a tf.function, a Keras model or layer, or the path of a saved one. `args` are inputs, arrays, tensors or specs of
        them; other values are fixed. UnsupportedError with the ops that TensorFlow cannot compile; InputError.
        """
        tf, name = tensorflow_module(), name or _name_of(source)
        function: Any = source
        if isinstance(source, (str, Path)) and is_saved(source):
            function, args = load_saved(Path(source), args)
        if args is None:
            raise InputError("E1004", f"{name} needs example inputs", hint="pass args=(...)")
        takes = ((), dict(args)) if isinstance(args, Mapping) else (tuple(args), {})
        leaves = _inputs(tf, tf.nest.flatten(takes))
        numbers = [number for number, leaf in enumerate(leaves) if _is_tensor(leaf)]
        gives: list[Any] = []

        def flat(*tensors: Any) -> list[Any]:
            placed = dict(zip(numbers, tensors, strict=True))
            positional, named = tf.nest.pack_sequence_as(takes, [placed.get(n, leaf) for n, leaf in enumerate(leaves)])
            result = function(*positional, **named)
            gives[:] = [tf.nest.map_structure(lambda leaf: None if leaf is None else 0, result)]
            return [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(result) if leaf is not None]

        whole = tf.function(flat, jit_compile=True, autograph=False)
        proto, traced = _compiled(whole, [leaves[number] for number in numbers], name)
        module = _parsed(proto, name)
        captured = tuple(_variable(traced, tensor) for tensor in traced.captured_inputs)
        parameters = _matched([*(leaves[number] for number in numbers), *captured], module, name)
        kept = tuple(numbers[k] for k in parameters if k < len(numbers))
        behind = tuple(captured[k - len(numbers)] for k in parameters if k >= len(numbers))
        written = dict(_aliases(proto))
        outputs = range(len(traced.outputs), _num_results(module))
        if any(written.get(output, -1) < len(kept) for output in outputs):
            raise InputError("E1004", f"{name} gives a variable another shape")
        targets = tuple(written[output] - len(kept) for output in outputs)
        return cls(module, leaves, kept, behind, len(traced.outputs), targets, takes, gives[0])

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call that are parameters, as arrays; InputError if it is not called as it was made."""
        tf = tensorflow_module()
        try:
            tf.nest.assert_same_structure(self.takes, (args, kwargs))
        except (ValueError, TypeError) as error:
            raise InputError("E1004", f"takes {_call(self.takes)}, got {_call((args, kwargs))}") from error
        found = tf.nest.flatten((args, kwargs))
        for number, (value, known) in enumerate(zip(found, self.leaves, strict=True)):
            if number not in self.kept and not _is_equal(value, known):
                raise InputError("E1004", f"input {number} is {value!r} and was {known!r} when the program was made")
        return [np.asarray(found[number]) for number in self.kept]

    def results(self, arrays: Sequence[Any]) -> Any:
        """What the function returns, as tensors, of the program's first results."""
        tf = tensorflow_module()
        tensors = iter([tf.convert_to_tensor(array) for array in arrays])
        return tf.nest.map_structure(lambda leaf: None if leaf is None else next(tensors), self.gives)

    def with_constants(self) -> Any:
        """The module with what is captured as constants, and without the variables that it writes."""
        ir, main = shim.ir(), shim.main_of(self.module)
        block = main.operation.regions[0].blocks[0]
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
            for number in reversed(range(len(self.kept), len(block.arguments))):
                argument = block.arguments[number]
                value = _attribute(np.asarray(self.captured[number - len(self.kept)]), argument.type)
                op = ir.Operation.create("stablehlo.constant", [argument.type], [], {"value": value})
                argument.replace_all_uses_with(op.results[0])
                block.erase_argument(number)
            last = block.operations[len(block.operations) - 1]
            results = list(last.operands)[: self.num_results]
            with ir.InsertionPoint(last):
                ir.Operation.create("func.return", [], results)
            last.operation.erase()
            types = ir.FunctionType.get([a.type for a in block.arguments], [r.type for r in results])
            main.operation.attributes["function_type"] = ir.TypeAttr.get(types)
            for attributes in ("arg_attrs", "res_attrs"):
                if attributes in main.operation.attributes:
                    del main.operation.attributes[attributes]
        return self.module


def _attribute(array: Any, type_: Any) -> Any:
    """The elements of a constant of a type."""
    if array.dtype == np.bool_:
        array = np.packbits(array, bitorder="little")
    elif array.dtype.kind == "V":  # a float of ml_dtypes
        array = array.view(f"u{array.dtype.itemsize}")
    return shim.ir().DenseElementsAttr.get(np.ascontiguousarray(array), type=type_.element_type, shape=type_.shape)


def _call(takes: Any) -> str:
    """A structure of arguments as a call is written, * for each input."""
    return call_text(*tensorflow_module().nest.map_structure(lambda _: Star(), takes))


def _compiled(function: Any, inputs: Sequence[Any], name: str) -> tuple[bytes, Any]:
    """The HLO proto of a function for its inputs, and the function that was traced."""
    try:
        traced = function.get_concrete_function(*inputs)
        return function.experimental_get_compiler_ir(*inputs)(stage="hlo_serialized"), traced
    except Hlo2tx8Error:
        raise
    except Exception as error:  # whatever the person's own code raises while TensorFlow traces it
        text = str(error)
        if ops := _UNSUPPORTED.findall(text):
            raise UnsupportedError([UnsupportedOp(op, (name,), "TensorFlow has no XLA kernel of it") for op in ops]) from error
        if "static input shape" in text:
            raise InputError("E1004", f"{name}: an input has no static shape", hint=HINT) from error
        raise InputError("E1004", f"{name}: {first_line(error)}") from error


def _parsed(proto: bytes, name: str) -> Any:
    """The MLIR module of an HLO proto, in which products of f32 are f32: TensorFlow's compiler leaves that open."""
    module, ir = shim.parse_module(parse_hlo(proto, name), shim.make_context()), shim.ir()
    with module.context:
        highest = ir.Attribute.parse(_HIGHEST)
    for op in shim.walk(module.operation):
        types = [str(result.type) for result in op.results]
        if any("?" in type_ for type_ in types):
            raise InputError("E1004", f"{name} has tensors whose sizes depend on values: {op.name} to {', '.join(types)}")
        if op.name in _PRODUCTS and "f32" in types[0]:
            op.attributes["precision_config"] = highest
    return module


def _name_of(source: Any) -> str:
    """What messages call a source: its path, or its name as TensorFlow or Python has it."""
    if isinstance(source, (str, Path)):
        return str(source)
    found = [getattr(of, word, None) for of in (getattr(source, "python_function", None), source) for word in ("__name__", "name")]
    return next((name for name in found if isinstance(name, str)), "function")


def _inputs(tf: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays as tensors; specs of all tensors if one is a spec, which TensorFlow wants; anything else as it is."""
    found = [tf.convert_to_tensor(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf for leaf in leaves]
    if any(isinstance(leaf, tf.TensorSpec) for leaf in found):
        found = [tf.TensorSpec(leaf.shape, leaf.dtype) if _is_tensor(leaf) else leaf for leaf in found]
    return tuple(found)


def _is_tensor(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def _is_equal(value: Any, known: Any) -> bool:
    if _is_tensor(known):
        return _is_tensor(value) and np.array_equal(np.asarray(value), np.asarray(known))
    return value is known or value == known


def _variable(traced: Any, captured: Any) -> Any:
    """The variable behind a handle that a function captures; a tensor that it captures as it is."""
    return next((variable for variable in traced.variables if variable.handle is captured), captured)


def _aliases(proto: bytes) -> list[tuple[int, int]]:
    """The results of an HLO module that are written to parameters, and which; a number of 0 is left out of protos."""
    entries = [entry for alias in messages(proto, _ALIASES) for entry in messages(alias, _ENTRIES)]
    return [((*integers(entry, _OUTPUT), 0)[0], (*integers(entry, _PARAMETER), 0)[0]) for entry in entries]


def _num_results(module: Any) -> int:
    return len(shim.main_of(module).type.results)


def _matched(inputs: Sequence[Any], module: Any, name: str) -> list[int]:
    """The numbers of the inputs that are the module's parameters. TensorFlow leaves out those whose values shapes depend on, and
    does not say which; InputError where types leave a choice.
    """
    types = [f"tensor<{''.join(f'{n}x' for n in leaf.shape)}{mlir_name(np.dtype(leaf.dtype.as_numpy_dtype))}>" for leaf in inputs]
    parameters = [str(type_) for type_ in shim.main_of(module).type.inputs]

    def first(types: Sequence[str], parameters: Sequence[str]) -> list[int]:
        numbers = iter(range(len(types)))
        return [next(n for n in numbers if types[n] == parameter) for parameter in parameters]

    found = first(types, parameters)
    last = [len(types) - 1 - n for n in reversed(first(types[::-1], parameters[::-1]))]
    if found != last:
        hint = "pass shapes and axes as Python numbers, not as tensors"
        raise InputError("E1004", f"{name} has shapes that depend on inputs, one of several of the same type", hint=hint)
    return found
