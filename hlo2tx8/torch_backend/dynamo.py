"""The backend `tx8` of torch.compile, for inference and training."""

# pyright: basic

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.frontend.torch.importer import trace_graph
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.frontend.torch.rows import decompositions
from hlo2tx8.options import Options
from hlo2tx8.torch_backend.executable import GraphExecutable


def backend(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any) -> Any:
    """The function that runs a graph which torch.compile has found, and its gradient's graph, on the emulator.

        torch.compile(model, backend="tx8", options={"matmul_precision": "highest"})

    options: fields of hlo2tx8.Options. Sizes that torch leaves open (dynamic=True) are those of a call: the graph is compiled for
    each set of sizes that it is called with.
    """
    chosen = Options(**(options or {}))
    functorch = torch_module("_functorch.aot_autograd")

    def compiler(graph: Any, examples: Sequence[Any]) -> Any:
        compiled = _CompiledGraph(graph, chosen)
        if not any(isinstance(value, torch_module().SymInt) for value in examples) and not _has_open_sizes(examples):
            compiled.program(list(examples))
        return functorch.make_boxed_func(compiled)

    aot_autograd = torch_module("_dynamo.backends.common").aot_autograd
    wrapped = aot_autograd(
        fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions(False)
    )
    return wrapped(module, example_inputs)


def _has_open_sizes(examples: Sequence[Any]) -> bool:
    return any(type(size) is not int for value in examples for size in getattr(value, "shape", ()))


@dataclass
class _CompiledGraph:
    """A graph, compiled once for each set of shapes and numbers."""

    graph: Any
    options: Options
    programs: dict[tuple[Any, ...], GraphExecutable] = field(default_factory=dict[tuple[Any, ...], GraphExecutable])

    def program(self, inputs: Sequence[Any]) -> GraphExecutable:
        key = tuple((tuple(value.shape), value.dtype) if hasattr(value, "dtype") else value for value in inputs)
        if key not in self.programs:
            self.programs[key] = GraphExecutable.of(trace_graph(self.graph, inputs), self.options)
        return self.programs[key]

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.program(inputs)(inputs)
