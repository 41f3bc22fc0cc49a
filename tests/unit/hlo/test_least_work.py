"""The least work of small modules, by numbers computed by hand; nothing here shares code with what is tested."""

import jax
import jax.numpy as jnp
import pytest

import hlo2tx8
from hlo2tx8.frontend import load
from hlo2tx8.hlo.least_work import LeastWork, least_work


def shape(*sizes: int, dtype: object = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def work(function: object, *args: jax.ShapeDtypeStruct, donate: tuple[int, ...] = ()) -> LeastWork:
    text = jax.jit(function, donate_argnums=donate).lower(*args).as_text()
    return least_work(load(text, clean_up=False))


def test_elementwise_passes():
    found = work(lambda x: jnp.tanh(x) + x, shape(64, 32))
    assert found.ddr_bytes == 2 * 64 * 32 * 4
    assert found.vector_bytes == (4 + 1) * 64 * 32 * 4
    assert not found.products and found.core_bytes == 0


def test_what_is_computed_twice_counts_twice():
    found = work(lambda x: jnp.exp(x) * jnp.exp(x), shape(8, 8, dtype=jnp.bfloat16))
    assert found.vector_bytes == (4 + 4 + 1) * 64 * 2


@pytest.mark.parametrize(("precision", "passes"), [("default", 1), ("high", 3), ("highest", 6)])
def test_products_of_f32(precision: str, passes: int):
    found = work(lambda a, b: jnp.matmul(a, b, precision=precision), shape(16, 32), shape(32, 8))
    assert found.products == {"tf32": 2 * 16 * 32 * 8 * passes}
    assert found.ddr_bytes == 4 * (16 * 32 + 32 * 8 + 16 * 8)


def test_taps_in_padding_do_not_count():
    image, kernel = shape(1, 4, 4, 2, dtype=jnp.bfloat16), shape(3, 3, 2, 5, dtype=jnp.bfloat16)
    dimensions = ("NHWC", "HWIO", "NHWC")
    found = work(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dimensions), image, kernel)
    assert found.products == {"bf16": 2 * 10 * 10 * 2 * 5}  # of 4 x 3 taps along a line, 10 are inside


def test_a_stride_reads_a_part_of_the_image():
    image, kernel = shape(1, 8, 8, 4, dtype=jnp.bfloat16), shape(1, 1, 4, 4, dtype=jnp.bfloat16)
    dimensions = ("NHWC", "HWIO", "NHWC")
    found = work(lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=dimensions), image, kernel)
    assert found.ddr_bytes == 2 * (4 * 4 * 4 + 4 * 4 + 4 * 4 * 4)


def test_what_is_gathered_is_read():
    found = work(lambda w, i: w[i], shape(1000, 16), shape(10, dtype=jnp.int32))
    assert found.ddr_bytes == pytest.approx(2 * 10 * 16 * 4 + 10 * 4)


def test_a_donated_cache_is_written_where_it_changes():
    def update(cache: jax.Array, row: jax.Array, at: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice(cache, row, (at, 0))

    args = shape(4096, 16), shape(1, 16), shape(dtype=jnp.int32)
    whole, row = 4096 * 16 * 4, 16 * 4
    assert work(update, *args).ddr_bytes == 2 * whole + row + 4
    assert work(update, *args, donate=(0,)).ddr_bytes == whole + 2 * row + 4


def test_loops_count_their_turns():
    found = work(lambda x: jax.lax.fori_loop(0, 7, lambda _, y: y * 1.5, x), shape(16, 16))
    assert found.vector_bytes == 7 * 16 * 16 * 4


def test_the_report_divides_by_the_bound():
    executable = hlo2tx8.compile(jax.jit(lambda a, b: a @ b).lower(shape(4096, 4096), shape(4096, 4096)).as_text())
    cost = executable.cost_analysis()
    bound = 2000 + 2 * 4096**3 / 131_072
    assert cost["lower_bound_cycles"] == pytest.approx(bound)
    assert cost["roofline_ratio"] == pytest.approx(executable.report.cycles / bound)
    assert executable.report.roofline_ratio == cost["roofline_ratio"]
    assert set(executable.lost_cycles()) == {"rereads", "intermediates", "short runs", "extra work", "imbalance", "waiting"}
    assert f"{cost['roofline_ratio']:.2f}x of its lower bound" in str(executable.report)


def test_rereads_are_what_is_read_beyond_the_bound():
    executable = hlo2tx8.compile(jax.jit(lambda a, b: a @ b).lower(shape(2048, 2048), shape(2048, 2048)).as_text())
    least = 3 * 2048 * 2048 * 4
    assert executable.lost_cycles()["rereads"] == pytest.approx((executable.report.ddr_bytes - least) / 204.8)
