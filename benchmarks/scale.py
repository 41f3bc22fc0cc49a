"""Whole steps of training, compiled for 2, 4 and 8 chips, beside the model of `hlo2tx8 scale`: `python -m benchmarks.scale`.

A step is one module for all chips: every chip's programs, and what goes over the links between them, hop by hop. The model
knows pieces of it on one chip, or on those that share tensors, with one layer and with two. Both take cycles of compiled programs.
"""
# pyright: basic

import argparse
import sys
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.options import Options
from hlo2tx8.spmd.scale_model import ParallelPlan, pipeline_cycles, stage_cycles, step_time
from hlo2tx8.tools.scale.llama import DP, PP, TP, Llama, adam, loss, specs, stage, stage_step, structs
from hlo2tx8.tools.scale.piece_costs import ONE, PieceCosts, compiled, lowered

MODEL = Llama(layers=3, hidden=512, heads=8, kv_heads=8, ffn=1024, vocabulary=1024, sequence=128, dtype="bfloat16")
PLANS = ((2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (4, 2))
STAGES = (2, 4, 8)
MICROBATCHES = 4
MOST_APART = 0.05


def whole_step(model: Llama, dp: int, tp: int, batch: int):
    """A step of `dp` replicas and `tp` parts of tensors: gradients, their sum, the update."""
    shapes, along = model.shapes(model.layers), PartitionSpec(DP) if dp > 1 else PartitionSpec()
    p, wide, spec = structs(model, shapes), structs(model, shapes, "float32"), specs(shapes, tp)
    ids = jax.ShapeDtypeStruct((dp * batch, model.sequence), "int32")

    def step(p, m, v, ids, labels):
        own = jax.tree.map(lambda x: lax.pcast(x, DP, to="varying"), p) if dp > 1 else p
        value, grads = jax.value_and_grad(partial(loss, model, tp))(own, ids, labels)
        grads = jax.tree.map(lambda g: lax.psum(g, DP), grads) if dp > 1 else grads
        return value[None], adam(p, m, v, grads)

    return step, (p, wide, wide, ids, ids), (spec, spec, spec, along, along), (along, (spec, spec, spec))


def pipelined_gradients(model: Llama, pp: int, batch: int):
    """Gradients of stages of one layer each, all microbatches forwards and then backwards, each turn on all chips at once."""
    shapes = model.shapes(1, has_ends=False)["layers"]
    stacked = jax.tree.map(lambda s: (pp, *s), shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))
    along = jax.tree.map(lambda s: PartitionSpec(PP), shapes, is_leaf=lambda leaf: isinstance(leaf, tuple))
    x = jax.ShapeDtypeStruct((MICROBATCHES, batch, model.sequence, model.hidden), model.dtype)
    pairs = [(s, s + 1) for s in range(pp - 1)]

    def total(p, xs):
        own, number = jax.tree.map(lambda w: w[0], p), lax.axis_index(PP)
        received = lax.pcast(jnp.zeros(xs.shape[1:], xs.dtype), PP, to="varying")
        found = jnp.float32(0)
        for turn in range(MICROBATCHES + pp - 1):
            given = jnp.where(number == 0, xs[min(turn, MICROBATCHES - 1)], received)
            made = stage(model, 1, own, given)
            received = lax.ppermute(made, PP, pairs)
            if turn >= pp - 1:
                found += jnp.where(number == pp - 1, made, 0).astype(jnp.float32).sum()
        return found

    return jax.grad(total), (structs(model, stacked), x), (along, PartitionSpec()), along


def rows(model: Llama, options: Options):
    """(what, cycles of the compiled whole, cycles of the model)."""
    chip = load_chip("")
    costs = PieceCosts(model, options, chip)
    for dp, tp in PLANS:
        plan = ParallelPlan(dp, tp, 1, 1)
        axes = {name: n for name, n in ((DP, dp), (TP, tp)) if n > 1}
        mesh = ChipMesh.of(chip, plan.num_chips)
        whole = compiled(lowered(whole_step(model, dp, tp, 1), axes), plan.num_chips, options).cost(mesh, chip)
        yield f"dp {dp}, tp {tp}", whole.cycles, step_time(costs.pieces(plan, 1), plan, mesh, chip, "gpipe").cycles
    both = costs.cost("stage", lambda: stage_step(model, 1, 1, 1, is_forward=False), {}, ONE, "pp")
    forward = costs.cost("forward", lambda: stage_step(model, 1, 1, 1, is_forward=True), {}, ONE, "pp").cycles
    for pp in STAGES:
        plan = ParallelPlan(1, 1, pp, MICROBATCHES)
        mesh = ChipMesh.of(chip, pp)
        whole = compiled(lowered(pipelined_gradients(model, pp, 1), {PP: pp}), pp, options).cost(mesh, chip)
        backward = both.cycles - forward + chip.cycles.launch
        hop = stage_cycles(model.sequence * model.hidden * costs.item_bytes, plan, mesh, chip)
        yield f"pp {pp}", whole.cycles, pipeline_cycles([forward] * pp, [backward] * pp, hop, MICROBATCHES, "gpipe")


def main(argv: list[str] | None = None) -> int:
    """Print both sides; 1 if they are more than 5 % apart."""
    argparse.ArgumentParser(description=__doc__).parse_args(argv)
    worst = 0.0
    print(f"{'chips':14} {'compiled whole':>16} {'model':>16} {'apart':>7}")
    for what, whole, found in rows(MODEL, Options()):
        worst = max(worst, abs(found / whole - 1))
        print(f"{what:14} {whole:16,.0f} {found:16,.0f} {found / whole - 1:+7.1%}", flush=True)
    return int(worst > MOST_APART)


if __name__ == "__main__":
    sys.exit(main())
