"""Executables are called as the functions that they were compiled from: pytrees, unused arguments, numbers, arrays of others."""

import sys
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export

import hlo2tx8
from hlo2tx8.errors import ContainerError, InputError

X = np.arange(3, dtype=np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any


def scale(p: dict[str, Any], x: Any, unused: Any, *, by: Any = 1) -> dict[str, Any]:
    return {"y": p["w"] * x + by, "same": (x, None), "list": [p["w"]]}


ARGS = {"w": X, "unused": 2.0}, 1.5, np.ones(4, np.float32)


@pytest.fixture(scope="module")
def lowered() -> Any:
    return jax.jit(scale).lower(*ARGS, by=3)


def equal(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(one, np.ndarray) and one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_lowered_takes_and_gives_what_jax_does(lowered: Any) -> None:
    executable = hlo2tx8.compile(lowered)
    equal(executable(*ARGS, by=3), lowered.compile()(*ARGS, by=3))
    equal(executable.run(*ARGS, by=3), lowered.compile()(*ARGS, by=3))
    assert len(executable.execute(X, np.float32(1.5), np.int32(3))) == 3


def test_a_lowered_stays_as_it_is() -> None:
    lowered = jax.jit(lambda x: jnp.sin(x) + jnp.sin(x)).lower(X)
    text = lowered.as_text()
    hlo2tx8.compile(lowered)
    assert lowered.as_text() == text


def test_an_exported_function_is_called_by_its_tree() -> None:
    exported = export.export(jax.jit(scale))(*ARGS, by=3)
    equal(hlo2tx8.compile(exported)(*ARGS, by=3), jax.jit(scale)(*ARGS, by=3))


def test_classes_of_the_users_own_are_kept() -> None:
    executable = hlo2tx8.compile(lambda p: Pair(p.second, p.first + 1), args=[Pair(1.0, 2)])
    assert executable(Pair(3.0, 4)) == Pair(4, 4.0)


def test_static_arguments_are_compiled_in() -> None:
    executable = hlo2tx8.compile(jax.jit(lambda x, n: x * n, static_argnums=1), args=[X, 3])
    np.testing.assert_array_equal(executable(X), X * 3)


def test_trees_are_stored(lowered: Any, tmp_path: Any) -> None:
    executable = hlo2tx8.compile(lowered)
    executable.save(tmp_path / "a.tx8x")
    equal(hlo2tx8.load(tmp_path / "a.tx8x")(*ARGS, by=3), executable(*ARGS, by=3))


def test_trees_of_classes_are_not_stored(tmp_path: Any) -> None:
    executable = hlo2tx8.compile(lambda p: p.first + p.second, args=[Pair(X, X)])
    executable.save(tmp_path / "a.tx8x")
    np.testing.assert_array_equal(hlo2tx8.load(tmp_path / "a.tx8x")(X, X), 2 * X)


@pytest.mark.parametrize(
    ("part", "value"),
    [("kept", [0, 9, 3]), ("kept", [0]), ("results", "leaf"), ("arguments", ["tuple", 3]), ("arguments", {"a": "set"})],
)
def test_trees_that_are_none_of_the_program(part: str, value: object, lowered: Any, tmp_path: Any) -> None:
    from hlo2tx8.frontend.calling import Calling

    calling = hlo2tx8.compile(lowered).calling
    assert calling is not None and calling.plain is not None
    with pytest.raises((ValueError, ContainerError)):
        Calling.of_plain(calling.plain | {part: value}, 3, 3)


@pytest.mark.parametrize(
    ("args", "by", "message"),
    [
        (({"w": X}, 1.5, X), 3, r"takes \(\{'unused': \*, 'w': \*\}, \*, \*, by=\*\), got \(\{'w': \*\}, \*, \*, by=\*\)"),
        ((*ARGS[:1], 1.5j, ARGS[2]), 3, r"input 1 should be f32\[\], got c128\[\]"),
        (ARGS, 2**40, r"input 2 should be s32\[\], got s64\[\]"),
        (ARGS, 2.5, r"input 2 should be s32\[\], got f64\[\]"),
        (({"w": X[:2], "unused": 0}, 1.5, X), 3, r"input 0 should be f32\[3\], got f32\[2\]"),
    ],
)
def test_a_call_that_does_not_fit(args: Any, by: Any, message: str, lowered: Any) -> None:
    with pytest.raises(InputError, match=message):
        hlo2tx8.compile(lowered)(*args, by=by)


def test_numbers_and_arrays_of_others_are_taken_as_they_are() -> None:
    executable = hlo2tx8.compile(lambda x, n, b: (x * 2, n + 1, ~b), args=[jnp.bfloat16(0), np.int8(0), True])
    for args in ((1.5, 3, True), (1, True, np.True_), (jnp.bfloat16(1.5), np.int8(3), jnp.array(False))):
        assert executable(*args) == (2 * float(args[0]), args[1] + 1, not args[2])
    with pytest.raises(InputError, match=r"input 1 should be s8\[\], got s64\[\]"):
        executable(1.5, 128, True)


def test_arrays_of_64_bits_are_narrowed_for_functions_only() -> None:
    function = hlo2tx8.compile(lambda x: x + 1, args=[X.astype(np.float64)])
    np.testing.assert_array_equal(function(X.astype(np.float64)), X + 1)
    module = hlo2tx8.compile(jax.jit(lambda x: x + 1).lower(X).as_text())
    with pytest.raises(InputError, match=r"input 0 should be f32\[3\], got f64\[3\]"):
        module(X.astype(np.float64))
    with pytest.raises(InputError, match="a module takes no argument by name: x"):
        module(x=X)


class Tensor:
    """What this package asks of a tensor of torch, on numpy; numpy itself is refused, as torch does for gradients and bfloat16."""

    def __init__(self, array: Any, dtype: str, has_gradient: bool = False) -> None:
        self.array, self.dtype, self.has_gradient = array, f"torch.{dtype}", has_gradient

    def detach(self) -> "Tensor":
        return Tensor(self.array, self.dtype[6:])

    def contiguous(self) -> "Tensor":
        return Tensor(np.ascontiguousarray(self.array), self.dtype[6:], self.has_gradient)

    def element_size(self) -> int:
        return self.array.itemsize

    def view(self, dtype: Any) -> "Tensor":
        return Tensor(self.array.view(dtype), np.dtype(dtype).name)

    def numpy(self) -> Any:
        assert not self.has_gradient and self.dtype != "torch.bfloat16"
        return self.array

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()


def test_tensors_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.uint8, torch.int16 = Tensor, np.uint8, np.int16
    monkeypatch.setitem(sys.modules, "torch", torch)
    executable = hlo2tx8.compile(lambda x, y: x + y.astype(x.dtype), args=[X, X.astype(ml_dtypes.bfloat16)])
    y = Tensor(X.astype(ml_dtypes.bfloat16), "bfloat16")
    np.testing.assert_array_equal(executable(Tensor(X, "float32", has_gradient=True), y), 2 * X)


def test_an_executable_prints_as_a_line(lowered: Any) -> None:
    assert repr(hlo2tx8.compile(lowered)) == (
        "<Executable jit_scale: (f32[3], f32[], s32[]) -> (f32[3], f32[], f32[3]), "
        f"{len(hlo2tx8.compile(lowered).program.code)} instructions for tx8>"
    )
