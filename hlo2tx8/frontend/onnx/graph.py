"""A graph's nodes traced with jax, one after another; what shapes depend on is computed while it is traced.

shape = Concat(Shape(x)[0:1], [-1])        a value is an array of the program that is traced, and beside that a way to
y = Reshape(x, shape)                      compute it now, from constants and from inputs that are given: only what a node
                                           must know is computed so, and inputs that it took become bound to their values
"""

# pyright: basic

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.errors import Hlo2tx8Error, ParseError, UnsupportedOp
from hlo2tx8.frontend.onnx.model_file import ModelFile
from hlo2tx8.frontend.onnx.package import onnx_module
from hlo2tx8.frontend.onnx.rows import ROWS
from hlo2tx8.frontend.onnx.schemas import body_of, defaults_of, schema_of, typed
from hlo2tx8.frontend.onnx.scope import LOST, NameScope, TracedValue, plain_array
from hlo2tx8.frontend.onnx.table import NodeCall, OpRow, Refused
from hlo2tx8.frontend.traced import Lost, first_line

DEEPEST = 60
"""How many functions and graphs may be inside of each other."""


@dataclass
class Tracer:
    """Traces the nodes of one model; `refused` are those that could not be, and why."""

    file: ModelFile
    refused: dict[tuple[str, str, str], None] = field(default_factory=dict[tuple[str, str, str], None])

    @property
    def unsupported(self) -> list[UnsupportedOp]:
        """What was refused, for an UnsupportedError."""
        return [UnsupportedOp(op, (name,), reason) for op, name, reason in self.refused]

    def graph(self, graph: Any, scope: NameScope, inputs: Sequence[TracedValue | None] = ()) -> list[TracedValue]:
        """The outputs of a graph inside of a scope for values of its inputs; Lost if a refused node is before one of them."""
        inner = scope.inside({port.name: value for port, value in zip(graph.input, inputs, strict=True)} if inputs else {})
        self.constants(graph, inner)
        self.nodes(graph.node, inner)
        return [self.value(inner, port.name) for port in graph.output]

    def constants(self, graph: Any, scope: NameScope) -> None:
        """The initializers of a graph become values."""
        read = [(tensor.name, self.file.array, tensor) for tensor in graph.initializer]
        for name, array_of, given in [*read, *((s.values.name, self.file.dense, s) for s in graph.sparse_initializer)]:
            try:
                scope.values[name] = TracedValue.of_constant(array_of(given))
            except Refused as refused:
                self.refused["initializer", name, str(refused)] = None
                scope.values[name] = LOST

    def value(self, scope: NameScope, name: str) -> TracedValue:
        """A value that must be there; Lost if it is not."""
        found = scope[name]
        if found is None or found is LOST:
            raise Lost
        return found

    def nodes(self, nodes: Any, scope: NameScope) -> None:
        """Puts the results of nodes into a scope."""
        if scope.depth > DEEPEST:
            raise ParseError("E1003", f"{self.file.name}: functions or graphs are more than {DEEPEST} deep inside each other")
        for node in nodes:
            results = self.node(node, scope)
            scope.values.update((name, result) for name, result in zip(node.output, results, strict=False) if name)
            missing = [name for name in node.output[len(results) :] if name]
            if missing:
                raise ParseError("E1003", f"{self.file.name}: {node.op_type} {node.name!r} does not give {missing[0]!r}")

    def node(self, node: Any, scope: NameScope) -> Sequence[TracedValue | None]:
        """The results of a node; where it is refused, or an input is of a node that was, what says so when it is used."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        shown = f"{domain}.{node.op_type}" if domain else node.op_type
        name = node.name or next(iter(node.output), "")
        try:
            inputs = [scope[given] for given in node.input]
            if any(value is LOST for value in inputs):
                raise Lost
            with jax.named_scope(f"{node.op_type} {name}".replace("/", ".").strip()):
                return self._results(node, domain, scope, inputs)
        except Refused as refused:
            self.refused[shown, name, str(refused)] = None
        except Lost:
            pass
        except Hlo2tx8Error:
            raise
        except RecursionError:
            raise ParseError("E1003", f"{self.file.name}: graphs or functions are too deep inside each other") from None
        except Exception as error:
            raise ParseError("E1003", f"{self.file.name}: {shown} {name!r}: {first_line(error)}") from error
        return [LOST] * len(node.output)

    def _results(self, node: Any, domain: str, scope: NameScope, inputs: list[TracedValue | None]) -> Sequence[TracedValue | None]:
        from hlo2tx8.frontend.onnx.control import CONTROL

        local = self._local_functions.get((node.domain, node.op_type, node.overload))
        if local is not None:
            return self.function(local, self.attribute_protos(node, scope), inputs, scope, local)
        opset = scope.opsets.get(domain)
        if opset is None:
            raise Refused(f"the model imports no opset of the domain {domain!r}")
        schema = schema_of(node.op_type, opset, domain)
        attributes = self.attribute_protos(node, scope)
        values = {name: self.attribute(value) for name, value in attributes.items()}
        call = NodeCall(
            node.op_type,
            node.name,
            schema.since_version if schema else opset,
            {**defaults_of(schema), **values},
            tuple(node.output),
        )
        if not domain and node.op_type in CONTROL:
            return CONTROL[node.op_type](self, call, inputs, scope)
        row = ROWS.get(f"{domain}.{node.op_type}" if domain else node.op_type)
        if row is not None:
            return self._apply(row, call, schema, inputs)
        if schema is None:
            raise Refused("the op is not known")
        body = body_of(schema, opset, node, attributes, inputs)
        if body is None:
            raise Refused("the op is not supported")
        defaults = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
        return self.function(body, {**defaults, **attributes}, inputs, scope, None)

    def _apply(self, row: OpRow, call: NodeCall, schema: Any, inputs: list[TracedValue | None]) -> list[TracedValue]:
        """The results of a row's function; each can be computed again at compile time if the inputs can."""
        is_constant = all(value is None or value.is_constant for value in inputs)
        if row.is_folded and not is_constant:
            raise Refused("the shape of its result depends on what is computed")

        def now() -> list[Any]:
            with jax.ensure_compile_time_eval():
                known = [None if value is None else value.known() for value in inputs]
                statics = range(len(inputs)) if row.is_folded else row.statics
                arrays = [a if a is None or i in statics else jnp.asarray(a) for i, a in enumerate(known)]
                return [None if result is None else np.asarray(result) for result in typed(row, call, schema, arrays)]

        all_known = cache(now)
        if row.is_folded:
            return [TracedValue.of_constant(result) for result in all_known()]
        arrays = [
            None if value is None else np.asarray(value.known()) if i in row.statics else plain_array(value)
            for i, value in enumerate(inputs)
        ]
        results = typed(row, call, schema, arrays)
        return [
            TracedValue.of_constant(result)
            if isinstance(result, np.ndarray)
            else TracedValue(result, lambda k=k: all_known()[k], is_constant)
            for k, result in enumerate(results)
        ]

    def function(
        self, body: Any, attributes: Mapping[str, Any], inputs: list[TracedValue | None], scope: NameScope, own: Any
    ) -> list[TracedValue | None]:
        """The results of a function's body."""
        opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in body.opset_import}
        given = {**{a.name: a for a in body.attribute_proto}, **attributes}
        values: dict[str, TracedValue | None] = dict(zip(body.input, [*inputs, *[None] * len(body.input)], strict=False))
        inner = NameScope({**(scope.opsets if own is None else {}), **opsets}, None, values, given, scope.depth + 1)
        self.nodes(body.node, inner)
        return [inner.values.get(name, LOST) for name in body.output]

    def attribute_protos(self, node: Any, scope: NameScope) -> dict[str, Any]:
        """A node's attributes by name; those that refer to attributes of the function's call are these, or left out."""
        found: dict[str, Any] = {}
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                found[attribute.name] = attribute
            elif attribute.ref_attr_name in scope.attributes:
                found[attribute.name] = type(attribute).FromString(scope.attributes[attribute.ref_attr_name].SerializeToString())
                found[attribute.name].name = attribute.name
        return found

    def attribute(self, attribute: Any) -> Any:
        """The value of an attribute: tensors as arrays, strings as text, graphs as they are."""
        value = onnx_module("helper").get_attribute_value(attribute)
        match attribute.type:
            case 3:
                return value.decode(errors="replace")
            case 4:
                return self.file.array(value)
            case 8:
                return [text.decode(errors="replace") for text in value]
            case 11:
                return self.file.dense(value)
            case 6 | 7:
                return list(value)
            case _:
                return value

    @cached_property
    def _local_functions(self) -> dict[tuple[str, str, str], Any]:
        return {(f.domain, f.name, f.overload): f for f in self.file.model.functions}
