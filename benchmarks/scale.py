"""Whole steps of training, compiled for 2, 4 and 8 chips, beside the model of `hlo2tx8 scale`: `python -m benchmarks.scale`.

A step is one module for all chips: every chip's programs, and what goes over the links between them, hop by hop. The model
knows pieces of it on one chip, or on those that share tensors, with one layer and with two. Both take cycles of compiled programs.
"""
# pyright: basic

import argparse
import sys
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from hlo2tx8.device.chip import load_chip
from hlo2tx8.device.chip_links import ChipMesh
from hlo2tx8.options import Options
from hlo2tx8.spmd.scale_model import ParallelPlan, step_time
from hlo2tx8.tools.scale.llama import DP, PP, TP, Llama, adam, loss, specs, stage, structs
from hlo2tx8.tools.scale.piece_costs import PieceCosts, compiled, lowered
from hlo2tx8.tools.scale.step_pieces import staged

MODEL = Llama(layers=3, hidden=512, heads=8, kv_heads=8, ffn=1024, vocabulary=1024, sequence=128, dtype="bfloat16")
SHARED = ((2, 1, 1), (4, 1, 1), (8, 1, 1), (1, 2, 1), (1, 4, 1), (1, 8, 1), (2, 2, 1), (2, 4, 1), (4, 2, 1))
PLANS = (*SHARED, (1, 1, 2), (1, 1, 4), (1, 1, 8), (2, 1, 2), (1, 2, 2), (2, 2, 2))
"""Replicas, parts of tensors, stages."""
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


def pipelined_step(model: Llama, dp: int, tp: int, pp: int):
    """A step of stages of one layer each: all microbatches forwards and then backwards, each turn on all chips at once, the sum of
    gradients over replicas, the update."""
    shapes, axes = model.shapes(1, has_ends=False)["layers"], (*((DP,) if dp > 1 else ()), PP)
    (p, spec), (wide, _) = (staged(model, shapes, tp, pp, dtype) for dtype in ("", "float32"))
    x = jax.ShapeDtypeStruct((dp * MICROBATCHES, model.sequence, model.hidden), model.dtype)
    pairs = [(s, s + 1) for s in range(pp - 1)]

    def step(p, m, v, xs):
        own = jax.tree.map(lambda w: lax.pcast(w, DP, to="varying"), p) if dp > 1 else p
        is_first, is_last = lax.axis_index(PP) == 0, lax.axis_index(PP) == pp - 1
        received = sent = lax.pcast(jnp.zeros((1, *xs.shape[1:]), xs.dtype), axes, to="varying")
        ways, grads = [], None
        for turn in range(MICROBATCHES + pp - 1):
            number = min(turn, MICROBATCHES - 1)
            made, back = jax.vjp(partial(stage, model, tp), own, jnp.where(is_first, xs[number : number + 1], received))
            received = lax.ppermute(made, PP, pairs)
            ways.append((made, back))
        for made, back in reversed(ways):
            found, dx = back(jnp.where(is_last, made, sent))
            sent = lax.ppermute(dx, PP, [pair[::-1] for pair in pairs])
            grads = found if grads is None else jax.tree.map(jnp.add, grads, found)
        grads = jax.tree.map(lambda g: lax.psum(g, DP), grads) if dp > 1 else grads
        return adam(p, m, v, grads)

    return step, (p, wide, wide, x), (spec, spec, spec, PartitionSpec(*axes[:-1])), (spec, spec, spec)


def rows(model: Llama, options: Options):
    """(what, cycles of the compiled whole, cycles of the model)."""
    chip = load_chip("")
    costs = PieceCosts(model, options, chip)
    of_stages = {pp: PieceCosts(replace(model, layers=pp), options, chip, known=costs.known) for _, _, pp in PLANS if pp > 1}
    for dp, tp, pp in PLANS:
        plan = ParallelPlan(dp, tp, pp, MICROBATCHES if pp > 1 else 1)
        axes = {name: n for name, n in ((PP, pp), (DP, dp), (TP, tp)) if n > 1}
        mesh = ChipMesh.of(chip, plan.num_chips)
        step = pipelined_step(model, dp, tp, pp) if pp > 1 else whole_step(model, dp, tp, 1)
        whole = compiled(lowered(step, axes), plan.num_chips, options).cost(mesh, chip)
        pieces = of_stages.get(pp, costs).pieces(plan, 1, has_ends=pp == 1)
        yield f"dp {dp}, tp {tp}, pp {pp}", whole.cycles, step_time(pieces, plan, mesh, chip, "gpipe").cycles


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
