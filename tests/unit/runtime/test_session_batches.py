"""Requests of any batch."""

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import InputError
from hlo2tx8.runtime.work_queues import WorkQueue


def batch_args(batch: int) -> list[np.ndarray]:
    return [np.zeros((batch, 6), np.float32), np.zeros((6, 4), np.float32)]


@pytest.mark.parametrize("buckets", [(4, 8), ()])
def test_requests_of_any_batch(buckets: tuple[int, ...], queue: WorkQueue):
    session = hlo2tx8.Session()
    session.load_batches(lambda x, w: (jnp.tanh(x @ w), w + 1), batch_args, buckets, "mlp")
    rng = np.random.default_rng(0)
    w = rng.standard_normal((6, 4), np.float32)
    session.bind_weight(1, w)
    for batch in (3, 4, 7):
        x = rng.standard_normal((batch, 6), np.float32)
        request = session.new_request_context(queue, batch=batch)
        request.bind_arg(0, x)
        request.finish_io_binding()
        y, more = request.run().result(30)
        exact = hlo2tx8.compile(lambda x, w: jnp.tanh(x @ w), args=(x, w))(x, w)
        np.testing.assert_array_equal(y, exact)
        np.testing.assert_array_equal(more, w + 1)
        told = {3: "bucket 4, 1 rows of padding", 4: "bucket 4", 7: "bucket 8, 1 rows of padding"}
        assert request.specialization == (told[batch] if buckets else f"exactly {batch}")
    if buckets:
        with pytest.raises(InputError, match="no program for a batch of 9"):
            session.new_request_context(batch=9)
        session.bind_weight(0, np.zeros((4, 6), np.float32))
        with pytest.raises(InputError, match=r"input input0 f32\[7,6\] has a weight of f32\[4,6\]"):
            session.new_request_context(batch=7)


DYNAMIC = """
func.func @main(%x: tensor<?x3xf32>) -> (tensor<3x?xf32>, tensor<4x3xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x3xf32>) -> tensor<3x?xf32>
  %c = stablehlo.constant dense<2.0> : tensor<4x3xf32>
  return %t, %c : tensor<3x?xf32>, tensor<4x3xf32>
}
"""


def test_padding_is_cut_where_the_batch_is_and_nowhere_else():
    session = hlo2tx8.Session()
    session.load_batches(DYNAMIC, lambda batch: (np.zeros((batch, 3), np.float32),), (4,))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    request = session.new_request_context(batch=2)
    request.bind_arg(0, x)
    request.finish_io_binding()
    transposed, constant = request.run().result(30)
    np.testing.assert_array_equal(transposed, x.T)
    assert constant.shape == (4, 3)


def test_a_batch_that_is_no_matter_of_rows_is_not_padded():
    session = hlo2tx8.Session()
    session.load_batches(lambda x: x.reshape(-1), lambda batch: (np.zeros((batch, 3), np.float32),), (4,))
    with pytest.raises(InputError, match=r"argument 1 is f32\[6\] for a batch of 2 and f32\[12\] for 4: not a matter of rows"):
        session.new_request_context(batch=2)
