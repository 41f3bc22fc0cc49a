"""libtx8runtime: the same results as Python's, the same refusals, and an example in C that is built and run."""

import ctypes
import io
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.dev.damage import damaged_program
from hlo2tx8.runtime import container, native
from hlo2tx8.runtime.executable import Executable

LIBRARY = native.folder() / "libtx8runtime.so"
EXAMPLE = Path(__file__).parents[3] / "examples" / "c" / "run_program.c"
OLD = Path(__file__).with_name("format_4.tx8x")
POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
DDR, HOST, INPUTS, OUTPUTS, WEIGHTS = 0, 1, 0, 1, 2
LAYOUTS = """HloModule layouts, entry_computation_layout={(f32[3,5,2]{0,2,1}, f32[5,2]{1,0})->(f32[2,5,3]{1,0,2}, f32[5,2]{1,0})}
ENTRY main {
  x = f32[3,5,2]{0,2,1} parameter(0)
  y = f32[5,2]{1,0} parameter(1)
  t = f32[2,5,3]{1,0,2} transpose(x), dimensions={2,1,0}
  w = f32[5,2]{1,0} constant({{1,2},{3,4},{5,6},{7,8},{9,10}})
  s = f32[5,2]{1,0} add(y, w)
  ROOT r = (f32[2,5,3]{1,0,2}, f32[5,2]{1,0}) tuple(t, s)
}
"""
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="libtx8runtime was not built: there was no C compiler")


class Described(ctypes.Structure):
    """tx8rt_argument."""

    _fields_ = (
        *((name, INT) for name in ("kind", "space")),
        *((name, ctypes.c_char_p) for name in ("name", "dtype")),
        *((name, INT) for name in ("offset", "rank", "alias_offset")),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("size_bytes", SIZE),
        ("data", POINTER),
    )


class DescribedTask(ctypes.Structure):
    """tx8rt_task."""

    _fields_ = (
        *((name, INT) for name in ("kind", "stream")),
        ("name", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("request", "run", "event")),
        ("size_bytes", SIZE),
    )


BEFORE = ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(DescribedTask))
AFTER = ctypes.CFUNCTYPE(None, POINTER, ctypes.POINTER(DescribedTask), INT)
H2D, D2H, D2D, COMPUTE = range(4)


class SessionOptions(ctypes.Structure):
    """tx8rt_options."""

    _fields_ = (
        ("cores", ctypes.c_char_p),
        ("threads", INT),
        ("timeout", ctypes.c_double),
        ("max_steps", ctypes.c_int64),
        ("limit_bytes", SIZE),
        *((name, POINTER) for name in ("allocate", "free")),
        ("before", BEFORE),
        ("after", AFTER),
        ("user", POINTER),
    )


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    found = ctypes.CDLL(str(LIBRARY))
    found.tx8rt_error.restype = ctypes.c_char_p
    found.tx8rt_get_arg.restype = POINTER
    for name, arguments in {
        "session_load": (POINTER, ctypes.c_char_p, ctypes.c_char_p, POINTER),
        "session_load_bytes": (POINTER, ctypes.c_char_p, SIZE, ctypes.c_char_p, POINTER),
        "session_argument": (POINTER, INT, INT, INT, POINTER),
        "session_count": (POINTER, INT, INT),
        "session_destroy": (POINTER,),
        "queue_create_external": (POINTER, POINTER, POINTER),
        "queue_destroy": (POINTER,),
        "request_create": (POINTER, INT, POINTER, POINTER),
        "request_destroy": (POINTER,),
        "bind_arg": (POINTER, INT, POINTER, SIZE, INT),
        "get_arg": (POINTER, INT),
        "finish_io_binding": (POINTER,),
        "run": (POINTER, POINTER, POINTER),
        "sync": (POINTER,),
    }.items():
        getattr(found, f"tx8rt_{name}").argtypes = arguments
    return found


@pytest.fixture
def session(library: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    made = POINTER()
    assert not library.tx8rt_session_create(None, ctypes.byref(made)), library.tx8rt_error()
    yield made
    assert not library.tx8rt_session_destroy(made), library.tx8rt_error()


def saved(source: str, **options: Any) -> tuple[Executable, bytes]:
    compiled, data = hlo2tx8.compile(source, hlo2tx8.Options(**options)), io.BytesIO()
    assert isinstance(compiled, Executable)
    container.write_file(compiled, data, ())
    return compiled, data.getvalue()


def load(library: ctypes.CDLL, session: ctypes.c_void_p, data: bytes, name: bytes | None = None) -> int:
    model = INT()
    assert not library.tx8rt_session_load_bytes(session, data, len(data), name, ctypes.byref(model)), library.tx8rt_error()
    return model.value


def new_request(library: ctypes.CDLL, session: ctypes.c_void_p, model: int, queue: object = None) -> ctypes.c_void_p:
    made = POINTER()
    assert not library.tx8rt_request_create(session, model, queue, ctypes.byref(made)), library.tx8rt_error()
    return made


def output(library: ctypes.CDLL, request: ctypes.c_void_p, offset: int, like: np.ndarray) -> np.ndarray:
    found = np.frombuffer(ctypes.string_at(library.tx8rt_get_arg(request, offset), like.nbytes), like.dtype)
    return found.reshape(like.shape)


def test_a_program_of_strict_mode_is_not_run_in_another(library: ctypes.CDLL, session: ctypes.c_void_p):
    _, data = saved(LAYOUTS, mode="strict")
    assert library.tx8rt_session_load_bytes(session, data, len(data), None, ctypes.byref(INT())) == 1001
    assert b"error E1001: the program: it was saved to run in mode strict, which Python alone has" in library.tx8rt_error()


@pytest.mark.parametrize("kind", ["own", "single", "1c2t", "external"])
@pytest.mark.parametrize("space", [DDR, HOST])
def test_results_are_those_of_python(kind: str, space: int, library: ctypes.CDLL, session: ctypes.c_void_p):
    """Of a program with layouts and a weight, on every queue."""
    executable, data = saved(LAYOUTS)
    model, queue = load(library, session, data), POINTER()

    def submit(user: object, work: int, argument: int) -> int:
        threading.Thread(target=ctypes.CFUNCTYPE(None, POINTER)(work), args=(argument,)).start()
        return 0

    submitted = ctypes.CFUNCTYPE(INT, POINTER, POINTER, POINTER)(submit)
    if kind == "external":
        assert not library.tx8rt_queue_create_external(ctypes.cast(submitted, POINTER), None, ctypes.byref(queue))
    elif kind != "own":
        assert not library.tx8rt_queue_create(int(kind == "1c2t"), ctypes.byref(queue))
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((3, 5, 2), np.float32), rng.standard_normal((5, 2), np.float32)
    wanted = executable.execute(x, y)
    request = new_request(library, session, model, queue if kind != "own" else None)
    for offset, array in enumerate((x, y)):
        assert not library.tx8rt_bind_arg(request, offset, array.ctypes.data, array.nbytes, space)
    total = np.empty((5, 2), np.float32)
    assert not library.tx8rt_bind_arg(request, 3, total.ctypes.data, total.nbytes, space)
    assert library.tx8rt_get_arg(request, 0) == x.ctypes.data
    assert library.tx8rt_get_arg(request, 2) is None
    assert not library.tx8rt_finish_io_binding(request), library.tx8rt_error()
    ended: list[int] = []
    done = ctypes.CFUNCTYPE(None, POINTER, INT, ctypes.c_char_p)(lambda user, code, message: ended.append(code))
    for _ in range(3):
        assert not library.tx8rt_run(request, ctypes.cast(done, POINTER), None), library.tx8rt_error()
    assert not library.tx8rt_sync(request), library.tx8rt_error()
    assert ended == [0, 0, 0]
    assert output(library, request, 2, wanted[0]).tobytes() == wanted[0].tobytes()
    assert total.tobytes() == wanted[1].tobytes()
    library.tx8rt_request_destroy(request)
    if kind != "own":
        assert not library.tx8rt_queue_destroy(queue), library.tx8rt_error()


def test_arguments_are_described(library: ctypes.CDLL, session: ctypes.c_void_p):
    executable, data = saved(LAYOUTS)
    model, found = load(library, session, data), Described()
    assert [library.tx8rt_session_count(session, model, kind) for kind in (INPUTS, OUTPUTS, WEIGHTS)] == [2, 2, 1]
    assert not library.tx8rt_session_argument(session, model, INPUTS, 0, ctypes.byref(found))
    assert (found.name, found.dtype, found.shape[: found.rank], found.space) == (b"input0", b"float32", [3, 5, 2], HOST)
    assert not library.tx8rt_session_argument(session, model, WEIGHTS, 0, ctypes.byref(found))
    assert ctypes.string_at(found.data, found.size_bytes) == executable.program.constants[0].tobytes()
    assert library.tx8rt_session_argument(session, model, OUTPUTS, 2, ctypes.byref(found)) == 1004
    old = load(library, session, OLD.read_bytes(), b"old")
    assert not library.tx8rt_session_argument(session, old, OUTPUTS, 0, ctypes.byref(found))
    assert found.alias_offset == 0


def test_an_output_takes_over_an_input_of_a_file_of_the_previous_format(library: ctypes.CDLL, session: ctypes.c_void_p):
    request = new_request(library, session, load(library, session, OLD.read_bytes()))
    cache, x, i = np.zeros((8, 16), np.float32), np.full((1, 16), 2, np.float32), np.array(3, np.int32)
    wanted = hlo2tx8.load(str(OLD)).run(cache, x, i)[0]
    for offset, array in ((0, cache), (1, x), (2, i), (3, cache)):
        assert not library.tx8rt_bind_arg(request, offset, array.ctypes.data, array.nbytes, DDR)
    assert not library.tx8rt_finish_io_binding(request), library.tx8rt_error()
    assert not library.tx8rt_run(request, None, None)
    assert not library.tx8rt_sync(request)
    np.testing.assert_array_equal(cache, wanted)
    library.tx8rt_request_destroy(request)


@pytest.mark.parametrize("slow", [H2D, COMPUTE, D2H])
@pytest.mark.parametrize("is_overlapping", [False, True])
def test_runs_of_a_request_wait_for_each_others_memory(is_overlapping: bool, slow: int, library: ctypes.CDLL):
    """One kind of task takes its time, the input changes once it was moved, and each run gives what was moved for it."""
    executable, data = saved(LAYOUTS)
    x, y, out = np.zeros((3, 5, 2), np.float32), np.ones((5, 2), np.float32), np.empty((5, 2), np.float32)
    sum_of_weights, seen, streams = executable.program.constants[0], list[np.ndarray](), set[int]()

    def before(user: object, task: Any) -> None:
        if task[0].kind <= COMPUTE:
            streams.add(task[0].stream)
        if task[0].kind == slow:
            time.sleep(0.02)

    def after(user: object, task: Any, code: int) -> None:
        if task[0].kind == H2D and task[0].name == b"input1":
            y[...] += 1
        if task[0].kind == D2H and task[0].name == b"output1":
            seen.append(out.copy())

    options, session, queue = SessionOptions(before=BEFORE(before), after=AFTER(after)), POINTER(), POINTER()
    assert not library.tx8rt_session_create(ctypes.byref(options), ctypes.byref(session))
    assert not library.tx8rt_queue_create(int(is_overlapping), ctypes.byref(queue))
    request = new_request(library, session, load(library, session, data), queue)
    for offset, array in ((0, x), (1, y), (3, out)):
        assert not library.tx8rt_bind_arg(request, offset, array.ctypes.data, array.nbytes, HOST)
    assert not library.tx8rt_finish_io_binding(request)
    for _ in range(4):
        assert not library.tx8rt_run(request, None, None)
    assert not library.tx8rt_sync(request), library.tx8rt_error()
    np.testing.assert_array_equal(seen, [sum_of_weights + 1 + turn for turn in range(4)])
    assert len(streams) == (3 if is_overlapping else 1)
    library.tx8rt_request_destroy(request)
    assert not library.tx8rt_queue_destroy(queue)
    assert not library.tx8rt_session_destroy(session)


def test_refusals_have_codes_and_say_why(library: ctypes.CDLL, session: ctypes.c_void_p):
    _, data = saved(LAYOUTS)
    model, x, number = load(library, session, data), np.zeros((3, 5, 2), np.float32), INT()
    request = new_request(library, session, model)
    x_at, y_at = x.ctypes.data, x.ctypes.data + 40

    def refused(code: int, found: int, why: str) -> None:
        assert (found, why in library.tx8rt_error().decode()) == (code, True), library.tx8rt_error()
        assert library.tx8rt_error().decode().startswith(f"error E{code}: ")

    refused(1013, library.tx8rt_run(request, None, None), "before finish_io_binding")
    refused(1004, library.tx8rt_bind_arg(request, 4, x_at, 120, DDR), "has no argument 4")
    refused(1004, library.tx8rt_bind_arg(request, 0, x_at, 119, DDR), "input0 has 120 bytes, bound to 119")
    refused(1004, library.tx8rt_bind_arg(request, 0, None, 120, DDR), "bound to NULL")
    assert not library.tx8rt_bind_arg(request, 1, x_at, 40, DDR)
    assert not library.tx8rt_bind_arg(request, 3, y_at - 4, 40, DDR)
    refused(1004, library.tx8rt_finish_io_binding(request), "output1 shares memory with input1")
    refused(1004, library.tx8rt_session_load_bytes(session, data, len(data), None, ctypes.byref(number)), "already")
    refused(1007, library.tx8rt_session_load(session, b"nowhere.tx8x", None, ctypes.byref(number)), "nowhere.tx8x: ")
    refused(1007, library.tx8rt_session_load_bytes(session, data[:-9], len(data) - 9, b"x", ctypes.byref(number)), "ends early")
    refused(1013, library.tx8rt_session_destroy(session), "with requests")
    library.tx8rt_request_destroy(request)


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler")
def test_the_example_in_c_runs_where_there_is_no_python(tmp_path: Path):
    """Built as its comment says, with what the pkg-config file holds, and run with nothing of Python in its environment."""
    lines = (native.folder() / "tx8runtime.pc").read_text().splitlines()
    fields = dict(line.split(": ", 1) for line in lines)
    assert fields["Version"] == hlo2tx8.__version__
    flags = f"{fields['Cflags']} {fields['Libs']}".replace("${pcfiledir}", str(native.folder())).split()
    program, compiler = tmp_path / "run_program", os.environ.get("CC", "cc")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", str(EXAMPLE), *flags, "-o", str(program)], check=True)
    executable, data = saved(LAYOUTS)
    x, y = np.arange(30, dtype=np.float32).reshape(3, 5, 2), np.ones((5, 2), np.float32)
    for name, content in (("p.tx8x", data), ("x", x.tobytes()), ("y", y.tobytes())):
        (tmp_path / name).write_bytes(content)
    for queue in ("", "1c2t"):
        command = [str(program), "p.tx8x", "x", "y"]
        found = subprocess.run(command, cwd=tmp_path, env={"TX8_QUEUE": queue}, capture_output=True, check=True)
        assert found.stdout == b"".join(array.tobytes() for array in executable.execute(x, y))
        assert b"input 0 input0: float32[3,5,2], 120 bytes" in found.stderr
    linked = subprocess.run(["ldd", str(LIBRARY)], capture_output=True, text=True, check=False).stdout
    assert "python" not in linked


def test_damaged_programs_are_refused_or_fault(library: ctypes.CDLL, session: ctypes.c_void_p):
    rng, codes, model = random.Random(0), set[int](), INT()
    for number in range(150):
        damaged = damaged_program(OLD.read_bytes(), rng)
        code = library.tx8rt_session_load_bytes(session, damaged, len(damaged), str(number).encode(), ctypes.byref(model))
        if not code:
            request = new_request(library, session, model.value)
            code = library.tx8rt_finish_io_binding(request) or library.tx8rt_run(request, None, None) or library.tx8rt_sync(request)
            library.tx8rt_request_destroy(request)
        codes.add(code)
    assert {0, 1007, 1008} <= codes <= {0, 1001, 1005, 1007, 1008}
