"""A graph of ATen ops to a program of jax, and where each of the graph's results comes from."""

# pyright: basic

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from hlo2tx8.errors import UnsupportedError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.torch.arrays import array_of, numpy_dtype
from hlo2tx8.frontend.torch.graph import GraphTracer
from hlo2tx8.frontend.torch.package import torch_module

PRECISIONS = {"highest": "highest", "high": "high", "medium": "default"}
"""What torch.get_float32_matmul_precision() says, and what it means in StableHLO."""


@dataclass(frozen=True)
class TracedGraph:
    """A jax `Lowered` of a graph, None if there is nothing to compute. It takes the tensors among the graph's inputs whose numbers
    are `kept`, in order, and at the end two numbers of 32 bits, from which random numbers come, where `is_random`.

    `results` say for each of the graph's results what it is: ("output", number), ("input", number) for one that is handed back as
    it came, or ("value", number or None); `strides` how torch lays it out, () where that is row by row.
    """

    lowered: Any
    kept: tuple[int, ...]
    results: tuple[tuple[str, Any], ...]
    strides: tuple[tuple[int, ...], ...]
    is_random: bool


def trace_graph(module: Any, inputs: Sequence[Any], constants: Sequence[Any] = ()) -> TracedGraph:
    """A GraphModule traced for inputs: tensors, of which only shape and dtype are looked at, numbers, and None. The first of the
    graph's inputs are `constants`, tensors that become part of the program.

    UnsupportedError lists all ops that cannot be compiled.
    """
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    first = len(constants)
    kept = [k for k, value in enumerate(inputs) if hasattr(value, "dtype") and placeholders[first + k].users]
    types = [jax.ShapeDtypeStruct(tuple(inputs[k].shape), numpy_dtype(inputs[k].dtype)) for k in kept]
    (outputs,) = (node for node in module.graph.nodes if node.op == "output")
    wanted = outputs.args[0] if isinstance(outputs.args[0], (list, tuple)) else (outputs.args[0],)
    results: list[tuple[str, Any]] = []
    tracer = GraphTracer(lambda: jax.random.key(0))  # few graphs draw: those that do are traced again, with a seed

    def main(*arrays: Any) -> Any:
        values = [None if constant is None else jax.numpy.asarray(array_of(constant)) for constant in constants] + list(inputs)
        for k, array in zip(kept, arrays, strict=False):
            values[first + k] = array
        found = tracer.graph(module, values)
        if tracer.refused:
            raise UnsupportedError(tracer.refused)
        results.clear()
        computed: list[Any] = []
        for node, value in zip(wanted, found, strict=True):
            if hasattr(node, "op") and node.op == "placeholder" and (k := placeholders.index(node)) >= first:
                results.append(("input", k - first))
            elif isinstance(value, jax.Array):
                results.append(("output", len(computed)))
                computed.append(value)
            else:
                results.append(("value", value))
        return computed

    def with_seed(*arrays: Any) -> Any:
        tracer.key, tracer.draws = (lambda: jax.random.wrap_key_data(arrays[-1], impl="threefry2x32")), 0
        return main(*arrays)

    main.__name__ = with_seed.__name__ = "torch"
    precision = PRECISIONS[torch_module().get_float32_matmul_precision()]
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.default_matmul_precision(precision),
    ):
        lowered = shim.lower_function(jax.jit(main, keep_unused=True), tuple(types))
        if tracer.draws:
            seed = jax.ShapeDtypeStruct((2,), np.uint32)
            lowered = shim.lower_function(jax.jit(with_seed, keep_unused=True), (*types, seed))
    if not any(kind == "output" for kind, _ in results):
        lowered = None
    strides = tuple(_strides(node) for node in wanted)
    return TracedGraph(lowered, tuple(kept), tuple(results), strides, bool(tracer.draws))


def _strides(node: Any) -> tuple[int, ...]:
    """The dimensions of a result by how far apart its elements lie, farthest first; () if that is their own order."""
    value: Any = getattr(node, "meta", {}).get("val")
    if not hasattr(value, "stride") or value.layout != torch_module().strided or value.is_contiguous():
        return ()
    found = [getattr(getattr(s, "node", None), "hint", s) for s in value.stride()]
    order = sorted(range(len(found)), key=lambda d: -int(found[d] or 0))
    return () if order == list(range(len(order))) else tuple(order)
