"""Hand-made fusions for tests, and a check of every level against the evaluator."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, NoneAttr, StringAttr, TensorType, f32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.rates import Rates
from hlo2tx8.dialects.hlo import FusionOp, LayoutAttr, LiteralAttr
from hlo2tx8.dialects.stablehlo import OPS, ReturnOp
from hlo2tx8.emitters import emit_fusion
from hlo2tx8.hlo import evaluate, numpy_dtype
from hlo2tx8.interpreter import interpret
from hlo2tx8.lower.loops.flatten_tensors import FlattenTensorsPass
from hlo2tx8.lower.loops.inline import InlinePass
from hlo2tx8.lower.loops.lower_xla_to_scf import LowerXlaToScfPass
from hlo2tx8.lower.loops.materialize_calls import MaterializeCallsPass
from hlo2tx8.lower.loops.simplify import SimplifyPass
from hlo2tx8.lower.vectorize.vectorize import VectorizePass
from hlo2tx8.schedule.work_split import Target

TARGET = Target(Rates.of(load_chip()))
PASSES = (InlinePass(), MaterializeCallsPass(), SimplifyPass(), LowerXlaToScfPass(), FlattenTensorsPass())


def t(*shape: int, element: Attribute = f32, layout: tuple[int, ...] | None = None) -> TensorType[Attribute]:
    """A tensor type."""
    return TensorType(element, shape, NoneAttr() if layout is None else LayoutAttr.of(layout))


class Computation:
    """A fusion's computation under construction; `p` are its parameters."""

    def __init__(self, *types: TensorType[Attribute]) -> None:
        self.block = Block(arg_types=types)
        self.p = tuple(self.block.args)

    def op(self, name: str, operands: Sequence[SSAValue], type_: Attribute, **attributes: object) -> SSAValue:
        """Adds `stablehlo.<name>`; ints and lists become attributes."""
        properties = {key: _attribute(value) for key, value in attributes.items()}
        op = OPS[name](operands, [type_], properties)
        self.block.add_op(op)
        return op.results[0]

    def same(self, name: str, *operands: SSAValue) -> SSAValue:
        """An elementwise op whose result has the type of the first operand."""
        return self.op(name, operands, operands[0].type)

    def constant(self, value: object, type_: TensorType[Attribute]) -> SSAValue:
        array = np.broadcast_to(np.asarray(value, numpy_dtype(type_.element_type)), type_.get_shape())
        return self.op("constant", [], type_, value=LiteralAttr.from_array(array))

    def module(self, *roots: SSAValue) -> ModuleOp:
        """A module whose @main is one fusion of this computation."""
        self.block.add_op(ReturnOp(roots))
        types = [arg.type for arg in self.p]
        results = [root.type for root in roots]
        main = Block(arg_types=types)
        fusion = FusionOp(list(main.args), results, "kLoop", Region(self.block), "f")
        main.add_ops([fusion, func.ReturnOp(*fusion.results)])
        return ModuleOp([func.FuncOp("main", FunctionType.from_lists(types, results), Region(main))])


def _attribute(value: object) -> Attribute:
    match value:
        case Attribute():
            return value
        case int():
            return IntegerAttr(value, i64)
        case str():
            return StringAttr(value)
        case list():
            return DenseArrayBase.from_list(i64, value)
        case _:
            raise TypeError(type(value))


def fusion_of(module: ModuleOp) -> FusionOp:
    """The only fusion of a module."""
    return next(op for op in module.walk() if isinstance(op, FusionOp))


def arguments(types: Sequence[Attribute], seed: int = 0) -> list[np.ndarray]:
    """Random arrays of small numbers of these types."""
    rng = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for type_ in types:
        assert isinstance(type_, TensorType)
        found.append(rng.uniform(1, 4, type_.get_shape()).astype(numpy_dtype(type_.element_type)))
    return found


def check_all_levels(module: ModuleOp, step_elements: int = 0) -> ModuleOp:
    """Emit the module's fusion, run every level, compare bit for bit; returns the FLAT module."""
    fusion = fusion_of(module)
    inputs = arguments([operand.type for operand in fusion.operands])
    expected = evaluate(module, *inputs)
    kernel = emit_fusion(fusion, "f", replace(TARGET, step_elements=step_elements))
    kernel.verify()
    _compare(interpret(kernel, inputs), expected, "emit")
    for step in PASSES:
        step.apply(Context(), kernel)
        kernel.verify()
        _compare(interpret(kernel, inputs), expected, step.name)
    vectors = kernel.clone()
    VectorizePass().apply(Context(), vectors)
    _compare(interpret(vectors, inputs), expected, "vectorize")
    return kernel


def _compare(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], stage: str) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape, stage
        assert a.dtype == b.dtype, stage
        assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes(), f"after {stage}: {a} != {b}"


def num_functions(kernel: ModuleOp) -> int:
    """Subgraph functions, without the entry."""
    return sum(isinstance(op, func.FuncOp) and "xla.entry" not in op.attributes for op in kernel.walk())
