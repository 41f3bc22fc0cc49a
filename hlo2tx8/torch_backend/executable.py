"""What `hlo2tx8.compile` makes of a module of torch: something that is called as the module is, with tensors."""

# pyright: basic

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.torch.arrays import array_of, tensor_of
from hlo2tx8.frontend.torch.exported import ExportedGraph
from hlo2tx8.frontend.torch.importer import TracedGraph
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable


@dataclass(frozen=True)
class GraphExecutable:
    """A compiled graph of torch; `executable` is None where there is nothing to compute."""

    graph: TracedGraph
    executable: Executable | None

    @classmethod
    def of(cls, graph: TracedGraph, options: Options) -> "GraphExecutable":
        """The compiled graph."""
        return cls(graph, None if graph.lowered is None else compile_source(graph.lowered, options))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The graph's results, tensors, numbers and None, for its inputs. Random numbers are drawn from a seed that torch's own
        generator gives, so that torch.manual_seed makes them the same again."""
        torch = torch_module()
        arrays = [array_of(inputs[k]) for k in self.graph.kept]
        if self.graph.is_random:
            arrays.append(torch.randint(0, 1 << 32, (2,), dtype=torch.int64).numpy().astype(np.uint32))
        computed = [] if self.executable is None else self.executable.execute(*arrays)
        return [
            self._result(*what, order, inputs, computed) for what, order in zip(self.graph.results, self.graph.strides, strict=True)
        ]

    @staticmethod
    def _result(kind: str, value: Any, order: tuple[int, ...], inputs: Sequence[Any], computed: Sequence[Any]) -> Any:
        if kind != "output":
            return inputs[value] if kind == "input" else value
        tensor = tensor_of(computed[value])
        if not order:
            return tensor
        back = [order.index(d) for d in range(len(order))]
        return tensor.permute(order).contiguous().permute(back)


@dataclass(frozen=True)
class TorchExecutable:
    """A module or an exported program of torch, compiled. It is called as the module is and returns what that returns; parameters
    and buffers are the module's own tensors, read in each call, and buffers and inputs that the module writes are written.

    `compiled.executable` is the program with its report, text and so on; its inputs are the parameters, buffers and constants, then
    the tensors of the call.
    """

    exported: ExportedGraph
    compiled: GraphExecutable

    @property
    def executable(self) -> Executable:
        """The program; InputError where there is nothing to compute."""
        if self.compiled.executable is None:
            raise InputError("E1004", "the module computes nothing")
        return self.compiled.executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns. InputError if it is not called as it was compiled for, DeviceError if the emulator faults."""
        inputs = self.exported.leaves(args, kwargs)
        results = self.compiled(inputs)
        targets = self.exported.targets
        with torch_module().no_grad():
            for number, value in zip(targets, results, strict=False):
                if number is not None and inputs[number] is not value:
                    inputs[number].copy_(value)
        return self.exported.results(results[len(targets) :])

    def __repr__(self) -> str:
        return f"<TorchExecutable of {self.compiled.executable!r}>"


def compile_torch(source: Any, options: Options, args: Sequence[Any] | Mapping[str, Any] | None = None) -> TorchExecutable:
    """Compile a torch.nn.Module for the inputs `args` (a sequence, or a mapping for inputs by name), a
    torch.export.ExportedProgram, or a `.pt2` file.
    """
    exported = ExportedGraph.of(source, args)
    return TorchExecutable(exported, GraphExecutable.of(exported.traced(), options))
