"""How long the programs of unrolled models are: bytes of 12 and of 48 layers, and their ratio; modelled cycles per layer beside.

    python -m benchmarks.program_bytes [--most RATIO]

Weights as arguments by number or by name ("layer10" comes before "layer2"), as parts of stacked ones, or in a scan; a step of
decoding with its caches; the gradient. Ends with 1 if a ratio is above `--most`.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import hlo2tx8
from benchmarks.roofline import BF16, array, attention, layer, normalized

SIZE, HEAD, TOKENS, PLACES = 256, 64, 128, 512
SHAPES = [(SIZE,), (SIZE,), (SIZE, 3 * SIZE), (SIZE, SIZE), (SIZE,), (SIZE,), (SIZE, 4 * SIZE), (4 * SIZE,), (4 * SIZE, SIZE)]
Weights = Sequence[jax.Array]
FEW, MANY = 12, 48
one = partial(layer, size=HEAD)


def by_number(x: jax.Array, weights: Sequence[Weights]) -> jax.Array:
    for own in weights:
        x = one(x, tuple(own))
    return x


def by_name(x: jax.Array, weights: dict[str, Weights]) -> jax.Array:
    return by_number(x, [weights[f"layer{n}"] for n in range(len(weights))])


def stacked(x: jax.Array, weights: Weights) -> jax.Array:
    return by_number(x, [[all_of[n] for all_of in weights] for n in range(weights[0].shape[0])])


def scan(x: jax.Array, weights: Weights) -> jax.Array:
    return lax.scan(lambda x, own: (one(x, tuple(own)), None), x, weights)[0]


def gradient(x: jax.Array, weights: Sequence[Weights]) -> Any:
    return jax.grad(lambda w: jnp.sum(jnp.square(by_number(x, w).astype(jnp.float32))))(weights)


def decode(x: jax.Array, weights: Sequence[Weights], caches: Sequence[Weights], place: jax.Array) -> Any:
    """One token, whose keys and values go into caches of [heads, places, head]."""
    kept: list[Weights] = []
    for (scale, shift, projections, out, *rest), (keys, values) in zip(weights, caches, strict=True):
        q, k, v = (part.reshape(-1, 1, HEAD) for part in jnp.split(normalized(x, scale, shift) @ projections, 3, -1))
        keys, values = (lax.dynamic_update_slice(cache, new, (0, place, 0)) for cache, new in ((keys, k), (values, v)))
        x = x + attention(q, keys, values).reshape(x.shape) @ out
        scale, shift, up, bias, down = rest
        x = x + jax.nn.gelu(normalized(x, scale, shift) @ up + bias) @ down
        kept.append((keys, values))
    return x, kept


def models(count: int) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]]:
    """By name a model of that many layers, its arguments, and those that are donated."""
    x, own = array(1, TOKENS, SIZE, dtype=BF16), [array(*shape, dtype=BF16) for shape in SHAPES]
    apart, together = [own] * count, [array(count, *shape, dtype=BF16) for shape in SHAPES]
    caches = [[array(SIZE // HEAD, PLACES, HEAD, dtype=BF16)] * 2] * count
    return {
        "by number": (by_number, (x, apart), ()),
        "by name": (by_name, (x, {f"layer{n}": own for n in range(count)}), ()),
        "stacked": (stacked, (x, together), ()),
        "scan": (scan, (x, together), ()),
        "gradient": (gradient, (x, apart), ()),
        "decode": (decode, (array(1, SIZE, dtype=BF16), apart, caches, array(dtype=jnp.int32)), (2,)),
    }


def measured(count: int) -> dict[str, tuple[int, float]]:
    """Bytes of a model's program, and cycles per layer, by name."""
    found: dict[str, tuple[int, float]] = {}
    for name, (function, arguments, donated) in models(count).items():
        executable = hlo2tx8.compile(jax.jit(function, donate_argnums=donated).lower(*arguments).as_text())
        found[name] = executable.program.code_bytes, executable.report.cycles / count
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=float, default=math.inf, metavar="RATIO")
    most = parser.parse_args().most
    few, many = measured(FEW), measured(MANY)
    print(f"{'weights':10} {f'{FEW} layers':>10} {f'{MANY} layers':>10} {'ratio':>6} {'cycles per layer':>22}")
    for name, (bytes_of_few, cycles) in few.items():
        bytes_of_many, cycles_of_many = many[name]
        ratio = bytes_of_many / bytes_of_few
        print(f"{name:10} {bytes_of_few:>10,} {bytes_of_many:>10,} {ratio:6.2f} {cycles:>11,.0f}{cycles_of_many:>11,.0f}")
    return int(max(many[name][0] / few[name][0] for name in few) > most)


if __name__ == "__main__":
    sys.exit(main())
