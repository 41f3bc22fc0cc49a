"""What `hlo2tx8.compile` makes of TensorFlow's functions and models: something that is called as they are, with tensors."""

# pyright: basic

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo2tx8.frontend import shim
from hlo2tx8.frontend.tensorflow.function import TensorFlowFunction
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.runtime.executable import Executable


@dataclass(frozen=True)
class TensorFlowExecutable:
    """A function of TensorFlow, compiled. It is called as the function is and returns what that returns; variables are the
    function's own: read in each call, and written if the function writes them.

    `executable` is the program with its report, text and so on; its inputs are the tensors of the call, then the variables.
    """

    function: TensorFlowFunction
    executable: Executable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. InputError if it is not called as it was compiled for, DeviceError if the emulator faults."""
        function = self.function
        arrays = self.executable.execute(*function.inputs(args, kwargs), *map(np.asarray, function.captured))
        for target, array in zip(function.targets, arrays[function.num_results :], strict=True):
            function.captured[target].assign(array)
        return function.results(arrays[: function.num_results])

    def __repr__(self) -> str:
        return f"<TensorFlowExecutable of {self.executable!r}>"


def compile_tensorflow(
    source: Any, options: Options, args: Sequence[Any] | Mapping[str, Any] | None = None
) -> TensorFlowExecutable:
    """Compile a tf.function, a Keras model or layer, a SavedModel folder or a `.keras` file, for the inputs `args`: a sequence, or
    a mapping for inputs by name.
    """
    function = TensorFlowFunction.of(source, args)
    return TensorFlowExecutable(function, compile_source(shim.bytecode(function.module), options))
