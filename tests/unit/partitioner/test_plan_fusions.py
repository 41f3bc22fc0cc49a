"""The fusion plan: what joins, what does not, constants in their places, and the same answers after it."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, TensorType, f32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from hlo2tx8.dialects.hlo import FusionOp, LiteralAttr
from hlo2tx8.dialects.stablehlo import OPS, ReturnOp
from hlo2tx8.emitters.hero import heroes
from hlo2tx8.errors import InputError
from hlo2tx8.fusion.fused_module import Constant, FusedModule, Input, Result
from hlo2tx8.fusion.plan_fusions import PlanFusionsPass, plan_fusions
from hlo2tx8.hlo import evaluate


def t(*shape: int) -> TensorType[Attribute]:
    return TensorType(f32, shape)


class Program:
    """@main under construction."""

    def __init__(self, *types: TensorType[Attribute]) -> None:
        self.block = Block(arg_types=types)
        self.p = tuple(self.block.args)

    def op(self, name: str, operands: list[SSAValue], type_: Attribute, **attributes: object) -> SSAValue:
        properties: dict[str, Attribute] = {}
        for key, value in attributes.items():
            match value:
                case int():
                    properties[key] = IntegerAttr(value, i64)
                case list():
                    properties[key] = DenseArrayBase.from_list(i64, value)
                case np.ndarray():
                    properties[key] = LiteralAttr.from_array(value)
        op = OPS[name](operands, [type_], properties)
        self.block.add_op(op)
        return op.results[0]

    def same(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.op(name, list(operands), operands[0].type)

    def splat(self, value: float, *shape: int) -> SSAValue:
        scalar = self.op("constant", [], t(), value=np.full((), value, np.float32))
        return self.op("broadcast_in_dim", [scalar], t(*shape), broadcast_dimensions=[])

    def plan(self, *results: SSAValue) -> FusedModule:
        """Plans, and checks that the answers stay the same."""
        types = [arg.type for arg in self.p]
        self.block.add_op(func.ReturnOp(*results))
        module_type = FunctionType.from_lists(types, [value.type for value in results])
        module = ModuleOp([func.FuncOp("main", module_type, Region(self.block))])
        rng = np.random.default_rng(0)
        inputs = [rng.uniform(1, 2, arg.type.get_shape()).astype(np.float32) for arg in self.p]
        before = evaluate(module, *inputs)
        fused = plan_fusions(module)
        module.verify()
        for a, b in zip(before, evaluate(module, *inputs), strict=True):
            assert np.array_equal(a, b)
        return fused


def names(fused: FusedModule, group: int) -> list[str]:
    """Names of the instructions of a fusion."""
    return [op.name.removeprefix("stablehlo.") for op in fused.groups[group].fusion.regions[0].block.ops][:-1]


def test_single_uses_join_and_constants_move_in() -> None:
    c = Program(t(4, 8))
    fused = c.plan(c.same("add", c.same("multiply", c.p[0], c.splat(2, 4, 8)), c.p[0]))
    assert names(fused, 0) == ["constant", "broadcast_in_dim", "multiply", "add"]
    assert fused.groups[0].operands == (Input(0),)
    assert fused.outputs == (Result(0, 0),)


def test_what_two_fusions_of_one_index_read_makes_them_one() -> None:
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    fused = c.plan(c.same("negate", x), c.same("abs", x))
    assert [names(fused, i) for i in range(len(fused.groups))] == [["tanh", "negate", "abs"]]
    assert len(fused.groups[0].result_types) == 2
    assert any("become one fusion: saves" in line for line in fused.explain)


def test_a_result_that_a_fusion_reads_is_an_output_of_it() -> None:
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    fused = c.plan(x, c.same("negate", x))
    assert names(fused, 0) == ["tanh", "negate"]
    assert fused.outputs == (Result(0, 1), Result(0, 0))


def test_no_work_twice() -> None:
    """Expensive work at two indices is done once."""
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    turned = c.op("transpose", [x], t(8, 4), permutation=[1, 0])
    fused = c.plan(c.same("negate", x), c.same("exponential", turned))
    assert sum("tanh" in names(fused, i) for i in range(len(fused.groups))) == 1


def test_cheap_work_is_copied_where_that_moves_less() -> None:
    c = Program(t(512, 512))
    x = c.op("convert", [c.p[0]], t(512, 512))
    turned = c.op("transpose", [x], t(512, 512), permutation=[1, 0])
    fused = c.plan(c.same("negate", x), c.same("exponential", turned))
    assert all("convert" in names(fused, i) for i in range(2))
    assert any("copies" in line for line in fused.explain)


def test_no_circle_between_fusions() -> None:
    """negate and add are at one index, but add also reads a product made of what negate gives: they stay apart."""
    c = Program(t(8, 8))
    x = c.same("tanh", c.p[0])
    n = c.same("negate", x)
    turned = c.same("exponential", c.op("transpose", [n], t(8, 8), permutation=[1, 0]))
    fused = c.plan(c.same("add", x, c.op("transpose", [turned], t(8, 8), permutation=[1, 0])), n, turned)
    assert len(fused.groups) >= 2


def test_two_maps_do_not_join() -> None:
    c = Program(t(8, 8))
    x = c.same("tanh", c.p[0])
    fused = c.plan(c.same("add", x, c.op("transpose", [x], t(8, 8), permutation=[1, 0])))
    assert len(fused.groups) == 2
    assert any("several indexing maps" in line for line in fused.explain)


def test_one_map_joins_through_a_transpose() -> None:
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    fused = c.plan(c.same("negate", c.op("transpose", [x], t(8, 4), permutation=[1, 0])))
    assert names(fused, 0) == ["tanh", "transpose", "negate"]


def test_reads_that_would_not_be_affine_do_not_join() -> None:
    c = Program(t(6, 4))
    x = c.op("transpose", [c.p[0]], t(4, 6), permutation=[1, 0])
    whole = c.op("reshape", [x], t(8, 3))
    fused = c.plan(c.same("negate", whole))
    assert any("not be affine" in line for line in fused.explain) == (len(fused.groups) > 1)


def test_free_instructions_are_copied_and_big_constants_are_operands() -> None:
    c = Program(t(4, 8))
    rows = c.op("iota", [], t(4, 8), iota_dimension=0)
    table = c.op("constant", [], t(4, 8), value=np.arange(32, dtype=np.float32).reshape(4, 8))
    a = c.same("tanh", c.same("add", rows, c.p[0]))
    b = c.same("exponential", c.same("multiply", a, c.same("add", rows, table)))
    fused = c.plan(a, b, table, c.p[0])
    assert len(fused.groups) == 3
    assert names(fused, 0).count("iota") == 1
    assert any(isinstance(source, Constant) for source in fused.groups[0].operands)


def test_every_output_is_written_by_a_fusion_of_its_own() -> None:
    c = Program(t(4))
    x = c.same("tanh", c.p[0])
    one = c.op("constant", [], t(4), value=np.ones(4, np.float32))
    fused = c.plan(x, x, c.p[0], one)
    assert all(isinstance(output, Result) for output in fused.outputs)
    assert len(set(fused.outputs)) == 4
    assert names(fused, 3) == ["constant"]


def sum_of_rows(c: Program, x: SSAValue, rows: int = 4) -> SSAValue:
    zero = c.op("constant", [], t(), value=np.zeros((), np.float32))
    body = Block(arg_types=[t(), t()])
    add = OPS["add"](list(body.args), [t()])
    body.add_ops([add, ReturnOp(list(add.results))])
    reduce = OPS["reduce"]([x, zero], [t(rows)], {"dimensions": DenseArrayBase.from_list(i64, [1])}, [Region(body)])
    c.block.add_op(reduce)
    return reduce.results[0]


def test_reduce_has_what_it_reads_and_what_follows_at_the_same_index() -> None:
    c = Program(t(4, 8))
    fused = c.plan(c.same("negate", sum_of_rows(c, c.same("tanh", c.p[0]))))
    assert [names(fused, 0)] == [["tanh", "constant", "reduce", "negate"]]
    assert [found.kind for found in heroes(fused.groups[0].fusion)] == ["row", "reduction", "loop"]


def test_reduce_joins_what_reads_it_once_per_row() -> None:
    """The rows are whole in a step: neither they nor their sum leave the fusion."""
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    spread = c.op("broadcast_in_dim", [sum_of_rows(c, x)], t(4, 8), broadcast_dimensions=[0])
    fused = c.plan(c.same("divide", x, spread))
    assert [names(fused, i) for i in range(len(fused.groups))] == [["tanh", "constant", "reduce", "broadcast_in_dim", "divide"]]


def test_reduce_of_few_long_rows_does_not_join() -> None:
    """One tile would do all of the work."""
    c = Program(t(1, 1 << 16))
    x = c.same("tanh", c.p[0])
    spread = c.op("broadcast_in_dim", [sum_of_rows(c, x, 1)], t(1, 1 << 16), broadcast_dimensions=[0])
    fused = c.plan(c.same("divide", x, spread))
    assert len(fused.groups) == 3
    assert any("leave tiles idle" in line for line in fused.explain)


@pytest.mark.parametrize(("terms", "is_one"), [(2, True), (12, False)])
def test_rows_that_do_not_fit_with_all_that_is_computed_of_them_are_read_again(terms: int, *, is_one: bool) -> None:
    """A step holds a row of 32,768 elements, but not those of 12 tensors."""
    c = Program(*(t(16, 32768) for _ in range(terms)))
    values = [c.same("tanh", value) for value in c.p]
    total = values[0]
    for value in values[1:]:
        total = c.same("multiply", total, value)
    spread = c.op("broadcast_in_dim", [sum_of_rows(c, total, 16)], t(16, 32768), broadcast_dimensions=[0])
    for value in values:
        total = c.same("subtract", total, c.same("multiply", value, spread))
    fused = c.plan(total)
    assert (len(fused.groups) == 1) is is_one
    assert any("do not fit a step" in line for line in fused.explain) is not is_one


def test_two_reductions_of_the_same_rows_share_what_they_read() -> None:
    c = Program(t(4, 8))
    x = c.same("tanh", c.p[0])
    fused = c.plan(c.same("add", sum_of_rows(c, x), sum_of_rows(c, x)))
    assert [name for name in names(fused, 0) if name != "constant"] == ["tanh", "reduce", "reduce", "add"]


def product_of(c: Program, x: SSAValue, y: SSAValue, n: int, m: int) -> SSAValue:
    return c.op("dot", [x, y], t(n, m))


def test_arithmetic_on_the_result_of_a_dot_is_its_epilogue() -> None:
    c = Program(t(4, 8), t(8, 6), t(6))
    bias = c.op("broadcast_in_dim", [c.p[2]], t(4, 6), broadcast_dimensions=[1])
    result = c.same("maximum", c.same("add", product_of(c, c.p[0], c.p[1], 4, 6), bias), c.splat(0, 4, 6))
    fused = c.plan(result)
    assert sorted(names(fused, 0)) == ["add", "broadcast_in_dim", "broadcast_in_dim", "constant", "dot", "maximum"]


def test_a_dot_is_apart_from_what_reads_it_at_another_index_or_has_a_dot() -> None:
    c = Program(t(4, 8), t(8, 6), t(6, 6))
    first = c.same("tanh", product_of(c, c.p[0], c.p[1], 4, 6))
    turned = c.op("transpose", [c.same("tanh", product_of(c, first, c.p[2], 4, 6))], t(6, 4), permutation=[1, 0])
    fused = c.plan(turned)
    assert names(fused, 0) == ["dot", "tanh"]
    assert names(fused, 1) == ["dot"]


def test_a_small_product_has_a_long_epilogue() -> None:
    c = Program(t(256, 64), t(64, 512))
    result = product_of(c, c.p[0], c.p[1], 256, 512)
    for _ in range(8):
        result = c.same("tanh", result)
    assert names(c.plan(result), 0) == ["dot", *["tanh"] * 8]


def test_fusions_of_the_source_are_kept() -> None:
    main = Block(arg_types=[t(4)])
    body = Block(arg_types=[t(4), t()])
    spread = OPS["broadcast_in_dim"]([body.args[1]], [t(4)], {"broadcast_dimensions": DenseArrayBase.from_list(i64, [])})
    table = OPS["constant"]([], [t(4)], {"value": LiteralAttr.from_array(np.arange(4, dtype=np.float32))})
    add = OPS["add"]([body.args[0], spread.results[0]], [t(4)])
    more = OPS["add"]([add.results[0], table.results[0]], [t(4)])
    body.add_ops([spread, table, add, more, ReturnOp(list(more.results))])
    scalar = OPS["constant"]([], [t()], {"value": LiteralAttr.from_array(np.ones((), np.float32))})
    fusion = FusionOp([main.args[0], scalar.results[0]], [t(4)], "kLoop", Region(body), "mine")
    main.add_ops([scalar, fusion, func.ReturnOp(*fusion.results)])
    module = ModuleOp([func.FuncOp("main", FunctionType.from_lists([t(4)], [t(4)]), Region(main))])
    before = evaluate(module, np.arange(4, dtype=np.float32))
    PlanFusionsPass().apply(Context(), module)
    module.verify()
    assert np.array_equal(evaluate(module, np.arange(4, dtype=np.float32))[0], before[0])
    assert [operand.owner is main or operand.type == t(4) for operand in fusion.operands] == [True, True]
    assert fusion.operands[0] is main.args[0]


def test_a_module_needs_main() -> None:
    with pytest.raises(InputError, match="@main"):
        plan_fusions(ModuleOp([]))
