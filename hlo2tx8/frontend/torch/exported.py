"""Modules and exported programs of torch: their graph, their state, and how they are called."""

# pyright: basic

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.torch.archive import read_archive
from hlo2tx8.frontend.torch.arrays import tensor_of
from hlo2tx8.frontend.torch.functional import functional_graph
from hlo2tx8.frontend.torch.importer import TracedGraph, trace_graph
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.frontend.torch.rows import decompositions

RETURNED = ("USER_OUTPUT", "LOSS_OUTPUT")


@dataclass(frozen=True)
class ExportedGraph:
    """An exported program whose graph has only ops of the table. `state` are its parameters, buffers and constants, which are the
    first inputs of the graph, `inputs` the user's as torch sees them, `targets` say to which input each of the first results is
    written, None for one that is nothing. `takes` and `gives` are torch's trees of the user's inputs and results.
    """

    module: Any
    state: tuple[Any, ...]
    inputs: tuple[Any, ...]
    targets: tuple[int | None, ...]
    takes: Any
    gives: Any

    @classmethod
    def of(cls, source: Any, args: Sequence[Any] | Mapping[str, Any] | None, name: str = "<bytes>") -> "ExportedGraph":
        """That of a module, for the inputs `args`, positional or by name; of an exported program or a `.pt2` file or its bytes,
        which messages call `name`, where args say the sizes that it leaves open. InputError where they are missing or do not fit.
        """
        with warnings.catch_warnings():  # torch copies its own trees in a way that it warns of
            warnings.simplefilter("ignore", FutureWarning)
            program = _exported(source, args, name)
            if (module := functional_graph(program.graph_module)) is None:
                program = program.run_decompositions(decompositions(True))
                module = program.graph_module
        signature, own = program.graph_signature, {**program.constants, **program.state_dict}
        kinds = [(spec.kind.name, spec) for spec in signature.input_specs]
        if any(kind == "CUSTOM_OBJ" for kind, _ in kinds):
            raise InputError("E1004", "the program has objects of classes")
        numbers = {spec.arg.name: k for k, (_, spec) in enumerate(kinds)}
        numbers |= {spec.target: k for k, (_, spec) in enumerate(kinds) if spec.target is not None}
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        user = [k for k, (kind, _) in enumerate(kinds) if kind == "USER_INPUT"]
        return cls(
            module,
            tuple(own.get(spec.target) for kind, spec in kinds if kind != "USER_INPUT"),
            tuple(nodes[k].meta.get("val", getattr(kinds[k][1].arg, "value", None)) for k in user),
            tuple(numbers.get(spec.target) for spec in signature.output_specs if spec.kind.name not in RETURNED),
            program.call_spec.in_spec,
            program.call_spec.out_spec,
        )

    def traced(self, *, has_constants: bool = False) -> TracedGraph:
        """Its graph as a program that takes state and inputs, or inputs alone, with the state as constants."""
        if has_constants:
            return trace_graph(self.module, self.inputs, self.state)
        return trace_graph(self.module, (*self.state, *self.inputs))

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The graph's inputs of a call; InputError if it is not called as it was exported."""
        pytree = torch_module("utils._pytree")
        names = list(self.takes.children()[1].context or ()) if self.takes.num_children == 2 else []
        ordered = {name: kwargs[name] for name in names if name in kwargs} | dict(kwargs)
        found, tree = pytree.tree_flatten((tuple(args), ordered))
        if tree != self.takes:
            raise InputError("E1004", f"takes {self.takes}, got {tree}")
        for number, (value, expected) in enumerate(zip(found, self.inputs, strict=True)):
            if not hasattr(expected, "dtype") and value != expected and type(expected) in (int, float, bool, str):
                raise InputError("E1004", f"input {number} is {value!r} and was {expected!r} when the program was made")
        return [*self.state, *found]

    def results(self, values: Sequence[Any]) -> Any:
        """What the module returns, of the results behind those that are written to inputs."""
        return torch_module("utils._pytree").tree_unflatten(list(values), self.gives)


def _exported(source: Any, args: Any, name: str) -> Any:
    torch = torch_module()
    export = torch_module("export")
    if isinstance(source, bytes):
        source = read_archive(source, name)
    elif isinstance(source, (str, Path)):
        try:
            source = read_archive(Path(source).read_bytes(), str(source))
        except OSError as error:
            raise InputError("E1004", f"{source}: {error.strerror}") from None
    if not isinstance(source, torch.nn.Module):
        if not _has_open_sizes(source):
            return source
        if args is None:
            raise InputError("E1004", "the program leaves sizes open", hint="pass args=(...)")
        source = source.module()
    if args is None:
        raise InputError("E1004", "a module needs example inputs", hint="pass args=(...)")
    positional, named = ((), dict(args)) if isinstance(args, Mapping) else (tuple(args), {})
    given = torch_module("utils._pytree").tree_map(lambda a: tensor_of(a) if isinstance(a, np.ndarray) else a, (positional, named))
    try:
        return export.export(source, *given)
    except Exception as error:
        message = next((line for line in str(error).splitlines() if line.strip()), "")[:300]
        raise InputError("E1004", f"torch.export: {type(error).__name__}: {message}") from error


def _has_open_sizes(program: Any) -> bool:
    return any(
        type(size) is not int
        for node in program.graph.nodes
        if node.op == "placeholder"
        for size in getattr(node.meta.get("val"), "shape", ())
    )
