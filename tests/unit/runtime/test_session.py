"""Sessions: bound arguments, runs, shared weights; and what they refuse."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.errors import InputError, SessionError
from hlo2tx8.options import Mode, Options
from hlo2tx8.runtime.executable import Executable
from hlo2tx8.runtime.task_trace import TaskTrace
from hlo2tx8.runtime.work_queues import WorkQueue
from tests.unit.runtime.session_data import SUM, X, Y, address

IN_PLACE = """
func.func @main(%cache: tensor<64x32xf32> {tf.aliasing_output = 0 : i32}, %new: tensor<1x32xf32>, %i: tensor<i32>)
    -> tensor<64x32xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %cache, %new, %i, %z
    : (tensor<64x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32>
}
"""
LAYOUTS = """HloModule layouts, entry_computation_layout={(f32[3,5]{0,1}, c64[4]{0})->(f32[5,3]{0,1}, c64[4]{0})}
ENTRY main {
  x = f32[3,5]{0,1} parameter(0)
  c = c64[4]{0} parameter(1)
  t = f32[5,3]{0,1} transpose(x), dimensions={1,0}
  d = c64[4]{0} add(c, c)
  ROOT r = (f32[5,3]{0,1}, c64[4]{0}) tuple(t, d)
}
"""


def test_arguments_say_what_a_program_takes_and_gives(session: hlo2tx8.Session):
    assert session.models == ("sum",)
    assert [(a.offset, a.name, a.shape, a.dtype, a.space, a.alias_offset) for a in session.inputs()] == [
        (0, "input0", (3, 5), "float32", "ddr", None),
        (1, "input1", (3, 5), "float32", "ddr", None),
    ]
    assert [(a.offset, a.name) for a in session.outputs()] == [(2, "output0"), (3, "output1")]
    assert session.weights() == ()


def test_bound_arrays_are_the_programs_own_and_the_rest_is_allocated_once(session: hlo2tx8.Session):
    request, total = session.new_request_context(), np.empty_like(X)
    request.bind_args([X, Y, total])
    request.finish_io_binding()
    product = request.get_arg(3)
    assert [address(request.get_arg(i)) for i in range(3)] == [address(X), address(Y), address(total)]
    for _ in range(3):
        request.run()
    request.sync()
    request.finish_io_binding()
    assert address(request.get_arg(3)) == address(product)
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, X * Y)


@pytest.mark.parametrize("mode", ["fast", "strict", "definition"])
def test_every_queue_and_space_gives_what_the_executable_gives(mode: Mode, queue: WorkQueue, executable: Executable):
    session = hlo2tx8.Session(Options(mode=mode))
    session.load(SUM)
    for space in ("ddr", "host"):
        request = session.new_request_context(queue)
        mirrored, out = (
            np.asfortranarray(X) if space == "host" else X,
            np.zeros((5, 3), np.float32).T if space == "host" else np.zeros_like(X),
        )
        for offset, array in enumerate((mirrored, Y, out)):
            request.bind_arg(offset, array, space=space)
        request.finish_io_binding()
        results = request.run().result(30)
        assert results[0] is out
        for found, wanted in zip(results, executable.execute(X, Y), strict=True):
            assert found.tobytes() == wanted.tobytes()


def test_layouts_and_complex_numbers(queue: WorkQueue):
    session = hlo2tx8.Session()
    session.load(LAYOUTS)
    assert [a.space for a in (*session.inputs(), *session.outputs())] == ["host", "ddr", "host", "ddr"]
    request, c = session.new_request_context(queue), (np.arange(4) + 1j).astype(np.complex64)
    request.bind_args([X, c])
    request.finish_io_binding()
    transposed, double = request.run().result(30)
    np.testing.assert_array_equal(transposed, X.T)
    np.testing.assert_array_equal(double, 2 * c)


@pytest.mark.parametrize("is_in_place", [True, False])
@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_an_output_takes_over_an_input_in_its_memory_or_a_copy(is_in_place: bool, mode: Mode):
    session, trace = hlo2tx8.Session(Options(mode=mode)), TaskTrace()
    session.add_listener(trace)
    session.load(IN_PLACE)
    assert [a.alias_offset for a in session.outputs()] == [0]
    cache, wanted = np.ones((64, 32), np.float32), np.ones((64, 32), np.float32)
    request, row = session.new_request_context(), np.full((1, 32), 7, np.float32)
    request.bind_args([cache, row, np.array(5, np.int32), cache if is_in_place else None])
    request.finish_io_binding()
    request.run()
    request.sync()
    wanted[5] = 7
    np.testing.assert_array_equal(request.get_arg(3), wanted)
    assert bool(cache[5, 0] == 7) is is_in_place
    kinds = [event.get("cat") for event in trace.content()["traceEvents"]]  # type: ignore[attr-defined]
    assert ("d2d" in kinds) is not is_in_place


def test_no_output_takes_the_memory_of_a_weight():
    session, cache = hlo2tx8.Session(), np.ones((64, 32), np.float32)
    session.load(IN_PLACE)
    session.bind_weight(0, cache)
    request = session.new_request_context()
    request.bind_args([None, np.full((1, 32), 7, np.float32), np.array(5, np.int32), cache])
    with pytest.raises(InputError, match=r"output0 .* shares memory with input input0"):
        request.finish_io_binding()
    request.bind_arg(3, np.empty_like(cache))
    request.finish_io_binding()
    assert request.run().result(30)[0][5, 0] == 7
    assert cache.min() == cache.max() == 1


def test_weights_are_there_once(tmp_path: Path):
    table = np.arange(4096, dtype=np.float32).reshape(64, 64)
    compiled = hlo2tx8.compile(lambda x: jnp.dot(x, table), args=(np.zeros((2, 64), np.float32),))
    session = hlo2tx8.Session()
    session.load(compiled)
    (weight,) = session.weights()
    assert weight.shape == (64, 64)
    assert session.weight(0).tobytes() == table.tobytes()
    assert address(session.weight(0)) == address(session.weight(0))
    with pytest.raises(ValueError, match="read-only"):
        session.weight(0)[0] = 1
    session.load(SUM)
    session.bind_weight(1, Y, model="sum")
    first, second = (session.new_request_context(model="sum") for _ in range(2))
    assert address(first.get_arg(1)) == address(second.get_arg(1)) == address(Y)
    with pytest.raises(SessionError, match="is a weight of the session"):
        first.bind_arg(1, X)
    first.bind_arg(0, X)
    first.finish_io_binding()
    np.testing.assert_array_equal(first.run().result(30)[0], X + Y)


def test_models_come_from_files_bytes_and_modules(tmp_path: Path, executable: Executable):
    path = tmp_path / "sum.tx8x"
    executable.save(path)
    session = hlo2tx8.Session()
    names = [session.load(s, name) for s, name in ((path, "file"), (path.read_bytes(), "bytes"), (SUM, ""), (str(path), "text"))]
    assert names == ["file", "bytes", "sum", "text"]
    for name in names:
        request = session.new_request_context(model=name)
        request.bind_args([X, Y])
        request.finish_io_binding()
        np.testing.assert_array_equal(request.run().result(30)[0], X + Y)
    with pytest.raises(InputError, match="has a model file already"):
        session.load(path, "file")
    with pytest.raises(InputError, match=r"which model\?"):
        session.new_request_context()
    with pytest.raises(InputError, match="no model 'other'"):
        session.new_request_context(model="other")


WRONG: dict[str, Callable[[hlo2tx8.runtime.request_context.RequestContext], object]] = {  # type: ignore[name-defined]
    r"input input0 f32\[3,5\] is bound to f64\[3,5\]": lambda r: r.bind_arg(0, X.astype(np.float64)),
    r"is bound to f32\[5,3\]": lambda r: r.bind_arg(0, X.T),
    "has no argument 4": lambda r: r.bind_arg(4, X),
    "has no argument -1": lambda r: r.bind_arg(-1, X),
    "is no number of an argument": lambda r: r.bind_arg("x", X),
    "is bound to a list": lambda r: r.bind_arg(0, X.tolist()),
    "is bound to NoneType": lambda r: r.bind_arg(0, None),
    "not contiguous": lambda r: r.bind_arg(0, np.asfortranarray(X)),
    "cannot be written": lambda r: r.bind_arg(2, np.broadcast_to(np.float32(0), (3, 5))),
    "no space 'spm'": lambda r: r.bind_arg(0, X, space="spm"),
    "has 4 arguments, got 5": lambda r: r.bind_args([X] * 5),
    "shares memory with input input0": lambda r: (r.bind_args([X, Y, X]), r.finish_io_binding()),
    "output output1.* shares memory with output output0": lambda r: (
        r.bind_args([X, Y, e := np.empty_like(X), e]),
        r.finish_io_binding(),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_are_refused(message: str, session: hlo2tx8.Session):
    with pytest.raises(InputError, match=message) as raised:
        WRONG[message](session.new_request_context())
    assert raised.value.code == "E1004"


def test_calls_in_a_wrong_order_are_refused(session: hlo2tx8.Session):
    request = session.new_request_context()
    with pytest.raises(SessionError, match="before finish_io_binding") as raised:
        request.run()
    assert raised.value.code == "E1013"
    with pytest.raises(SessionError, match="bound to nothing yet"):
        request.get_arg(0)
    request.finish_io_binding()
    request.bind_arg(0, X)
    with pytest.raises(SessionError, match="before finish_io_binding"):
        request.run()
    request.finish_io_binding()
    session.close()
    with pytest.raises(SessionError, match="closed"):
        request.run()
    with pytest.raises(SessionError, match="closed"):
        session.new_request_context()
    request.sync()
