"""The reference evaluator: runs HLO and FUSED modules with numpy, one op after another, at full precision."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hlo2tx8.dialects.hlo import UnknownOp, decode_attributes, origin
from hlo2tx8.errors import CompileError, InputError, LevelError, UnsupportedError, UnsupportedOp
from hlo2tx8.hlo.liveness import Liveness
from hlo2tx8.hlo.lookup import attributes_of, has_spec, spec_of, tensor_like
from hlo2tx8.hlo.ops.control import SINGLE_DEVICE_IDENTITIES
from hlo2tx8.hlo.reduction import reduce_op
from hlo2tx8.hlo.region_function import RegionFunction
from hlo2tx8.hlo.spec import Array, Kind, OpSpec
from hlo2tx8.hlo.turns import Turns

Value = Any
"""An array, or a tuple of values for HLO tuples; () for tokens."""


def evaluate(module: ModuleOp, *arrays: Array, max_steps: int = 0) -> list[Array]:
    """The results of @main on the inputs; DeviceError if its loops turn more than `max_steps` times, 0 is no limit.

    UnsupportedError lists everything that cannot be evaluated; InputError on inputs that do not fit @main.
    """
    main, functions, inputs = check_inputs(module, arrays)
    results = Evaluator(functions, turns=Turns(max_steps)).run(main.body.block, inputs, {})
    return [_owned(a, inputs) for a in results]


def check_inputs(module: ModuleOp, arrays: Sequence[Array]) -> tuple[FuncOp, dict[str, FuncOp], list[Array]]:
    """@main, the functions by name and the inputs as arrays of @main's types; errors as `evaluate` says."""
    _check_supported(module)
    functions = {op.sym_name.data: op for op in module.walk() if isinstance(op, FuncOp)}
    main = functions.get("main") or (next(iter(functions.values())) if len(functions) == 1 else None)
    if main is None:
        raise CompileError("E1002", "the module has no @main")
    parameters = main.body.block.args
    if len(parameters) != len(arrays):
        raise InputError("E1004", f"@main takes {len(parameters)} inputs, got {len(arrays)}")
    inputs = [np.asarray(a) for a in arrays]
    for i, (parameter, array) in enumerate(zip(parameters, inputs, strict=True)):
        _check_type(array, parameter, f"input {i} of @main", InputError)
    return main, functions, inputs


def _owned(result: Array, inputs: Sequence[Array]) -> Array:
    """The result in C order, writable, in memory of its own."""
    if not result.flags.writeable or any(np.may_share_memory(result, a) for a in inputs):
        return np.array(result, order="C")
    return np.asarray(result, order="C")


class Evaluator:
    """Runs blocks; `functions` are the callable func.funcs by name, `turns` counts those of loops."""

    def __init__(self, functions: dict[str, FuncOp], liveness: Liveness | None = None, turns: Turns | None = None) -> None:
        self.functions = functions
        self.liveness = liveness or Liveness()
        self.turns = turns or Turns()

    def run(self, block: Block, arguments: Sequence[Value], values: dict[SSAValue, Value]) -> list[Value]:
        """The terminator's operands after running the block.

        `values` has what enclosing blocks define; the block's own values join it and go after their last use.
        """
        values.update(zip(block.args, arguments, strict=True))
        dying = self.liveness.of(block)
        for op in block.ops:
            operands = [values[v] for v in op.operands]
            is_return = op.name in ("func.return", "stablehlo.return")
            if not is_return:
                values.update(zip(op.results, self.step(op, operands, values), strict=True))
            for value in dying[op]:
                del values[value]
            if is_return:
                return operands
        raise LevelError("E1006", "a block without return")

    def step(self, op: Operation, operands: list[Value], values: dict[SSAValue, Value]) -> Sequence[Value]:
        """The results of one op."""
        match op.name:
            case "stablehlo.reduce":
                return reduce_op(self, op, operands, values)
            case "stablehlo.map":
                return self.map(op, operands, values)
            case "stablehlo.if" | "stablehlo.case":
                return self.run(self.branch(op, operands[0]), [], values)
            case "stablehlo.while":
                return self.loop(op, operands, values)
            case "func.call" | "stablehlo.composite":
                self.turns.take(origin(op))
                name = "callee" if op.name == "func.call" else "decomposition"
                return self.run(self.function(op, name).body.block, operands, {})
            case "hlo.fusion" | "hlo.group" | "hlo.library":
                body = op.regions[0].block
                return self.run(body, operands if body.args else [], values)
            case "stablehlo.tuple":
                return [tuple(operands)]
            case "stablehlo.get_tuple_element":
                return [operands[0][attributes_of(op)["index"]]]
            case "stablehlo.optimization_barrier":
                return operands
            case "stablehlo.after_all" | "stablehlo.create_token":
                return [()]
            case _ if _says_where_data_lies(op):
                return operands
            case _:
                return self.apply_with_bodies(op, operands, values) if op.regions else self.apply(op, operands)

    def apply_with_bodies(self, op: Operation, arrays: Sequence[Value], values: dict[SSAValue, Value]) -> Sequence[Value]:
        """The results of an op whose regions combine or compare elements, by the reference of its spec."""
        reference = spec_of(op).body_reference
        if reference is None:
            raise CompileError("E1001", f"{op.name} has no reference", origin=origin(op))
        bodies = [RegionFunction(self, region, values) for region in op.regions]
        return reference(attributes_of(op), tuple(tensor_like(r.type) for r in op.results), bodies, *arrays)

    def lifted(self) -> "Evaluator":
        """An evaluator that runs regions written for scalars on whole arrays."""
        return _LiftedEvaluator(self.functions, self.liveness, self.turns)

    def apply(self, op: Operation, arrays: Sequence[Value]) -> Sequence[Value]:
        """The arrays that the reference of the op's spec gives, checked to be of the op's result types."""
        results = tuple(tensor_like(result.type) for result in op.results)
        found = spec_of(op).evaluate(attributes_of(op), results, *arrays)
        for array, result in zip(found, op.results, strict=True):
            _check_type(array, result, f"result of {op.name}", LevelError, origin(op))
        return found

    def function(self, op: Operation, attribute: str) -> FuncOp:
        """The function that an attribute of the op names."""
        name = str(attributes_of(op)[attribute])
        if name not in self.functions:
            raise CompileError("E1002", f"{op.name} of unknown function @{name}", origin=origin(op))
        return self.functions[name]

    def branch(self, op: Operation, selector: Array) -> Block:
        """The region that an if or case takes: of an if the first one for True; for an index out of range the last one."""
        number = int(selector)
        if op.name == "stablehlo.if":
            return op.regions[0 if number else 1].block
        return op.regions[number if 0 <= number < len(op.regions) else -1].block

    def loop(self, op: Operation, state: list[Value], values: dict[SSAValue, Value]) -> list[Value]:
        """The final loop variables of a while, whose body runs as long as its condition gives True."""
        condition, body = (region.block for region in op.regions)
        while bool(self.run(condition, state, values)[0]):
            self.turns.take(origin(op))
            state = self.run(body, state, values)
        return state

    def map(self, op: Operation, arrays: Sequence[Value], values: dict[SSAValue, Value]) -> list[Value]:
        """The result of a region applied to every element."""
        (region,) = op.regions
        shape = tensor_like(op.results[0].type).shape
        if is_elementwise(region, self.functions):
            found = self.lifted().run(region.block, arrays, dict(values))
            return [np.broadcast_to(f, shape).copy() for f in found]
        results = [np.empty(shape, tensor_like(r.type).dtype) for r in op.results]
        for index in np.ndindex(shape):
            element = self.run(region.block, [np.asarray(a[index]) for a in arrays], dict(values))
            for result, value in zip(results, element, strict=True):
                result[index] = value
        return results


class _LiftedEvaluator(Evaluator):
    """An evaluator in which values of scalar type hold arrays of one common shape."""

    def apply(self, op: Operation, arrays: Sequence[Value]) -> Sequence[Value]:
        return spec_of(op).evaluate(attributes_of(op), tuple(tensor_like(r.type) for r in op.results), *arrays)


def is_elementwise(region: Region, functions: dict[str, FuncOp]) -> bool:
    """True if a region written for scalars gives the right result on whole arrays too."""
    for op in region.block.ops:
        if op.name in ("stablehlo.return", "func.return"):
            continue
        if op.name == "func.call":
            if not is_elementwise(functions[str(attributes_of(op)["callee"])].body, functions):
                return False
            continue
        kind = spec_of(op).kind
        if kind not in (Kind.ELEMENTWISE, Kind.CONSTANT) or op.name.startswith("chlo.broadcast_"):
            return False
    return True


def _check_supported(module: ModuleOp) -> None:
    """UnsupportedError for all ops without a spec, or whose spec says neither a reference nor a control rule."""
    places: dict[str, list[str]] = {}
    for op in module.walk():
        known = (has_spec(op.name) and _has_reference(spec_of(op))) or _says_where_data_lies(op)
        if not known:
            name = op.op_name.data if isinstance(op, UnknownOp) else op.name
            places.setdefault(name, []).append(origin(op))
    if places:
        raise UnsupportedError([UnsupportedOp(name, tuple(found)) for name, found in places.items()])


def _says_where_data_lies(op: Operation) -> bool:
    return op.name == "stablehlo.custom_call" and decode_attributes(op).get("call_target_name") in SINGLE_DEVICE_IDENTITIES


def _has_reference(spec: OpSpec) -> bool:
    return bool(spec.reference or spec.body_reference) or spec.kind in (Kind.CONTROL, Kind.REDUCE)


def _check_type(array: Array, value: SSAValue, what: str, error: type[InputError] | type[LevelError], where: str = "") -> None:
    expected = tensor_like(value.type)
    if array.shape != expected.shape or array.dtype != expected.dtype:
        code = "E1004" if error is InputError else "E1006"
        raise error(code, f"{what} is {array.dtype.name}{list(array.shape)}, not {expected}", origin=where)
