"""Modules by name, for `hlo2tx8 sweep`: models as `bert` and `bert/medium`, `bert/training`, and workloads of the roofline."""

import jax

from benchmarks.models.zoo import MODELS
from benchmarks.roofline import GROUPS


def names() -> list[str]:
    """All names."""
    models = [model.__name__ + kind for model in MODELS for kind in ("", "/medium", "/training", "/training/medium")]
    return [*models, *(workload.name for group in GROUPS for workload in group())]


def text_of(name: str) -> str:
    """The StableHLO of a name of `names`."""
    for workload in (workload for group in GROUPS for workload in group()):
        if workload.name == name:
            return workload.text()
    first, *kinds = name.split("/")
    model = next(model for model in MODELS if model.__name__ == first)("medium" in kinds)
    if "training" in kinds:
        function, arguments = model.training_step(), model.training_arguments()
    else:
        function, arguments = model.forward, (model.parameters, *model.inputs)
    return jax.jit(function, keep_unused=True).lower(*arguments).as_text()
