"""The child of keras_applications.py: one network compiled, run on the emulator and compared with TensorFlow."""

# pyright: basic

import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from pool import Outcome, cause_of, serve

import hlo2tx8

BOUND = 1e-4


def outcome_of(request: dict[str, Any]) -> Outcome:
    """What became of a network."""
    keras.utils.set_random_seed(0)
    kind, _, name = request["case"].partition("/")
    shape = (request["size"], request["size"], 3)
    try:
        model = getattr(keras.applications, name)(weights=None, input_shape=shape, classifier_activation=None, classes=1000)
        image = np.random.default_rng(0).standard_normal((1, *shape), np.float32)
        wanted = np.asarray(model(image, training=False))
        if kind == "model":
            found = hlo2tx8.compile(model, args=(image,))(image)
        else:
            with tempfile.TemporaryDirectory() as folder:
                model.export(folder, verbose=False)
                (found,) = hlo2tx8.compile(folder, args=(image,))(image).values()
    except Exception as error:
        return {"outcome": "failed", "cause": cause_of(error)}
    difference = float(np.abs(np.asarray(found) - wanted).max() / np.abs(wanted).max())
    if not difference <= BOUND:
        return {"outcome": "failed", "cause": f"wrong: {difference:.1e} of the largest logit"}
    return {"outcome": "passed", "cause": "", "difference": difference}


tf.config.set_visible_devices([], "GPU")
serve(outcome_of)
