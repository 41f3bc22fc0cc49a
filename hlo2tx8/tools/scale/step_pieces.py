"""Pieces of a step of training: gradients, a stage of a pipeline, its ends, sums over replicas, the update."""
# pyright: basic

from collections.abc import Callable
from functools import partial
from typing import Any

from hlo2tx8.tools.scale.llama import DP, PP, Llama, adam, embed, is_shape, local_shapes, loss, loss_of, specs, stage, structs

Piece = tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], Any]
"""A function of one chip's arrays, its arguments as wholes, how these and the results are sharded."""

STAGES = 2
"""Of a pipeline in a piece, so that there is a neighbour to send to."""


def staged(model: Llama, shapes: Any, tp: int, stages: int, dtype: str = "") -> tuple[Any, Any]:
    """Arrays of the parameters of so many stages that are alike, one behind the other, and how they are sharded."""
    import jax
    from jax.sharding import PartitionSpec

    wholes = jax.tree.map(lambda s: (stages * s[0], *s[1:]), shapes, is_leaf=is_shape)
    along = jax.tree.map(lambda s: PartitionSpec((PP, s[0]) if s[0] else PP, *s[1:]), specs(shapes, tp))
    return structs(model, wholes, dtype), along


def _sent(x: Any) -> Any:
    """What stage 1 gets: in front of it and behind it a chip runs different programs."""
    from jax import lax

    return lax.ppermute(x, PP, [(0, 1)])


def _add(a: Any, b: Any) -> Any:
    import jax

    return jax.tree.map(lambda x, y: x + y, a, b)


def gradients(model: Llama, tp: int, layers: int, batch: int, *, adds: bool) -> Piece:
    """Loss and gradients of a microbatch, added to those of others if it `adds`."""
    import jax
    from jax.sharding import PartitionSpec

    shapes, none = model.shapes(layers), PartitionSpec()
    p, spec = structs(model, shapes), specs(shapes, tp)
    ids = jax.ShapeDtypeStruct((batch, model.sequence), "int32")

    def plain(p: Any, ids: Any, labels: Any) -> Any:
        return jax.value_and_grad(partial(loss, model, tp))(p, ids, labels)

    def adding(p: Any, ids: Any, labels: Any, before: Any) -> Any:
        value, found = plain(p, ids, labels)
        return value, _add(before, found)

    if adds:
        return adding, (p, ids, ids, p), (spec, none, none, spec), (none, spec)
    return plain, (p, ids, ids), (spec, none, none), (none, spec)


def stage_step(model: Llama, tp: int, layers: int, batch: int) -> Piece:
    """Two stages of a pipeline: a microbatch forwards and, behind what is sent, backwards with gradients added to others."""
    import jax
    from jax.sharding import PartitionSpec

    along = PartitionSpec(PP)
    p, spec = staged(model, model.shapes(layers, has_ends=False)["layers"], tp, STAGES)
    x = jax.ShapeDtypeStruct((STAGES * batch, model.sequence, model.hidden), model.dtype)

    def both(p: Any, x: Any, before: Any) -> Any:
        y, back = jax.vjp(partial(stage, model, tp), p, x)
        dp, dx = back(_sent(y))
        return dx, _add(before, dp)

    return both, (p, x, p), (spec, along, spec), (along, spec)


def ends_step(model: Llama, tp: int, batch: int, *, is_first: bool) -> Piece:
    """What the first stage does before its layers, and behind them backwards, in two parts as `stage_step`; or what the last one
    does with its results, both ways at once."""
    import jax
    from jax.sharding import PartitionSpec

    none, along = PartitionSpec(), PartitionSpec(PP)
    shapes = model.shapes(0)
    own = {name: shapes[name] for name in (("table",) if is_first else ("last", "head"))}

    def first(p: Any, ids: Any, before: Any) -> Any:
        y, back = jax.vjp(lambda p: embed(tp, p["table"], ids), p)
        return _add(before, back(_sent(y))[0])

    def last(p: Any, x: Any, labels: Any, before: Any) -> Any:
        value, (dp, dx) = jax.value_and_grad(partial(loss_of, tp), (0, 1))(p, x, labels)
        return value, dx, _add(before, dp)

    if is_first:
        p, spec = staged(model, own, tp, STAGES)
        ids = jax.ShapeDtypeStruct((STAGES * batch, model.sequence), "int32")
        return first, (p, ids, p), (spec, along, spec), spec
    p, spec = structs(model, own), specs(own, tp)
    ids = jax.ShapeDtypeStruct((batch, model.sequence), "int32")
    x = jax.ShapeDtypeStruct((batch, model.sequence, model.hidden), model.dtype)
    return last, (p, x, ids, p), (spec, none, none, spec), (none, none, spec)


def update(model: Llama, tp: int, layers: int, *, has_ends: bool) -> Piece:
    """Adam on one chip's parameters."""
    from jax.sharding import PartitionSpec

    shapes = local_shapes(model.shapes(layers, has_ends=has_ends), tp)
    p, wide, none = structs(model, shapes), structs(model, shapes, "float32"), PartitionSpec()
    return adam, (p, wide, wide, p), (none,) * 4, none


def sums(model: Llama, tp: int, dp: int, layers: int, *, has_ends: bool) -> Piece:
    """One chip's gradients, added up over the chips of "dp"."""
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec

    shapes = local_shapes(model.shapes(layers, has_ends=has_ends), tp)
    wholes = jax.tree.map(lambda s: (s[0] * dp, *s[1:]), shapes, is_leaf=is_shape)
    along = jax.tree.map(lambda s: PartitionSpec(DP), shapes, is_leaf=is_shape)
    added = jax.tree.map(lambda s: PartitionSpec(), shapes, is_leaf=is_shape)
    return lambda g: jax.tree.map(lambda x: lax.psum(x, DP), g), (structs(model, wholes),), (along,), added
