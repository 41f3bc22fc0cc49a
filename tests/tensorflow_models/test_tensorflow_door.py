"""TensorFlow through every door: functions, Keras models, SavedModel folders, `.keras` files; what is refused, and how."""

# pyright: basic

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import hlo2tx8
from hlo2tx8.errors import InputError, UnsupportedError
from hlo2tx8.tools.main import main

tf = pytest.importorskip("tensorflow", reason="the extra hlo2tx8[tensorflow] is not installed")
keras = pytest.importorskip("keras", reason="it comes with tensorflow")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    keras.utils.set_random_seed(0)


def compared(function: Any, *args: Any, bound: float = 1e-5, **kwargs: Any) -> None:
    """The function's results are TensorFlow's, in the same structure."""
    executable = hlo2tx8.compile(lambda_of(function, kwargs), args=args)
    found, wanted = executable(*args), function(*args, **kwargs)
    tf.nest.assert_same_structure(found, wanted)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one, np.complex128), np.asarray(other, np.complex128), rtol=bound, atol=bound)


def lambda_of(function: Any, kwargs: dict[str, Any]) -> Any:
    """The function as a tf.function, with arguments that are fixed."""
    return tf.function(lambda *args: function(*args, **kwargs), autograph=False)


def test_results_have_the_structure_of_the_function():
    @tf.function
    def gives(x: Any, more: dict[str, Any], *, flag: bool = True) -> Any:
        return {"y": tf.matmul(x, more["w"]), "nothing": None, "rest": [flag, (x > 0, more["w"])]}

    x, w = tf.random.normal((2, 4)), tf.random.normal((4, 3))
    executable = hlo2tx8.compile(gives, args=(x, {"w": w}))
    found = executable(x, {"w": w})
    assert found["nothing"] is None
    assert bool(found["rest"][0]) is True
    np.testing.assert_allclose(found["y"], x @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["rest"][1][0], x > 0)
    np.testing.assert_array_equal(found["rest"][1][1], w)


def test_variables_are_read_and_written():
    weight, count = tf.Variable([[1.0, 2.0]]), tf.Variable(0, dtype=tf.int64)

    @tf.function
    def counts(x: Any) -> Any:
        count.assign_add(1)
        return x * weight

    executable = hlo2tx8.compile(counts, args=(tf.ones((3, 2)),))
    assert count.numpy() == 0
    executable(tf.ones((3, 2)))
    weight.assign([[5.0, 6.0]])
    np.testing.assert_array_equal(executable(np.ones((3, 2), np.float32)), [[5, 6]] * 3)
    assert count.numpy() == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int32", "uint64", "bool", "complex64"])
def test_dtypes(dtype: str):
    values = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    executable = hlo2tx8.compile(tf.function(lambda x: tf.transpose(tf.identity(x))), args=(values,))
    found = executable(values)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(np.asarray(found), values.T)


def test_products_of_f32_are_f32():
    x, w = tf.random.normal((32, 64)), tf.random.normal((64, 32))
    compared(tf.function(lambda x, w: tf.matmul(x, w)), x, w)


@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1, 2, 1, 3, 2)])
def test_ranks_and_empty_tensors(shape: tuple[int, ...]):
    compared(tf.function(lambda x: (tf.reduce_sum(x), tf.exp(x))), tf.random.normal(shape))


def test_control_flow():
    @tf.function
    def collatz(n: Any) -> Any:
        steps = tf.constant(0)
        while n > 1:
            n = tf.where(n % 2 == 0, n // 2, 3 * n + 1)
            steps += 1
        return steps

    compared(collatz, tf.constant(27))


def test_a_shape_that_an_input_says_is_fixed():
    executable = hlo2tx8.compile(tf.function(tf.reshape), args=(np.ones((4, 2), np.float32), np.array([2, 4])))
    assert executable(np.ones((4, 2), np.float32), np.array([2, 4])).shape == (2, 4)
    with pytest.raises(InputError, match=r"input 1 is .* and was"):
        executable(np.ones((4, 2), np.float32), np.array([1, 8]))


def test_a_choice_between_inputs_is_no_guess():
    shapes = tf.constant([2, 2]), tf.constant([1, 1])
    with pytest.raises(InputError, match="one of several of the same type"):
        hlo2tx8.compile(tf.function(lambda x, s, t: tf.reshape(x, s) + tf.cast(t[0], tf.float32)), args=(tf.ones(4), *shapes))


def network() -> Any:
    """A small convolutional network."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(5),
        ]
    )


def test_models_folders_and_files_are_one_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, x = network(), np.random.default_rng(0).standard_normal((2, 8, 8, 3), np.float32)
    wanted = np.asarray(model(x))
    model.export(tmp_path / "saved", verbose=False)
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(hlo2tx8.compile(model, args=(x,))(x), wanted, atol=1e-5)
    np.testing.assert_allclose(hlo2tx8.compile(tmp_path / "model.keras", args=(x,))(x), wanted, atol=1e-5)
    np.testing.assert_allclose(hlo2tx8.compile(str(tmp_path / "saved"), args=(x,))(x)["output_0"], wanted, atol=1e-5)
    save_file({"input0": x}, tmp_path / "x.safetensors")
    assert main(["run", f"--input_literals_file={tmp_path / 'x.safetensors'}", str(tmp_path / "saved")]) == 0
    assert "close enough" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"the input \w+ has the shape \(None, 8, 8, 3\)"):
        hlo2tx8.compile(tmp_path / "saved")


def test_training_follows_eager():
    """Five steps of Adam: forward, backward and update on the device, losses and weights as TensorFlow's."""
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    x, y = np.random.default_rng(1).standard_normal((4, 8, 8, 3), np.float32), np.array([1, 3, 0, 4], np.int32)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True), from_logits=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    state = [*model.variables, *optimizer.variables]
    start = [value.numpy() for value in state]
    executable = hlo2tx8.compile(step, args=(x, y))
    losses = [float(executable(x, y)) for _ in range(5)]
    weights = [value.numpy() for value in model.trainable_variables]
    for value, old in zip(state, start, strict=True):
        value.assign(old)
    np.testing.assert_allclose(losses, [float(step(x, y)) for _ in range(5)], rtol=1e-3)
    for found, value in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(found, value.numpy(), atol=2e-3)


def test_what_is_refused():
    x = tf.ones((3,))
    with pytest.raises(UnsupportedError, match="EagerPyFunc: TensorFlow has no XLA kernel of it"):
        hlo2tx8.compile(tf.function(lambda x: tf.py_function(lambda a: a, [x], tf.float32)), args=(x,))
    with pytest.raises(InputError, match="sizes depend on values"):
        hlo2tx8.compile(tf.function(lambda x: tf.where(x > 0)), args=(x,))
    with pytest.raises(InputError, match="an input has no static shape"):
        hlo2tx8.compile(tf.function(tf.exp), args=(tf.TensorSpec((None,)),))
    with pytest.raises(InputError, match="needs example inputs"):
        hlo2tx8.compile(tf.function(tf.exp))
    with pytest.raises(InputError, match="modulo by zero"):
        hlo2tx8.compile(tf.function(lambda x: x * (1 // 0), autograph=False), args=(x,))
    with pytest.raises(InputError, match=r"takes \(\*\), got \(\*, \*\)"):
        hlo2tx8.compile(tf.function(tf.exp), args=(x,))(x, x)


@pytest.mark.parametrize("damage", ["empty", "text", "cut"])
def test_damaged_files_are_refused(tmp_path: Path, damage: str):
    network().export(tmp_path / "saved", verbose=False)
    file = tmp_path / "saved" / "saved_model.pb"
    data = file.read_bytes()
    file.write_bytes({"empty": b"", "text": b"hello", "cut": data[: len(data) // 2]}[damage])
    with pytest.raises(InputError, match=r"saved"):
        hlo2tx8.compile(tmp_path / "saved", args=(np.ones((1, 8, 8, 3), np.float32),))
    (tmp_path / "a.keras").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(InputError, match=r"a\.keras"):
        hlo2tx8.compile(tmp_path / "a.keras", args=(np.ones((1, 8, 8, 3), np.float32),))
