"""Pass expand-approx-top-k: custom_call @ApproxTopK becomes a sort of which the first elements are kept.

    %0 = stablehlo.custom_call @ApproxTopK(%x, ...) {called_computations = [@f]}    ⟶    %1 = stablehlo.sort(%x, ...) by @f
                                                                                        %0 = stablehlo.slice %1 [0:k]

These are all of the best, so any recall target is met.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hlo2tx8.builders.expansion import Expansion, int_array
from hlo2tx8.builders.rewrite_named import rewrite_named
from hlo2tx8.dialects import stablehlo
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.passes.inline_calls import named_functions


@dataclass(frozen=True)
class ExpandApproxTopKPass(ModulePass):
    """Rewrites custom calls of that target; see the module docstring."""

    name = "expand-approx-top-k"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_named(op, {"stablehlo.custom_call": _approx_top_k})


def _approx_top_k(op: Operation) -> None:
    attributes = attributes_of(op)
    config = attributes.get("mhlo.backend_config")
    if attributes.get("call_target_name") != "ApproxTopK" or not isinstance(config, dict):
        return
    module, name = _module_of(op), str(attributes["called_computations"][0])
    functions = {f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp)} if module else {}
    if module is None or name not in functions:
        return
    e, dim = Expansion(op), int(config["reduction_dim"])  # pyright: ignore[reportUnknownArgumentType]
    arrays = op.operands[: len(op.results)]
    properties = {"dimension": IntegerAttr(dim, i64), "is_stable": IntegerAttr(1, i1)}
    regions = [Region(_as_region(functions[name]))]
    ordered = e.insert(stablehlo.OPS["sort"](arrays, [value.type for value in arrays], properties, regions)).results
    found: list[SSAValue] = []
    for value, result in zip(ordered, op.results, strict=True):
        limits = tensor_like(result.type).shape
        bounds = {"start_indices": int_array([0] * len(limits)), "limit_indices": int_array(limits)}
        found.append(e.emit("slice", [value], result.type, strides=int_array([1] * len(limits)), **bounds))
    e.replace(*found)
    if name not in named_functions(module):
        Rewriter.erase_op(functions[name])


def _module_of(op: Operation) -> ModuleOp | None:
    """The module that an op is in."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return op if isinstance(op, ModuleOp) else None


def _as_region(function: FuncOp) -> Block:
    """The body of a function as that of an op."""
    region = function.body.clone()
    block = region.block
    end = block.last_op
    assert end is not None
    Rewriter.replace_op(end, stablehlo.ReturnOp(list(end.operands)), [])
    return region.detach_block(0)
