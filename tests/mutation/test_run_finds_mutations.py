"""One wrong choice of an instruction at a time: `run` finds it on a sample, and bisect names the pass that made it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

import hlo2tx8
from hlo2tx8.compiler.driver import load_source
from hlo2tx8.device.isa import ct_activation, ct_arith, ct_function, ct_reduce, ct_relation, kc_vector, ne
from hlo2tx8.device.isa.base import Instruction
from hlo2tx8.hlo.signature import signature_of
from hlo2tx8.lower.select.select_instructions import SelectInstructionsPass
from hlo2tx8.options import Level, Options
from hlo2tx8.runtime.levels import RUNS
from hlo2tx8.tools.arguments import random_arguments, seeded
from hlo2tx8.tools.bisect.levels import first_wrong, first_wrong_pass
from hlo2tx8.tools.main import main

SAMPLES = Path(hlo2tx8.__file__).parents[1] / "hlo_samples"
AROUND = [run for run in RUNS if run.level in (Level.VECTOR, Level.SCHEDULED)]
Values = dict[str, object]


def unchanged(values: Values) -> Values:
    return values


def shorter(values: Values) -> Values:
    """The last element is left out."""
    count = values["n"]
    assert isinstance(count, int)
    return values | {"n": count - 1}


def more(field: str, by: int, values: Values) -> Values:
    """A number of the encoding is larger: of an immediate in FP32 by so many of its last place."""
    value = values[field]
    assert isinstance(value, int)
    return values | {field: value + by}


def swapped(values: Values) -> Values:
    """The two operands have changed places."""
    return values | {"a": values["b"], "b": values["a"]}


class Mutation(NamedTuple):
    """All instructions of a class become those of another, or get other fields."""

    sample: str
    old: type[Instruction]
    new: type[Instruction]
    change: Callable[[Values], Values] = unchanged

    def apply(self, kernel: ModuleOp) -> None:
        for op in tuple(kernel.walk()):
            if type(op) is self.old:
                fields = self.change(dict(op.values()))
                made = self.new.make(fmt=op.fmt, fmt2=op.fmt2, rnd=op.rounding, origin=op.origin, **fields)
                Rewriter.replace_op(op, made)


GELU = "elementwise/gelu_bf16_small.hlo"
MUTATIONS = {
    "tanh becomes sin": Mutation(GELU, ct_function.CtTanh, ct_function.CtSin),
    "tanh becomes sigmoid": Mutation("control/cache_f32.mlir", ct_function.CtTanh, ct_function.CtSigmoid),
    "exp becomes its version of low precision": Mutation(
        "reduce/softmax_f32.hlo", ct_function.CtExp, ct_activation.CtExpLowPrecision
    ),
    "ln becomes log2": Mutation("diamonds/log_diamond_f32.hlo", ct_function.CtLn, ct_function.CtLog2),
    "exp becomes a power of 2": Mutation("diamonds/slice_pad_f32.hlo", ct_function.CtExp, ct_function.CtPow2),
    "a root becomes its reciprocal": Mutation("norm/layer_norm_f32.mlir", ct_arith.CtRsqrt, ct_arith.CtSqrt),
    "a sum becomes a difference": Mutation("layouts/column_major_f32.hlo", ct_arith.CtAddVV, ct_arith.CtSubVV),
    "a difference is turned around": Mutation("norm/layer_norm_f32.mlir", ct_arith.CtSubVV, ct_arith.CtSubVV, swapped),
    "a product becomes a quotient": Mutation("elementwise/rank0.hlo", ct_arith.CtMulVV, ct_arith.CtDivVV),
    "a factor is off by its last place": Mutation(
        "norm/layer_norm_f32.mlir", ct_arith.CtMulVS, ct_arith.CtMulVS, partial(more, "imm", 256)
    ),
    "max becomes min": Mutation("windows/max_pool_bf16.hlo", ct_arith.CtMaxVV, ct_arith.CtMinVV),
    "a clamp's lower end becomes another upper one": Mutation(
        "elementwise/select_clamp_f16.hlo", ct_arith.CtMaxVS, ct_arith.CtMinVS
    ),
    "greater or equal becomes greater": Mutation("windows/max_pool_gradient_f32.hlo", ct_relation.CtGeVV, ct_relation.CtGtVV),
    "greater becomes less": Mutation("reduce/argmax_f32.hlo", ct_relation.CtGtVV, ct_relation.CtLtVV),
    "a tail is shorter by one": Mutation(GELU, ct_arith.CtAddVS, ct_arith.CtAddVS, shorter),
    "a sum over rows becomes a mean": Mutation("reduce/sum_rows_f32.hlo", ct_reduce.CtReduceSum, ct_reduce.CtReduceAvg),
    "a maximum over rows becomes a minimum": Mutation("control/doubling_f32.hlo", ct_reduce.CtReduceMax, ct_reduce.CtReduceMin),
    "a product is shorter by one": Mutation("dot/batched_f32.hlo", ne.NeGemm, ne.NeGemm, partial(more, "depth", -1)),
    "a logical shift becomes an arithmetic one": Mutation(
        "integers/bits_u32.hlo", kc_vector.KcVShiftRightLogical, kc_vector.KcVShiftRightArithmetic
    ),
    "and becomes or": Mutation("integers/bits_u32.hlo", kc_vector.KcVAnd, kc_vector.KcVOr),
    "a remainder becomes a quotient": Mutation("integers/divide_s64.hlo", kc_vector.KcVRem, kc_vector.KcVDiv),
    "the larger index becomes the smaller": Mutation("indexing/gather_rows_f32.hlo", kc_vector.KcVMax, kc_vector.KcVMin),
    "a running sum becomes a running maximum": Mutation("windows/running_sum_f32.mlir", ct_arith.CtAddVV, ct_arith.CtMaxVV),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_choice_is_found(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    mutation, correct = MUTATIONS[name], SelectInstructionsPass.apply

    def broken(self: SelectInstructionsPass, ctx: Context, op: ModuleOp) -> None:
        correct(self, ctx, op)
        mutation.apply(op)

    monkeypatch.setattr(SelectInstructionsPass, "apply", broken)
    file = SAMPLES / mutation.sample
    assert main(["run", str(file)]) == 1
    assert "mismatch in output" in capsys.readouterr().err
    module = load_source(file)
    arrays = random_arguments(module, signature_of(module), seeded(0, different_seeds=False))
    wrong = first_wrong(module, arrays, Options(), AROUND)
    assert wrong is not None
    assert wrong.run.level is Level.SCHEDULED
    assert first_wrong_pass(module, arrays, Options(), wrong) == "after pass select-instructions"
