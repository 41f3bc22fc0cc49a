"""Dynamic shapes become static ones, from constants and from given inputs.

    %0 = get_dimension_size %x, dim = 0 : (tensor<?x5xf32>)       with an input f32[3,5]:
    %1 = multiply %0, %n                                           and, because a shape depends on it, an input n = 2:
    %2 = dynamic_iota %1 : tensor<?xi32>                   ⟶       iota : tensor<6xi32>

Inputs whose values shapes depend on stay parameters; `VALUE` among their attributes says what they must be.
"""
# pyright: basic

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.errors import CompileError, InputError, UnsupportedError, UnsupportedOp
from hlo2tx8.frontend import shim
from hlo2tx8.frontend.locations import LocationReader
from hlo2tx8.hlo.signature import VALUE

REFINE = "builtin.module(stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism,stablehlo-check-shape-assertions))"
CLEAN_UP = "builtin.module(symbol-dce)"
SHAPE_OPERANDS = {
    "stablehlo.dynamic_broadcast_in_dim": (1,),
    "stablehlo.dynamic_conv": (2,),
    "stablehlo.dynamic_gather": (2,),
    "stablehlo.dynamic_iota": (0,),
    "stablehlo.dynamic_pad": (2, 3, 4),
    "stablehlo.dynamic_reshape": (1,),
    "stablehlo.real_dynamic_slice": (1, 2, 3),
    "stablehlo.set_dimension_size": (1,),
}
"""The operands of an op that say the shape of its result."""
UNKNOWN = "?"
WRAPPER, OF_SHAPE = "stablehlo.shape_refinement_operand_wrapper", "dense<1> : tensor<1xi64>"
"""What stands between an argument whose type has become static and its users, whose types have not."""


def make_static(module: Any, args: Sequence[Any] | None, locations: LocationReader) -> None:
    """Changes an MLIR module in place: no value of @main has an unknown size.

    InputError where arguments of @main have one and `args` do not tell it; UnsupportedError naming the ops whose shapes depend on
    what is computed.
    """
    main = shim.main_of(module)
    if main is None:
        return
    binder = _Binder(module, main, args)
    if any(UNKNOWN in str(type_) for type_ in main.type.inputs):
        binder.bind_shapes()
    elif not any(_is_dynamic(op) for op in shim.walk(module.operation)):
        return
    _inline_calls(module, main.operation)
    _drop_bounds(main.operation)
    binder.refine()
    if args is not None and any(_is_dynamic(op) for op in shim.walk(main.operation)):
        binder.bind_values()
        binder.refine()
    left = [op for op in shim.walk(main.operation) if op is not main.operation and _has_unknown_size(op)]
    if not left:
        return
    causes = [op for op in left if op.name in SHAPE_OPERANDS] or left
    reason = "the shape of its result depends on " + ("what is computed" if args is not None else "values that are not known")
    hint = "" if args is not None else "shapes are bound by inputs: compile(source, args=...), --input_literals_file=FILE"
    raise UnsupportedError([UnsupportedOp(op.name, (locations.text(op.location, ""),), reason) for op in causes], hint=hint)


@dataclass
class _Binder:
    """Puts what is known of the inputs into @main."""

    module: Any
    main: Any
    args: Sequence[Any] | None

    def refine(self) -> None:
        """Spread what is known."""
        try:
            shim.run_pipeline(self.module, REFINE)
            if _slice_to_known_sizes(self.main.operation):
                shim.run_pipeline(self.module, REFINE)
        except shim.mlir_error() as error:
            lines = [line for line in str(error).splitlines() if "error:" in line]
            raise CompileError("E1002", f"shapes do not fit together: {(lines or [str(error)])[0]}") from None

    def bind_shapes(self) -> None:
        """Arguments of @main get the shapes of the inputs."""
        ir, block = shim.ir(), self.main.operation.regions[0].blocks[0]
        if self.args is None:
            unknown = [f"input {n} is {t}" for n, t in enumerate(self.main.type.inputs) if UNKNOWN in str(t)]
            hint = "shapes are bound by inputs: compile(source, args=...), --input_literals_file=FILE"
            raise InputError("E1004", f"unknown sizes: {', '.join(unknown)}", hint=hint)
        if len(self.args) != len(block.arguments):
            raise InputError("E1004", f"takes {len(block.arguments)} inputs, got {len(self.args)}")
        with self.module.context, ir.Location.unknown():
            for number, (argument, given) in enumerate(zip(block.arguments, self.args, strict=True)):
                type_, shape = argument.type, np.shape(given)
                if UNKNOWN not in str(type_):
                    continue
                known = [None if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]
                if len(known) != len(shape) or any(n not in (None, size) for n, size in zip(known, shape, strict=True)):
                    raise InputError("E1004", f"input {number} should be {type_}, got shape {shape}")
                argument.set_type(ir.RankedTensorType.get(shape, type_.element_type))
                sizes = ir.Attribute.parse(f"dense<{list(shape)}> : tensor<{len(shape)}xi64>")
                with ir.InsertionPoint.at_block_begin(block):
                    wrapped = _as_unknown(argument, sizes, type_)
                argument.replace_all_uses_except(wrapped, [wrapped.owner.operation])
            inputs = [argument.type for argument in block.arguments]
            type_ = ir.FunctionType.get(inputs, self.main.type.results)
            self.main.operation.attributes["function_type"] = ir.TypeAttr.get(type_)

    def bind_values(self) -> None:
        """The inputs that sizes depend on become constants."""
        ir, args = shim.ir(), self.args
        block = self.main.operation.regions[0].blocks[0]
        numbers = _numbers_of_sizes(self.main.operation)
        if not numbers or args is None:
            return
        with self.module.context, ir.Location.unknown(), ir.InsertionPoint.at_block_begin(block):
            given = self.main.operation.attributes
            marks = [dict(_items(a)) for a in given["arg_attrs"]] if "arg_attrs" in given else [{} for _ in block.arguments]
            for number in numbers:
                argument, values = block.arguments[number], np.asarray(args[number])
                if list(values.shape) != list(argument.type.shape):
                    raise InputError("E1004", f"input {number} should be {argument.type}, got shape {values.shape}")
                words = [str(int(v)) for v in values.ravel()]
                text = words[0] if not values.shape else f"[{', '.join(words)}]"
                constant = ir.Attribute.parse(f"dense<{text}> : {argument.type}")
                op = ir.Operation.create("stablehlo.constant", [argument.type], [], {"value": constant})
                argument.replace_all_uses_with(op.results[0])
                marks[number][VALUE] = ir.DenseI64ArrayAttr.get([int(v) for v in values.ravel()])
            given["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(mark) for mark in marks])


def _inline_calls(module: Any, main: Any) -> None:
    """Puts the bodies of called functions in place of the calls: a function may be called with several shapes."""
    functions = {op.operation.attributes["sym_name"].value: op.operation for op in module.body.operations}
    while calls := [op for op in shim.walk(main) if op.name == "func.call"]:
        for call in calls:
            copy = functions[call.attributes["callee"].value].clone()
            (block,) = copy.regions[0].blocks
            for argument, operand in zip(block.arguments, call.operands, strict=True):
                argument.replace_all_uses_with(operand)
            for op in [op.operation for op in block.operations]:
                if op.name != "func.return":
                    op.move_before(call)
                    continue
                for result, value in zip(call.results, op.operands, strict=True):
                    result.replace_all_uses_with(value)
            call.erase()
            copy.erase()
    shim.run_pipeline(module, CLEAN_UP)


def _drop_bounds(main: Any) -> None:
    """Types lose the bounds of unknown sizes, which no pass here asks for."""
    for op in shim.walk(main):
        for value in (*op.results, *(a for region in op.regions for block in region for a in block.arguments)):
            if "#stablehlo.bounds" in str(value.type):
                unknown, type_ = shim.ir().ShapedType.get_dynamic_size(), value.type
                shape = [unknown if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]
                with op.context, op.location:
                    value.set_type(shim.ir().RankedTensorType.get(shape, value.type.element_type))


def _slice_to_known_sizes(main: Any) -> bool:
    """Replaces every set_dimension_size to a constant by a slice; False if there was none."""
    ir = shim.ir()
    found = [op for op in shim.walk(main) if op.name == "stablehlo.set_dimension_size"]
    num_replaced = 0
    for op in found:
        operand, dim, size = op.operands[0], int(op.attributes["dimension"]), _constant(op.operands[1])
        shape = list(operand.type.shape)
        if size is None or UNKNOWN in str(operand.type) or not 0 <= size <= shape[dim]:
            continue
        num_replaced += 1
        limits = [size if d == dim else n for d, n in enumerate(shape)]
        with op.context, op.location, ir.InsertionPoint(op):
            places = {"start_indices": [0] * len(shape), "limit_indices": limits, "strides": [1] * len(shape)}
            attributes = {key: ir.DenseI64ArrayAttr.get(value) for key, value in places.items()}
            type_ = ir.RankedTensorType.get(limits, operand.type.element_type)
            part = ir.Operation.create("stablehlo.slice", [type_], [operand], attributes).results[0]
            sizes = ir.Attribute.parse(f"dense<{limits}> : tensor<{len(limits)}xi64>")
            part = _as_unknown(part, sizes, op.results[0].type)
        op.results[0].replace_all_uses_with(part)
        op.erase()
    return num_replaced > 0


def _constant(value: Any) -> int | None:
    """The integer that a scalar constant holds."""
    owner = value.owner
    if isinstance(owner, shim.ir().Block) or owner.name != "stablehlo.constant":
        return None
    return int(next(iter(owner.attributes["value"])))


def _as_unknown(value: Any, sizes: Any, type_: Any) -> Any:
    """A value of static shape as one of a type that its users still have."""
    ir = shim.ir()
    constant = ir.Operation.create("stablehlo.constant", [sizes.type], [], {"value": sizes})
    call = {"call_target_name": ir.StringAttr.get(WRAPPER), "indices_of_shape_operands": ir.Attribute.parse(OF_SHAPE)}
    return ir.Operation.create("stablehlo.custom_call", [type_], [value, constant.results[0]], call).results[0]


def _items(attributes: Any) -> Iterator[tuple[str, Any]]:
    for named in attributes:
        yield named.name, named.attr


def _numbers_of_sizes(main: Any) -> list[int]:
    """The arguments of @main, integers, that sizes of dynamic ops depend on."""
    waiting = [op.operands[n] for op in shim.walk(main) if _is_dynamic(op) for n in SHAPE_OPERANDS.get(op.name, ())]
    seen: dict[Any, None] = {}
    found: list[int] = []
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen[value] = None
        owner = value.owner
        if not isinstance(owner, shim.ir().Block):
            if not owner.name.endswith("get_dimension_size"):
                waiting += owner.operands
        elif owner.owner.operation == main:
            if str(value.type).endswith(("i64>", "i32>", "i16>", "i8>")):
                found.append(shim.ir().BlockArgument(value).arg_number)
        else:
            waiting += owner.owner.operation.operands
    return sorted(found)


def _is_dynamic(op: Any) -> bool:
    """Has the op a result of unknown size, or one whose elements or size operands tell that must be known?"""
    return op.name in SHAPE_OPERANDS or op.name == "stablehlo.get_dimension_size" or _has_unknown_size(op)


def _has_unknown_size(op: Any) -> bool:
    return any(UNKNOWN in str(result.type) for result in op.results)
