"""An exported graph in ops of the table, without tracing it anew: what has no row is taken apart alone, what is in place is not.

    %relu_ : aten.relu_(%norm)                     %relu : aten.relu(%norm)
    %fc : aten.layer_norm(%relu_, [64], ...)   →   %native : aten.native_layer_norm(%relu, [64], ...), its first result
    %out : aten.dropout(%fc, 0.1, False)           nothing: %fc
    %part : aten.slice(%mask, 0, 0, 4)             %new : aten.slice_scatter(%mask, aten.fill(%part, 1), 0, 0, 4)
    %fill_ : aten.fill_(%part, 1)

torch's own `run_decompositions` runs the whole graph twice, which takes longer than to export it. Here torch takes apart one op of
each kind and shapes. Graphs that need more than that are left to torch: those that write to inputs, or to what other views are read
of later, or have control flow.
"""

# pyright: basic

import operator
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from hlo2tx8.frontend.torch.graph import CHECKS, arguments_of, name_of
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.frontend.torch.rows import decompositions, row_of

TRAINED = {"batch_norm": 5, "instance_norm": 5, "native_batch_norm": 5}
"""Ops that write to what they do not say they write to, and the argument that tells whether they do."""
OWN = {"batch_norm", "conv1d", "conv2d", "conv3d", "group_norm", "layer_norm", "linear", "matmul"}
"""Of composite ops, which torch may hand an input back from, or a view of it, without saying so, some that never do."""
SCATTERS = {"slice.Tensor": "slice_scatter", "select.int": "select_scatter"}
"""Ops that make views of a part of a tensor, and those that put a part into a copy of it."""


class _LeftToTorch(Exception):
    """The graph needs more than is done here."""


def functional_graph(module: Any) -> Any:
    """A GraphModule of ops that have rows and write to nothing, which computes what a graph that torch.export made does; None if
    that is for torch to find. The given one stays as it is."""
    try:
        return _Rewrite({node: number for number, node in enumerate(module.graph.nodes)}).of(module)
    except _LeftToTorch:
        return None


@dataclass(frozen=True)
class _Rewrite:
    """The `graph` that is made, and what stands there for each node of the old one, whose places are `order`. `same` are the nodes
    that are one tensor, as the results of ops in place are, by each of them; `parts` how ops are taken apart."""

    order: dict[Any, int]
    graph: Any = field(default_factory=lambda: torch_module("fx").Graph())
    values: dict[Any, Any] = field(default_factory=dict[Any, Any])
    same: dict[Any, list[Any]] = field(default_factory=dict[Any, list[Any]])
    parts: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def of(self, module: Any) -> Any:
        """The whole module."""
        fx = torch_module("fx")
        for node in self.order:
            if node.op == "output":
                self.graph.output(fx.node.map_arg(node.args[0], self.values.__getitem__)).meta = dict(node.meta)
            elif node.op != "call_function":
                self.values[node] = self._copy(node)
            elif node.target is operator.getitem:
                several = self.values[node.args[0]]
                self.values[node] = several[node.args[1]] if isinstance(several, (list, tuple)) else self._copy(node)
            elif not hasattr(node.target, "_schema") or "val" not in node.meta or _is_trained(node):
                raise _LeftToTorch
            elif node.target._schema.is_mutable:
                self.values[node] = self._written(node)
            else:
                self.values[node] = self._call(node.target, node)
        self.graph.eliminate_dead_code()
        return fx.GraphModule(module, self.graph)

    def _copy(self, node: Any) -> Any:
        return self.graph.node_copy(node, self.values.__getitem__)

    def _call(self, target: Any, node: Any) -> Any:
        """What stands in the place of a node, if that calls `target`: a node, or several for one with several results."""
        if CHECKS.match(name_of(target)):
            return self._copy(node)
        if row_of(name_of(target)) is not None:
            made = self._copy(node)
            made.target = target
            return made
        if (spelled := _spelled(target, node)) is not None:
            return self._first_result(*spelled, node)
        key = _key((target, *node.args, *sorted(node.kwargs.items())), _nodes(node))
        if key not in self.parts:
            self.parts[key] = _apart(target, node)
        return self._inlined(self.parts[key], node)

    def _written(self, node: Any) -> Any:
        """The new value of what an op in place writes to, which is from here on that of the tensor, and of what it is a part of."""
        made = value = self._call(_out_of_place(node), node)
        base = node.args[0]
        while base.op == "call_function" and name_of(base.target) in SCATTERS:
            view, base = base, base.args[0]
            scatter = getattr(torch_module().ops.aten, SCATTERS[name_of(view.target)]).default
            value = self.graph.call_function(scatter, (self.values[base], value, *view.args[1:]), view.kwargs)
            value.meta = {**node.meta, "val": base.meta["val"]}
        if base not in self.same and not _has_own_memory(base):
            raise _LeftToTorch
        same = self.same.setdefault(base, [base])
        if base is node.args[0]:
            same.append(node)
            self.same[node] = same
        self._check_views(node, same)
        self.values.update(dict.fromkeys(same, value))
        return made

    def _check_views(self, node: Any, same: list[Any]) -> None:
        """Views of a tensor that were made before an op writes to it must be read by no op after that: they have the old value."""
        pending = [(tensor, False) for tensor in same]
        while pending:
            tensor, is_view = pending.pop()
            if is_view and self.order[tensor] <= self.order[node] and any(self.order[u] > self.order[node] for u in tensor.users):
                raise _LeftToTorch
            for user in tensor.users:
                if user.op == "output" or user in same:
                    continue
                is_written = hasattr(user.target, "_schema") and user.target._schema.is_mutable
                if user.args[0] is tensor if is_written else not _has_own_memory(user):
                    pending.append((user, is_view or not is_written))

    def _first_result(self, name: str, args: tuple[Any, ...], node: Any) -> Any:
        target = getattr(torch_module().ops.aten, name).default
        made = self.graph.call_function(target, torch_module("fx").node.map_arg(args, self.values.__getitem__))
        made.meta = dict(node.meta)
        if len(target._schema.returns) == 1:
            return made
        made.meta["val"] = (node.meta["val"], *(None for _ in target._schema.returns[1:]))
        first = self.graph.call_function(operator.getitem, (made, 0))
        first.meta = dict(node.meta)
        return first

    def _inlined(self, part: Any, node: Any) -> Any:
        """What a part computes of a node's arguments."""
        fx = torch_module("fx")
        given = iter(_nodes(node))
        own: dict[Any, Any] = {}
        for inner in part.graph.nodes:
            match inner.op:
                case "placeholder":
                    own[inner] = self.values[next(given)]
                case "output":
                    results = fx.node.map_arg(inner.args[0], own.__getitem__)
                    is_several = isinstance(node.meta["val"], (list, tuple))
                    return results[0] if isinstance(results, (list, tuple)) and not is_several else results
                case _:
                    own[inner] = self.graph.node_copy(inner, own.__getitem__)
                    own[inner].meta["stack_trace"] = node.meta.get("stack_trace")
        raise _LeftToTorch


def _is_trained(node: Any) -> bool:
    at = TRAINED.get(node.target._schema.name.removeprefix("aten::"))
    return at is not None and bool(arguments_of(node.target, node.args, node.kwargs)[at])


def _out_of_place(node: Any) -> Any:
    """The op that computes what one in place does, if that writes to its first argument and leaves it as it lies."""
    schema = node.target._schema
    name = schema.name.removeprefix("aten::")
    packet = getattr(torch_module().ops.aten, name[:-1], None) if name.endswith("_") else None
    plain = getattr(packet, schema.overload_name or "default", None)
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    if plain is None or plain._schema.is_mutable or written[0] is False or any(written[1:]):
        raise _LeftToTorch
    value, before = node.meta["val"], node.args[0].meta["val"]
    if value.dtype != before.dtype or value.shape != before.shape or value.stride() != before.stride():
        raise _LeftToTorch
    return plain


def _has_own_memory(tensor: Any) -> bool:
    """Is it an op's result in memory of its own, and not what that was given or a view of it?"""
    if tensor.op != "call_function" or not hasattr(tensor.target, "_schema") or tensor.target._schema.is_mutable:
        return False
    schema = tensor.target._schema
    is_composite = torch_module()._C._dispatch_has_kernel_for_dispatch_key(tensor.target.name(), "CompositeImplicitAutograd")
    is_alias = any(argument.alias_info is not None for argument in schema.arguments)
    return not is_alias and (not is_composite or schema.name.removeprefix("aten::") in OWN)


def _spelled(target: Any, node: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The op with a row, and its arguments, whose first result is what a common composite op computes: torch is not asked."""
    match target._schema.name.removeprefix("aten::"), arguments_of(target, node.args, node.kwargs):
        case ("conv1d" | "conv2d" | "conv3d", [x, weight, bias, stride, padding, dilation, groups]) if not isinstance(padding, str):
            rank = len(weight.meta["val"].shape)
            lists = [[*each] * (rank - 2) if len(each) == 1 else [*each] for each in (stride, padding, dilation)]
            if len(x.meta["val"].shape) == rank:
                return "convolution", (x, weight, bias, *lists, False, [0] * (rank - 2), groups)
        case "batch_norm", [x, weight, bias, mean, variance, False, momentum, eps, _] if mean is not None:
            return "_native_batch_norm_legit_no_training", (x, weight, bias, mean, variance, momentum, eps)
        case "layer_norm", [x, shape, weight, bias, eps, _]:
            return "native_layer_norm", (x, shape, weight, bias, eps)
        case _:
            pass
    return None


def _key(argument: Any, nodes: list[Any]) -> Any:
    """What of an argument decides how an op is taken apart; of a tensor also which one it is: x * x has one, x * y two."""
    if hasattr(argument, "meta"):
        value = argument.meta["val"]
        kind = (value.dtype, value.shape, value.stride(), value.device) if hasattr(value, "dtype") else value
        return nodes.index(argument), kind
    return tuple(_key(a, nodes) for a in argument) if isinstance(argument, (list, tuple)) else (type(argument), repr(argument))


def _apart(target: Any, node: Any) -> Any:
    """The graph of what torch makes of an op, in ops that have rows."""
    torch, proxies = torch_module(), torch_module("fx.experimental.proxy_tensor")
    inputs = _nodes(node)
    fakes = [value.meta["val"] for value in inputs]
    if not all(isinstance(fake, torch.Tensor) for fake in fakes):
        raise _LeftToTorch
    mode = next((fake.fake_mode for fake in fakes if hasattr(fake, "fake_mode")), nullcontext())

    def call(*tensors: Any) -> Any:
        given = dict(zip(inputs, tensors, strict=True))
        args, kwargs = torch_module("fx").node.map_arg((node.args, node.kwargs), given.__getitem__)
        return target(*args, **kwargs)

    try:
        with mode, torch.no_grad():
            pure = torch_module("func").functionalize(call, remove="mutations")
            made = proxies.make_fx(pure, decomposition_table=decompositions(True))(*fakes)
    except Exception as error:  # whatever a decomposition raises: torch says it better when it does all of the graph
        raise _LeftToTorch from error
    if all(inner.op != "get_attr" and (inner.op != "call_function" or _is_known(inner)) for inner in made.graph.nodes):
        return made
    raise _LeftToTorch


def _is_known(inner: Any) -> bool:
    if inner.target is operator.getitem:
        return True
    return hasattr(inner.target, "_schema") and not inner.target._schema.is_mutable and row_of(name_of(inner.target)) is not None


def _nodes(node: Any) -> list[Any]:
    """The nodes among a node's arguments, each once."""
    found: dict[Any, None] = {}
    note: Callable[[Any], Any] = lambda n: found.setdefault(n)
    torch_module("fx").node.map_arg((node.args, node.kwargs), note)
    return list(found)
