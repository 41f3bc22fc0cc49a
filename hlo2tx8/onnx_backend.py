"""The chip as a backend of ONNX: `prepare`, `run_model` and the rest of `onnx.backend.base.Backend`, on the emulator.

    prepared = hlo2tx8.onnx_backend.prepare(model)
    (y,) = prepared.run([x])

`onnx.backend.test.BackendTest(hlo2tx8.onnx_backend, __name__)` makes ONNX's own tests of it. Needs the extra `hlo2tx8[onnx]`.
"""

# pyright: basic, reportMissingImports=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

import hlo2tx8
from hlo2tx8.errors import Hlo2tx8Error, InputError
from hlo2tx8.frontend import load
from hlo2tx8.frontend.onnx import ModelFile, input_names, output_names
from hlo2tx8.options import Options

Key = tuple[Any, ...]


@dataclass
class Tx8Prepared(BackendRep):
    """A model that is compiled when it is run: once for each set of shapes, and of values that shapes depend on."""

    file: ModelFile
    options: Options
    compiled: dict[Key, Any] = field(default_factory=dict[Key, Any])

    def run(self, inputs: Any, **_: Any) -> Any:
        """The outputs, a tuple with their names, of an array per input in order, by name, or of the only one."""
        names = input_names(self.file)
        if isinstance(inputs, Mapping):
            inputs = [inputs.get(name) for name in names]
        elif not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if len(inputs) != len(names) or any(array is None for array in inputs):
            raise InputError("E1004", f"takes {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        arrays = [np.asarray(array) for array in inputs]
        results = self._executable(arrays).execute(*arrays)
        return namedtupledict("Outputs", output_names(self.file))(*results)

    def _executable(self, arrays: Sequence[Any]) -> Any:
        """One that takes arrays of these shapes, whose bound inputs have these values."""
        shapes = tuple((array.shape, array.dtype.name) for array in arrays)
        for known, executable in self.compiled.items():
            if known == (shapes, self._bound(executable, arrays)):
                return executable
        executable = hlo2tx8.compile(self.file.model, self.options, args=arrays)
        self.compiled[shapes, self._bound(executable, arrays)] = executable
        return executable

    @staticmethod
    def _bound(executable: Any, arrays: Sequence[Any]) -> Key:
        ports = executable.signature.inputs
        return tuple(tuple(a.ravel().tolist()) for a, port in zip(arrays, ports, strict=True) if port.value is not None)


class Tx8Backend(Backend):
    """ONNX's interface, on the emulator of the chip."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Is everything in the model supported? True where that is known only with inputs."""
        try:
            load(model)
        except InputError:
            return True
        except Hlo2tx8Error as error:
            return "known at compile time" in str(error)
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Tx8Prepared:
        """A model, or its bytes or path, ready to be run; keywords are fields of Options."""
        from pathlib import Path

        if isinstance(model, (str, Path)):
            path = Path(model)
            return Tx8Prepared(ModelFile.of(path.read_bytes(), str(path), path.parent), Options(**kwargs))
        return Tx8Prepared(ModelFile.of(model), Options(**kwargs))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """The outputs of a model."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any) -> Any:
        """The outputs of one node, of the newest opset or of `opset_version`."""
        opsets = [helper.make_opsetid(node.domain, kwargs.pop("opset_version", 0) or _newest(node.domain))]
        names = [name for name in node.input if name]
        given = [inputs[name] for name in names] if isinstance(inputs, Mapping) else list(inputs)
        arrays = [np.asarray(array) for array in given]
        types = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], node.op_type, types, results)
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU, where the emulator runs; no other."""
        return device.partition(":")[0] in ("CPU", "TX8")


def _newest(domain: str) -> int:
    from onnx import defs

    return max((schema.since_version for schema in defs.get_all_schemas() if schema.domain == domain), default=1)


is_compatible = Tx8Backend.is_compatible
prepare = Tx8Backend.prepare
run_model = Tx8Backend.run_model
run_node = Tx8Backend.run_node
supports_device = Tx8Backend.supports_device
