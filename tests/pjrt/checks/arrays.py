"""Arrays on the device: transfers of every dtype, shape and order, views, copies, deletion."""

import gc
import sys
from math import prod

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from hlo2tx8.device.host_memory import allocate

TX8 = jax.devices("tx8")[0]
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"),
    *("complex64", "complex128", "bfloat16", "int4", "uint4", "int2", "uint2", "float8_e5m2", "float8_e4m3fn", "float4_e2m1fn"),
    *("float8_e4m3b11fnuz", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu"),
)


def put(array):
    return jax.device_put(array, TX8)


def check_that_the_compiler_is_not_loaded_yet():
    assert not [name for name in sys.modules if name.startswith("xdsl")]


def check_devices():
    assert jax.devices()[0] == TX8 and TX8.platform == "tx8"
    assert jax.default_backend() == "tx8"
    assert [m.kind for m in TX8.addressable_memories()] == ["device", "pinned_host"]
    assert TX8.default_memory().kind == "device"


def check_every_dtype_comes_back():
    with jax.enable_x64(True):
        for name in DTYPES:
            dtype = np.dtype(getattr(ml_dtypes, name, name))
            array = np.arange(6).reshape(2, 3).astype(dtype)
            back = put(array)
            assert back.dtype == dtype
            np.testing.assert_array_equal(np.asarray(back).view(np.uint8), array.view(np.uint8), err_msg=name)


def check_shapes_and_strides():
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    views = (
        base.T,
        base[::-1],
        base[:, ::-2],
        base[1:3, ::2],
        np.broadcast_to(base[0], (3, 6)),
        base[:0],
        np.int32(7),
        base[..., None],
    )
    for view in views:
        np.testing.assert_array_equal(np.asarray(put(view)), view)


def check_empty_arrays():
    x = put(np.zeros((0, 3), np.float32))
    assert (x + 1).shape == (0, 3)
    assert np.asarray(x).shape == (0, 3)


def check_weak_types_and_scalars():
    x = jnp.asarray(3.0)
    assert x.devices() == {TX8}
    assert (x + 1).weak_type
    assert float(x * 2) == 6.0


def check_copies_between_devices_and_memories():
    cpu = jax.devices("cpu")[0]
    x = put(np.arange(5, dtype=np.float32))
    there = jax.device_put(x, cpu)
    assert there.devices() == {cpu}
    back = jax.device_put(there + 1, TX8)
    np.testing.assert_array_equal(back, np.arange(5) + 1)
    pinned = jax.device_put(x, jax.sharding.SingleDeviceSharding(TX8, memory_kind="pinned_host"))
    assert pinned.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(pinned, x)
    result, other = jax.jit(lambda x: (x + 1, x * 2), out_shardings=(pinned.sharding, None))(x)
    assert (result.sharding.memory_kind, other.sharding.memory_kind) == ("pinned_host", "device")
    np.testing.assert_array_equal(result, x + 1)


def check_deletion():
    x = put(np.arange(5, dtype=np.float32))
    y = x + 1
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(y, np.arange(5) + 1)
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def check_memory_goes_with_the_array():
    gc.collect()  # what earlier checks left must not go in between
    before = TX8.memory_stats()["bytes_in_use"]
    x = put(np.zeros(1 << 20, np.float32))
    assert TX8.memory_stats()["bytes_in_use"] == before + (4 << 20)
    del x
    gc.collect()
    assert TX8.memory_stats()["bytes_in_use"] == before


def check_an_exception_in_flight_survives_the_end_of_an_array():
    with pytest.raises(IndexError):
        np.zeros(3)[put(np.int32(7))]


def check_dlpack():
    x = jax.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), TX8)
    np.testing.assert_array_equal(np.from_dlpack(x), x)
    with pytest.raises(BufferError, match="copied to the cpu"):
        x.__dlpack__(copy=False)
    narrow = jax.device_put(jnp.arange(4, dtype=jnp.bfloat16), TX8)
    back = jax.dlpack.from_dlpack(narrow, device=TX8)
    assert back.dtype == jnp.bfloat16 and back.devices() == {TX8}
    np.testing.assert_array_equal(back, narrow)


def check_no_byte_of_before_comes_out():
    """Recycled memory is full of a secret; buffers of every way to make one hold what they should, byte for byte."""
    shape, secret = (512, 1024), b"\xa5" * 16
    dense = np.arange(prod(shape), dtype=np.float32).reshape(shape)
    given = {
        "dense": dense,
        "strided": np.arange(4 * prod(shape), dtype=np.float32).reshape(1024, 2048)[::2, ::2],
        "turned": np.ascontiguousarray(dense.T).T,
        "bytes": dense.astype(np.uint8),
        "halves": dense.astype(jnp.bfloat16),
        "nibbles": (np.arange(prod(shape)).reshape(shape) % 8).astype(jnp.int4),
        "bits": np.arange(prod(shape)).reshape(shape) % 3 == 0,
    }
    made = {
        "zeros": lambda: jnp.zeros(shape),
        "empty": lambda: jnp.empty(shape),
        "padded": lambda: jnp.pad(jnp.ones((500, 1000)), ((6, 6), (12, 12))),
        "updated": lambda: jnp.zeros(shape).at[3:9, 5:7].set(1),
        "reduced": lambda: jnp.broadcast_to(jnp.ones((7, 1024)).sum(0), shape),
        "in parts": lambda: jnp.concatenate([jnp.ones((511, 1024)), jnp.zeros((1, 1024))]),
    }

    for name, array in given.items():
        fill_recycled_memory(array.nbytes)
        found = put(array)
        for copy in (found, put(found), jnp.copy(found)):
            assert np.asarray(copy).tobytes() == np.ascontiguousarray(array).tobytes(), name
    for name, make in made.items():
        fill_recycled_memory(4 * prod(shape))
        assert secret not in np.asarray(make()).tobytes(), name


def fill_recycled_memory(size_bytes):
    held = [allocate(size) for size in (size_bytes, 4 * size_bytes, 1 << 17, 1 << 20) if size >= 1 << 17 for _ in range(4)]
    for memory in held:
        memory[...] = 0xA5
