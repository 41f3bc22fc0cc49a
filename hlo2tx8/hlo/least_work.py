"""The least work of a module as its user gave it: what any program for it must move and compute.

DDR   inputs, outputs and dense constants once; of an input that is only gathered or sliced, what is taken of it; of an image, what
      windows read; of a donated input that is updated in place, the update
NE    multiply-adds of dots and convolutions; those in padding do not count
CT    a pass over the widest operand or result of each float elementwise op and reduction, four for transcendentals; moves are free

What depends on constants only is free. Loops count as often as their condition says, once if that cannot be read off it. Work on
integers is counted apart, for the kernel core.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from hlo2tx8.dialects.hlo import LiteralAttr, is_splat_literal
from hlo2tx8.dialects.layout import is_tensor
from hlo2tx8.hlo.lookup import attributes_of, tensor_like
from hlo2tx8.hlo.module import find_main
from hlo2tx8.hlo.ops.convolution import numbers_of as convolution_numbers
from hlo2tx8.hlo.ops.convolution import window_of
from hlo2tx8.hlo.ops.dot import numbers_of as dot_numbers
from hlo2tx8.hlo.precision import num_parts
from hlo2tx8.hlo.types import is_float

FREE = frozenset(
    """
    constant iota reshape broadcast broadcast_in_dim transpose return tuple get_tuple_element optimization_barrier
    bitcast_convert real imag complex slice concatenate pad reverse gather scatter dynamic_slice dynamic_update_slice
    sort dot_general dot convolution rng_bit_generator while case if call custom_call composite after_all partition_id
    replica_id
    """.split()  # noqa: SIM905
)
"""Ops that only move, or whose work is counted otherwise or not at all."""
TRANSCENDENTAL = frozenset(
    """exponential exponential_minus_one log log_plus_one tanh logistic sine cosine tan power atan2 erf erfc erf_inv lgamma digamma
    sinh cosh asin acos atan asinh acosh atanh cbrt""".split()  # noqa: SIM905
)
TRANSCENDENTAL_PASSES = 4
PASSES_OF_PARTS = {1: 1, 2: 3, 3: 6}
"""Products of f32 factors that are sums of so many narrower numbers."""
PASSES_SAID = {
    1: "one pass of tf32 (DEFAULT)",
    2: "three passes of bf16 parts (HIGH)",
    3: "six passes of bf16 parts (HIGHEST)",
}
FORMATS = {"float32": "tf32", "bfloat16": "bf16", "float16": "fp16", "int8": "int8", "uint8": "int8"}
"""The peak that counts for factors of a dtype; others are multiplied by the kernel core."""


@dataclass(frozen=True)
class LeastWork:
    """Bytes of DDR; operations of the matrix engine by format, a multiply-add is two; bytes of passes of the vector engine and of
    the kernel core; loops of which one turn is counted because their number is not known. `passes` has the number of dots and
    convolutions by how the engine multiplies them, as `PASSES_SAID` has it."""

    ddr_bytes: float
    products: Mapping[str, float]
    vector_bytes: float
    core_bytes: float
    assumed_loops: int
    passes: Mapping[str, int] = field(default_factory=dict[str, int])


def least_work(module: ModuleOp) -> LeastWork:
    """The least work of a module at level HLO that no pass has changed."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    found = _Analysis(functions)
    main = find_main(module)
    found.main(main)
    return LeastWork(found.ddr_bytes, found.products, found.vector_bytes, found.core_bytes, found.assumed_loops, found.passes)


@dataclass
class _Analysis:
    functions: Mapping[str, FuncOp]
    ddr_bytes: float = 0.0
    products: dict[str, float] = field(default_factory=dict[str, float])
    vector_bytes: float = 0.0
    core_bytes: float = 0.0
    assumed_loops: int = 0
    passes: dict[str, int] = field(default_factory=dict[str, int])
    calls: dict[tuple[FuncOp, tuple[bool, ...]], "tuple[_Analysis, list[bool]]"] = field(default_factory=lambda: {})
    """The work of a function by which of its arguments are constants, and which of its results then are: found once."""
    needed: dict[SSAValue, float] = field(default_factory=dict[SSAValue, float])

    def main(self, main: FuncOp) -> None:
        block = main.body.block
        self._block(block, dict.fromkeys(block.args, False), 1)
        terminator = block.last_op
        assert terminator is not None
        updated: dict[int, float] = {}
        for argument, donated in zip(block.args, _donations(main), strict=True):
            for index, result in enumerate(terminator.operands):
                is_its = donated in ("any", index)
                update = _update_of(result, argument) if is_its else None
                if update is not None:
                    updated[index] = update
            self.ddr_bytes += self._needed(argument)
        for index, result in enumerate(terminator.operands):
            self.ddr_bytes += updated.get(index, size_bytes(result))

    def _needed(self, value: SSAValue) -> float:
        """Bytes of an argument that must be read."""
        total, whole = 0.0, size_bytes(value)
        for use in value.uses:
            op, name = use.operation, _short(use.operation)
            if name in ("gather", "dynamic_slice", "slice") and use.index == 0:
                total += sum(map(size_bytes, op.results))
            elif name == "call":
                argument = self._callee(op).body.block.args[use.index]
                if argument not in self.needed:
                    self.needed[argument] = self._needed(argument)
                total += self.needed[argument]
            elif name == "convolution" and use.index == 0:
                total += whole * prod((np.bincount(at[is_inside], minlength=n) > 0).mean() for at, is_inside, n in _windows(op))
            else:
                total += whole
        return min(total, whole)

    def _callee(self, op: Operation) -> FuncOp:
        callee = op.properties.get("callee", op.attributes.get("callee"))
        assert isinstance(callee, SymbolRefAttr)
        return self.functions[callee.string_value()]

    def _block(self, block: Block, known: dict[SSAValue, bool], times: int) -> list[bool]:
        """Adds a block's work, so many times; says which operands of its terminator are constants. `known`: values that are."""
        for op in block.ops:
            name = _short(op)
            is_constant = all(known.get(operand, False) for operand in op.operands)
            match name:
                case "return":
                    return [known.get(operand, False) for operand in op.operands]
                case "call":
                    given = tuple(known.get(operand, False) for operand in op.operands)
                    known.update(zip(op.results, self._call(self._callee(op), given, times), strict=True))
                case "while":
                    turns = _turns(op)
                    self.assumed_loops += turns is None
                    body = op.regions[1].block
                    self._block(body, {**known, **dict.fromkeys(body.args, False)}, times * (1 if turns is None else turns))
                case "case" | "if":
                    self._block(op.regions[0].block, dict(known), times)
                case _:
                    known.update(dict.fromkeys(op.results, is_constant and name not in ("rng_bit_generator", "custom_call")))
                    if name == "constant" and not is_splat_literal(op):
                        self.ddr_bytes += size_bytes(op.results[0])
                    if not is_constant:
                        self._add(op, name, times)
        return []

    def _call(self, callee: FuncOp, given: tuple[bool, ...], times: int) -> list[bool]:
        """As `_block`, of a function's body."""
        if (callee, given) not in self.calls:
            inner, work = callee.body.block, _Analysis(self.functions, calls=self.calls)
            results = work._block(inner, dict(zip(inner.args, given, strict=True)), 1)
            self.calls[callee, given] = work, results
        work, results = self.calls[callee, given]
        self.ddr_bytes += work.ddr_bytes
        self.assumed_loops += work.assumed_loops
        self.vector_bytes += work.vector_bytes * times
        self.core_bytes += work.core_bytes * times
        self.products.update({key: self.products.get(key, 0.0) + count * times for key, count in work.products.items()})
        self.passes.update({key: self.passes.get(key, 0) + count for key, count in work.passes.items()})
        return results

    def _add(self, op: Operation, name: str, times: int) -> None:
        if name in ("dot_general", "dot"):
            self._multiply(op, _dot_products(op) * times)
        elif name == "convolution":
            self._multiply(op, _convolution_products(op) * times)
        elif name not in FREE:
            values = [value for value in (*op.operands, *op.results) if is_tensor(value.type)]
            widest = max(map(size_bytes, values), default=0.0) * times
            if any(is_float(tensor_like(value.type).dtype) for value in values):
                self.vector_bytes += widest * (TRANSCENDENTAL_PASSES if name in TRANSCENDENTAL else 1)
            else:
                self.core_bytes += widest

    def _multiply(self, op: Operation, count: float) -> None:
        key = FORMATS.get(tensor_like(op.operands[0].type).dtype.name)
        if key is not None:
            parts = num_parts(op)
            self.products[key] = self.products.get(key, 0.0) + 2 * count * PASSES_OF_PARTS[parts]
            said = PASSES_SAID[parts] if key == "tf32" else f"one pass of {key}"
            self.passes[said] = self.passes.get(said, 0) + 1


def _short(op: Operation) -> str:
    return op.name.rpartition(".")[2]


def size_bytes(value: SSAValue) -> float:
    """Bytes of a tensor; what is no tensor has none."""
    if not is_tensor(value.type):
        return 0.0
    like = tensor_like(value.type)
    return prod(like.shape) * like.dtype.itemsize


def _donations(main: FuncOp) -> list[int | str]:
    """Per argument the output that takes its place, "any" if any may, "" if none does."""
    given = main.arg_attrs
    entries = list(given) if isinstance(given, ArrayAttr) else [DictionaryAttr({})] * len(main.body.block.args)
    found: list[int | str] = []
    for entry in entries:
        alias = entry.data.get("tf.aliasing_output")
        value = getattr(getattr(alias, "value", None), "data", None)
        found.append(value if isinstance(value, int) else "any" if "jax.buffer_donor" in entry.data else "")
    return found


def _update_of(result: SSAValue, argument: SSAValue) -> float | None:
    """Bytes written if a result is an argument of @main that is updated in place; None if it is something else."""
    total, owner = 0.0, result.owner
    while isinstance(owner, Operation) and _short(owner) in ("dynamic_update_slice", "scatter"):
        total += size_bytes(owner.operands[1 if _short(owner) == "dynamic_update_slice" else 2])
        if owner.operands[0] is argument:
            return total
        owner = owner.operands[0].owner
    return None


def _dot_products(op: Operation) -> float:
    shape = tensor_like(op.operands[0].type).shape
    contracting = dot_numbers(attributes_of(op))[2] if _short(op) == "dot_general" else (len(shape) - 1,)
    return prod(shape[dim] for dim in contracting) * prod(tensor_like(op.results[0].type).shape)


def _windows(op: Operation) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Per spatial dimension the image's elements that each tap of each window reads, which of them exist, how many there are."""
    attributes = attributes_of(op)
    image, kernel, result = (tensor_like(value.type).shape for value in (*op.operands, *op.results))
    numbers, window = convolution_numbers(attributes), window_of(attributes, kernel)
    for i, (of_image, of_result) in enumerate(
        zip(numbers.input_spatial_dimensions, numbers.output_spatial_dimensions, strict=True)
    ):
        size, left = image[of_image], window.base_dilations[i]
        places = np.arange(result[of_result])[:, None] * window.strides[i] - window.low[i]
        places = places + np.arange(window.size[i])[None] * window.window_dilations[i]
        yield places // left, (places >= 0) & (places <= (size - 1) * left) & (places % left == 0), size


def _convolution_products(op: Operation) -> float:
    numbers = convolution_numbers(attributes_of(op))
    kernel, result = tensor_like(op.operands[1].type).shape, tensor_like(op.results[0].type).shape
    taps = prod(int(is_inside.sum()) for _, is_inside, _ in _windows(op))
    features = result[numbers.output_batch_dimension] * result[numbers.output_feature_dimension]
    return features * taps * kernel[numbers.kernel_input_feature_dimension]


def _turns(op: Operation) -> int | None:
    """Turns of a loop `i = low; i < high; i += 1` between constants."""
    condition = op.regions[0].block
    terminator = condition.last_op
    assert terminator is not None
    test = terminator.operands[0].owner
    if not isinstance(test, Operation) or _short(test) != "compare" or attributes_of(test)["comparison_direction"] != "LT":
        return None
    entering: dict[SSAValue, SSAValue] = dict(zip(condition.args, op.operands, strict=True))
    sides = [entering.get(side, side) for side in test.operands]
    low, high = (_number(side) for side in sides)
    return None if low is None or high is None else high - low


def _number(value: SSAValue) -> int | None:
    owner = value.owner
    literal = owner.properties.get("value") if isinstance(owner, Operation) else None
    return int(literal.array.reshape(-1)[0]) if isinstance(literal, LiteralAttr) else None
