"""Custom calls of LAPACK's routines, which jax makes of linear algebra for cpu, become what it makes of it for tx8.

custom_call @lapack_spotrf_ffi(%a) {uplo = 76}    ⟶    a loop over columns

The calls say how matrices lie in memory; values stay what they are, logical arrays.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hlo2tx8.builders.expansion import Expansion
from hlo2tx8.dialects.hlo import origin
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.errors import CompileError
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.types import layout_of, row_major, type_from_text, type_to_text
from hlo2tx8.frontend.walker import walk_module
from hlo2tx8.hlo.types import numpy_dtype

Layouts = tuple[tuple[int, ...], ...]


def expand_lapack(op: Operation, attributes: Mapping[str, Any], types: Sequence[Attribute]) -> Sequence[SSAValue] | None:
    """What a custom call gives, computed in front of it; None if it calls no routine that is known.

    CompileError E1002 for attributes that the routine has not, or operands and results that are not its own.
    """
    target = str(attributes["call_target_name"])
    if not target.startswith(("lapack_", "blas_")):
        return None
    from hlo2tx8.linalg import lapack  # imports jax

    if not lapack.is_known(target):
        return None
    e = Expansion(op)
    given: Any = attributes.get("mhlo.backend_config") or attributes.get("backend_config") or {}
    values = [value.type for value in op.operands]
    layouts = (*_layouts(attributes.get("operand_layouts"), values), *_layouts(attributes.get("result_layouts"), types))
    if not isinstance(given, dict):
        return None
    config = cast(dict[str, Any], given)
    plain = [type_from_text(type_to_text(type_)) for type_ in values]
    try:
        body = _body(target, tuple(sorted(config.items())), tuple(map(type_to_text, plain)), layouts)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise CompileError(
            "E1002", f"{target}: {next(iter(str(error).splitlines()), 'what it is given')}", origin=origin(op)
        ) from None
    last = body.last_op
    assert last is not None
    if [o.type for o in last.operands] != [type_from_text(type_to_text(type_)) for type_ in types]:
        raise CompileError("E1002", f"{target} gives {', '.join(type_to_text(o.type) for o in last.operands)}", origin=origin(op))
    operands = [v if v.type == type_ else e.emit("reshape", [v], type_) for v, type_ in zip(op.operands, plain, strict=True)]
    mapping: dict[SSAValue, SSAValue] = dict(zip(body.args, operands, strict=True))
    for inner in body.ops:
        if inner is not last:
            for each in e.insert(inner.clone(mapping)).walk():
                each.attributes |= {key: value for key, value in op.attributes.items() if key == "loc"}
    return [mapping[value] for value in last.operands]


def _layouts(given: Any, types: Sequence[Attribute]) -> Layouts:
    """Minor to major for each tensor: as the call says, or its type; row major if neither does."""
    if given is not None:
        return tuple(tuple(int(d) for d in layout) for layout in given)
    return tuple(layout_of(type_) or row_major(as_tensor(type_).get_num_dims()) for type_ in types)


@lru_cache(maxsize=64)
def _body(target: str, config: tuple[tuple[str, Any], ...], types: tuple[str, ...], layouts: Layouts) -> Block:
    """The body of the function that a routine is on tensors of these types."""
    from hlo2tx8.linalg import lapack

    tensors = [as_tensor(type_from_text(text)) for text in types]
    shapes = [(tuple(t.get_shape()), numpy_dtype(t.element_type)) for t in tensors]
    lowered = shim.lower_for_types(lapack.routine(target, dict(config), layouts), shapes)
    module = shim.lowered_module(lowered)
    shim.run_pipeline(module, "builtin.module(canonicalize,cse)")
    (main,) = (op for op in walk_module(module, inline=True).body.block.ops)
    assert isinstance(main, FuncOp)
    for op in main.body.block.walk():
        op.attributes.pop("loc", None)
    return main.body.block
