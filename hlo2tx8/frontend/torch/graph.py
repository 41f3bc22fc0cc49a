"""A graph of torch.fx traced with jax, one node after another; nodes that are refused are passed over and listed together."""

# pyright: basic

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hlo2tx8.errors import CompileError, UnsupportedOp
from hlo2tx8.frontend.torch.arrays import array_of, numpy_dtype
from hlo2tx8.frontend.torch.package import torch_module
from hlo2tx8.frontend.torch.rows import row_of
from hlo2tx8.frontend.torch.table import AtenCall
from hlo2tx8.frontend.traced import Lost, Refused

PLACING = {"device", "layout", "pin_memory", "memory_format", "generator", "non_blocking"}
"""Arguments that say where and how a tensor lies, and not what it is."""
CHECKS = re.compile(r"_?(assert|sym_constrain|functional_assert|functional_sym_constrain|check)|_linalg_check_errors")
"""Ops that check what static shapes have decided."""
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


LOST = object()
"""In place of what a refused node would have computed."""


@dataclass
class GraphTracer:
    """Traces graphs; `refused` are ops, places in Python and reasons. `key` gives the key of the run's random numbers."""

    key: Callable[[], Any]
    refused: list[UnsupportedOp] = field(default_factory=list[UnsupportedOp])
    draws: int = 0

    def graph(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The results of a graph for arrays, numbers and None as inputs; LOST where a refused node is before one."""
        values: dict[Any, Any] = {}
        rest = iter(inputs)
        for node in module.graph.nodes:
            match node.op:
                case "placeholder":
                    values[node] = next(rest)
                case "get_attr":
                    values[node] = self._attribute(module, node.target)
                case "output":
                    results = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
                    return [values[r] if _is_node(r) else r for r in results]
                case _:
                    values[node] = self._node(node, values)
        return []

    def _attribute(self, module: Any, name: str) -> Any:
        found = operator.attrgetter(name)(module)
        if not hasattr(found, "dtype"):
            return found
        with torch_module("_subclasses.fake_tensor").unset_fake_temporarily():  # in which torch.compile calls a backend
            return jnp.asarray(array_of(found))

    def _node(self, node: Any, values: dict[Any, Any]) -> Any:
        line = python_line(node)
        try:
            args, kwargs = torch_module("fx").node.map_arg((node.args, node.kwargs), lambda n: _found(values, n))
            with jax.named_scope(f"{node.name} {line}".replace("/", ".").strip()):
                return self._call(node, args, kwargs)
        except Refused as refused:
            self.refused.append(UnsupportedOp(name_of(node.target), (line,), str(refused)))
        except Lost:
            pass
        except (CompileError, MemoryError, RecursionError):
            raise
        except Exception as error:
            message = next(iter(str(error).splitlines()), "")[:200]
            raise CompileError("E1002", f"{name_of(node.target)}: {type(error).__name__}: {message}", origin=line) from error
        return LOST

    def _call(self, node: Any, args: Any, kwargs: Any) -> Any:
        from hlo2tx8.frontend.torch.control import CONTROL

        target, name = node.target, name_of(node.target)
        if target is operator.getitem:
            return args[0][args[1]]
        if not hasattr(target, "_schema"):
            if name in CONTROL:
                return CONTROL[name](self, *args, **kwargs)
            if isinstance(target, torch_module("_ops").HigherOrderOperator):
                raise Refused("the op is not supported")
            return target(*args, **kwargs)
        if CHECKS.match(name):
            return None
        row = row_of(name)
        if row is None:
            raise Refused("the op is not supported")
        results = node.meta.get("val")
        is_one = not isinstance(results, (list, tuple))
        metas = [results] if is_one else results
        dtypes = tuple(numpy_dtype(r.dtype) if hasattr(r, "dtype") else None for r in metas)
        shapes = tuple(tuple(r.shape) if hasattr(r, "shape") else None for r in metas)
        given = tuple(a.meta.get("val") if _is_node(a) else a for a in (*node.args, *node.kwargs.values()))
        found = row(AtenCall(name, dtypes, shapes, given, self._key), *arguments_of(target, args, kwargs))
        if is_one:
            return _typed(found, dtypes[0], results)
        return tuple(_typed(f, dtype, r) for f, dtype, r in zip(found, dtypes, results, strict=False))

    def _key(self) -> Any:
        self.draws += 1
        return jax.random.fold_in(self.key(), self.draws)


def arguments_of(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments of an op's schema in order, less those that only say where a tensor lies."""
    found: list[Any] = []
    for number, argument in enumerate(target._schema.arguments):
        if argument.name in PLACING:
            continue
        value = args[number] if number < len(args) else kwargs.get(argument.name, argument.default_value)
        found.append(numpy_dtype(value) if isinstance(value, torch_module().dtype) else value)
    return found


def name_of(target: Any) -> str:
    """`add.Tensor` for an op of ATen, else `namespace::op` or the function's name."""
    if not hasattr(target, "_schema"):
        return getattr(target, "__name__", str(target))
    name = target._schema.name.removeprefix("aten::")
    return f"{name}.{target._schema.overload_name}" if target._schema.overload_name else name


def python_line(node: Any) -> str:
    """The innermost line of Python that a node comes from; empty if that is not known."""
    places = _LINE.findall(node.meta.get("stack_trace") or "")
    return f"{places[-1][0]}:{places[-1][1]}" if places else ""


def _is_node(value: Any) -> bool:
    return hasattr(value, "op") and hasattr(value, "meta")


def _found(values: dict[Any, Any], node: Any) -> Any:
    value = values[node]
    if value is LOST or (isinstance(value, (list, tuple)) and any(v is LOST for v in value)):
        raise Lost
    return value


def _typed(value: Any, dtype: Any, meta: Any) -> Any:
    """A result in torch's dtype; ValueError if it has not torch's shape."""
    if value is None or dtype is None:
        return value
    array = jnp.asarray(value)
    if jnp.iscomplexobj(array) and not jnp.issubdtype(dtype, jnp.complexfloating):
        array = array.real
    shape = tuple(meta.shape)
    if len(shape) != array.ndim or any(type(n) is int and n != m for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"the result is {list(array.shape)} and should be {list(shape)}")
    return array if array.dtype == np.dtype(dtype) else array.astype(dtype)
