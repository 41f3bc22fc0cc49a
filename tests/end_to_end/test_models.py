"""Small models lowered by jax: forward and training step on the emulator agree with XLA:CPU. benchmarks.models has all."""

import pytest

from benchmarks.models.__main__ import measure

CASES = (("mlp", "training"), ("llama_decode", "forward"), ("lstm", "training"), ("vit", "forward"))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_model_agrees_with_xla(name: str, kind: str) -> None:
    found = measure(name, "small", kind, runs=1)
    assert found["result"].startswith("within"), found["result"]
    assert found["kernels"] > 0 and found["cycles"] > 0


def test_repeated_layers_are_compiled_once() -> None:
    found = measure("gpt2", "small", "forward", runs=1)
    assert found["result"].startswith("within"), found["result"]
    assert found["kernels"] < found["launches"] / 3, "12 equal blocks"
