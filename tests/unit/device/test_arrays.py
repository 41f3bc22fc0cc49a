"""Which arrays the core takes as they are, and that others are still bound, or refused, as they were."""

import pickle

import numpy as np
import pytest

import hlo2tx8
from hlo2tx8.device import native
from hlo2tx8.device.native import arrays, loader
from hlo2tx8.errors import InputError
from hlo2tx8.hlo.signature import dtype_of
from hlo2tx8.runtime.executable import Executable

ADD = "HloModule add\nENTRY main {{ x = {0} parameter(0) y = {0} parameter(1) ROOT s = {0} add(x, y) }}"
needs_core = pytest.mark.skipif(isinstance(loader.load(), str), reason="no native core")


class Apart(np.ndarray):
    """An array that is none of numpy's own."""


def made(kind: str) -> Executable:
    executable = hlo2tx8.compile(ADD.format(kind), format="hlo")
    assert isinstance(executable, Executable)
    return executable


def test_arrays_begin_as_the_core_reads_them():
    assert arrays.is_known()


@needs_core
@pytest.mark.parametrize("kind", ["f32[2,3]", "bf16[2,3]", "f32[]", "s8[0,4]", "pred[5]"])
def test_arrays_of_the_slots_look_right(kind: str):
    executable = made(kind)
    port = executable.signature.inputs[0]
    x = np.ones(port.shape, dtype_of(port.dtype))
    assert executable.emulator.looks_right(executable.program, (x, x))
    assert np.array_equal(executable.execute(x, x)[0], x + x)


@needs_core
def test_other_arrays_do_not():
    executable = made("f32[2,3]")
    right = np.arange(6, dtype=np.float32).reshape(2, 3)
    others = (
        right.T.copy().T,
        right[:1],
        right.reshape(3, 2),
        right.reshape(6),
        right.astype(np.int32),
        right.astype(">f4"),
        right.view(Apart),
        right.tolist(),
        None,
    )
    for other in others:
        assert not executable.emulator.looks_right(executable.program, (right, other))
    assert not executable.emulator.looks_right(executable.program, (right,))
    for other in (others[0], others[6], others[7]):
        given = np.asarray(other, np.float32) if isinstance(other, list) else other
        assert np.array_equal(executable.execute(right, given)[0], right + right)
    for other in (others[1], others[2], others[3], others[4]):
        with pytest.raises(InputError):
            executable.execute(right, other)


@needs_core
def test_a_copy_of_a_program_has_its_own_addresses():
    executable = made("f32[2,3]")
    x = np.ones((2, 3), np.float32)
    executable.execute(x, x)
    copy = pickle.loads(pickle.dumps(executable.program))
    assert "looks" in vars(executable.program) and "looks" not in vars(copy)
    assert np.array_equal(executable.emulator.run(copy, (x, x))[0], x + x)


@needs_core
def test_where_arrays_begin_otherwise_all_goes_by_their_buffers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays, "is_known", lambda: False)
    core = loader.load.__wrapped__()
    assert not isinstance(core, str)
    executable = made("f32[2,3]")
    x = np.ones((2, 3), np.float32)
    monkeypatch.setattr(native, "load", lambda: core)
    assert not executable.emulator.looks_right(executable.program, (x, x))
    assert np.array_equal(executable.execute(x, x)[0], x + x)
