"""The child of stablehlo.py: one module with `check` ops compiled, run on the emulator and judged as StableHLO judges it."""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pool import Outcome, serve
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from hlo2tx8.compiler.driver import load_source
from hlo2tx8.dialects.hlo import UnknownOp, decode_attributes, name_of
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.frontend import shim, to_mlir_text
from hlo2tx8.frontend.locations import LocationReader
from hlo2tx8.frontend.quantized import expand_quantized
from hlo2tx8.frontend.types import type_from_text
from hlo2tx8.frontend.walker import walk_module
from hlo2tx8.hlo.precision import HIGHEST
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.hlo.types import numpy_dtype
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_module
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.tools.compare import is_inexact
from hlo2tx8.tools.reference import Reference
from hlo2tx8.tools.xla_cpu import run_on_cpu

Array = npt.NDArray[Any]

_CHECK = re.compile(r"check\.expect_(\w+?)(_const)? (%[\w#]+), *")
_GENERIC = re.compile(
    r'"(check\.expect_\w+_const)"\((%[\w#]+)\) <\{(?:tolerance = ([\d.e+-]+) : f64, )?value = (.*?)\}> : \(.*?\) -> \(\)'
)
_TRAILER = re.compile(r"(?:, *(\w+) = ([\d.e+-]+))?(?:, *(\w+) = ([\d.e+-]+))? *(?:\{(\w+) = ([\d.e+-]+)[^}]*\})?")
SHAPED_BY_OPERAND = tuple(f"dynamic_{name}" for name in ("reshape", "pad", "iota", "broadcast_in_dim", "conv", "gather"))
ULPS, TOLERANCE = 3, 1e-4
_FAR = 2**63
SIZES = (4, 3, 8, 2)
"""Tried for unknown sizes, until shapes fit."""


@dataclass(frozen=True)
class Check:
    """`actual` must be `expected`: equal, within a tolerance (`almost_eq`) or within units in the last place (`close`)."""

    kind: str
    actual: SSAValue
    expected: SSAValue
    limit: float


def generic_checks(text: str) -> str:
    """The module with its check ops in generic form, expected constants as ops."""
    text = _GENERIC.sub(lambda m: f"{m[1]} {m[2]}, {m[4]}" + (f" {{tolerance = {m[3]} : f64}}" if m[3] else ""), text)
    parts: list[str] = []
    end = 0
    for number, match in enumerate(_CHECK.finditer(text)):
        parts.append(text[end : match.start()])
        kind, is_const, actual = match.groups()
        if is_const:
            start, value_end = match.end(), _closing(text, match.end() + len("dense"))
            trailer = _TRAILER.match(text, value_end)
            type_start = text.index(":", value_end) + 2
            end = _closing(text, type_start + len("tensor"))
            late = _TRAILER.match(text, end)
            type_ = text[type_start:end]
            expected = f"%expected_{number}"
            parts.append(f"{expected} = stablehlo.constant {text[start:value_end]} : {type_}\n  ")
            fields = _fields(trailer) | _fields(late)
            end = late.end() if late is not None else end
        else:
            found = re.compile(r"(%[\w#]+)").match(text, match.end())
            assert found is not None
            expected = found[1]
            trailer = _TRAILER.match(text, found.end())
            fields = _fields(trailer)
            type_start = text.index(":", found.end()) + 2
            end = _closing(text, type_start + len("tensor"))
            type_ = text[type_start:end]
            if kind == "close":
                end = _closing(text, text.index("tensor", end) + len("tensor"))
        attributes = ", ".join(f"{name} = {float(value)!r} : f64" for name, value in fields.items())
        parts.append(f'"check.expect_{kind}"({actual}, {expected}) {{{attributes}}} : ({type_}, {type_}) -> ()')
    return "".join([*parts, text[end:]])


def _fields(match: re.Match[str] | None) -> dict[str, str]:
    groups = match.groups() if match is not None else ()
    return {name: value for name, value in zip(groups[::2], groups[1::2], strict=True) if name}


def _closing(text: str, start: int) -> int:
    """The place behind the `>` that closes the `<` at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[place], 0)
        if text[place] == ">" and not depth:
            return place + 1
    raise ValueError("no end of a type or constant")


def load_case(text: str) -> ModuleOp:
    """The module as written, called functions inlined, its one function named @main."""
    parsed, locations = shim.parse_module(generic_checks(text), shim.make_context()), LocationReader("case")
    expand_quantized(parsed, locations)
    module = walk_module(parsed, locations, inline=True)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    if not any(f.sym_name.data == "main" for f in functions):
        public = [f for f in functions if f.sym_visibility is None or f.sym_visibility.data != "private"]
        (public or functions)[0].properties["sym_name"] = StringAttr("main")
    return module


def take_checks(main: FuncOp) -> list[Check]:
    """The checks of @main, which lose their ops."""
    checks: list[Check] = []
    for op in list(main.body.block.ops):
        fields = decode_attributes(op)
        name = op.op_name.data if isinstance(op, UnknownOp) else str(fields.get("call_target_name", ""))
        if not name.startswith("check.e"):
            continue
        actual, expected = reversed(op.operands) if is_constant(op.operands[0]) else op.operands
        kind = "almost_eq" if name == "check.eq" else name.removeprefix("check.expect_")
        limit = fields.get("max_ulp_difference", ULPS) if kind == "close" else fields.get("tolerance", TOLERANCE)
        checks.append(Check(kind, actual, expected, float(limit)))
        op.detach()
        op.erase(safe_erase=False)
    return checks


def is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == "stablehlo.constant"


def constant(value: SSAValue) -> Array:
    """The elements of a constant op."""
    assert isinstance(value.owner, Operation) and isinstance(value.type, TensorType)
    array = np.asarray(decode_attributes(value.owner)["value"])
    return np.broadcast_to(array, cast(Any, value.type).get_shape()).copy()


def take_inputs(main: FuncOp) -> list[Array]:
    """Constant tensors become parameters of @main; scalars and what says a shape stay constants."""
    block = main.body.block
    inputs: list[Array] = []
    for op in list(block.ops):
        if op.name != "stablehlo.constant" or not op.results[0].uses:
            continue
        users = [use.operation for use in op.results[0].uses]
        type_ = op.results[0].type
        assert isinstance(type_, TensorType)
        if type_.get_num_dims() == 0 or any(name_of(user).endswith(SHAPED_BY_OPERAND) for user in users):
            continue
        inputs.append(constant(op.results[0]))
        op.results[0].replace_all_uses_with(block.insert_arg(type_, len(block.args)))
        op.detach()
        op.erase()
    return inputs


def ulps(actual: Array, expected: Array) -> Array:
    """Units in the last place between two float arrays; NaNs are equal, infinities far from all else."""
    wide = np.dtype(f"i{actual.dtype.itemsize}")
    a, e = (np.abs(x).view(wide).astype(object) * np.where(np.signbit(x), -1, 1) for x in (actual, expected))
    same = (actual.view(wide) == expected.view(wide)) | (np.isnan(actual) & np.isnan(expected))
    finite = np.isfinite(actual) & np.isfinite(expected)
    return np.where(same, 0, np.where(finite, np.abs(a - e), np.array(_FAR, object)))


def wrong(check: Check, actual: Array, expected: Array) -> str:
    """How the results differ; empty if they agree."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if actual.dtype.kind == "c":
        parts = [
            wrong(check, np.ascontiguousarray(getattr(actual, p)), np.ascontiguousarray(getattr(expected, p)))
            for p in ("real", "imag")
        ]
        return parts[0] or parts[1]
    if not is_inexact(actual.dtype) or check.kind == "eq":
        bad = actual != expected
    elif check.kind == "close":
        bad = ulps(actual, expected) > check.limit
    else:
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            bad = ~((a == e) | (np.isnan(a) & np.isnan(e)) | (np.abs(a - e) <= check.limit))
    if not np.any(bad):
        return ""
    place = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
    count = f"{np.count_nonzero(bad)} of {bad.size} elements"
    return f"{count}, first at {list(place)}: got {actual[place]}, expected {expected[place]}"


def zeros_of(text: str, size: int) -> list[Array]:
    """An array per argument of @main; `size` stands for unknown sizes, and is the value of what may be one: i64 scalars."""
    module = shim.parse_module(text, shim.make_context())
    main = next(op for op in module.body.operations if op.operation.attributes["sym_name"].value == "main")
    arrays: list[Array] = []
    for type_ in main.type.inputs:
        known = cast(TensorType[Attribute], type_from_text(str(type_)))
        dtype = numpy_dtype(known.get_element_type())
        shape = [size if n < 0 else n for n in known.get_shape()]
        arrays.append(np.full(shape, size if not shape and dtype == np.int64 else 0, dtype))
    return arrays


def answer_dynamic(text: str) -> Outcome:
    """A module with unknown sizes and no checks: its inputs bind them, XLA:CPU says what is right."""
    for size in SIZES:
        arrays = zeros_of(text, size)
        load = partial(load_source, text, args=arrays, format="stablehlo")
        try:
            module = load()
            break
        except Hlo2tx8Error:
            if size == SIZES[-1]:
                raise
    signature = signature_of(module)
    drawn = random_arguments(module, signature, seeded(0, different_seeds=False))
    inputs = [old if port.value is not None else new for old, new, port in zip(arrays, drawn, signature.inputs, strict=True)]
    actual = compile_module(load, Options()).execute(*inputs)
    expected = run_on_cpu(to_mlir_text(module), inputs)
    different = Reference.of_cpu(module, inputs, expected).mismatches(actual)
    return {"outcome": "failed", "cause": f"wrong answer: {different[0]}"} if different else {"outcome": "passed", "cause": ""}


def answer(request: dict[str, Any]) -> Outcome:
    """Compile, run and judge one case."""
    if "check" not in request["text"] and "?" in request["text"]:
        return answer_dynamic(request["text"])
    module = load_case(request["text"])
    main = next(op for op in module.body.block.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
    for op in module.walk():
        if op.name in ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution") and "algorithm" not in op.properties:
            op.properties["precision_config"] = HIGHEST
    checks = take_checks(main)
    if not checks:
        return {"outcome": "skipped", "cause": "checks nothing"}
    known = [constant(check.expected) if is_constant(check.expected) else None for check in checks]
    outputs = [
        v
        for check, known_value in zip(checks, known, strict=True)
        for v in (check.actual, check.expected)
        if v is check.actual or known_value is None
    ]
    terminator = main.body.block.last_op
    assert terminator is not None
    terminator.detach()
    terminator.erase()
    main.body.block.add_op(ReturnOp(*outputs))
    inputs = take_inputs(main)
    main.update_function_type()
    main.properties.pop("arg_attrs", None)
    main.properties.pop("res_attrs", None)
    text = to_mlir_text(module)
    executable = compile_module(lambda: load_source(text, format="stablehlo"), Options())
    results = iter(executable.execute(*inputs))
    for check, value in zip(checks, known, strict=True):
        actual = next(results)
        expected = next(results) if value is None else value
        if text := wrong(check, actual, expected):
            return {"outcome": "failed", "cause": f"wrong answer ({check.kind}): {text}"}
    return {"outcome": "passed", "cause": ""}


if __name__ == "__main__":
    serve(answer)
