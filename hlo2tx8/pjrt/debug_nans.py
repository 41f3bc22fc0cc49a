"""jax_debug_nans: jax says which of its operations gave a NaN; this says which instruction made the first one, and of what."""

import warnings
from collections.abc import Sequence

import numpy as np

from hlo2tx8.errors import DeviceError
from hlo2tx8.hlo.types import is_complex, is_float
from hlo2tx8.pjrt.launch_queue import Array
from hlo2tx8.runtime.executable import Executable


def warn_of_nans(executable: object, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Warns, if there is a NaN among the outputs, where the program makes the first NaN or infinity of numbers: tile, instruction,
    source line and the operands' ranges. Nothing of a program in segments, of several chips or with host functions.
    """
    if not isinstance(executable, Executable) or not any(_has_nan(output) for output in outputs):
        return
    try:
        executable.check_values(*inputs)
    except DeviceError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=1)


def _has_nan(array: Array) -> bool:
    is_number = is_float(array.dtype) or is_complex(array.dtype)
    return is_number and bool(np.isnan(array.astype(np.complex128)).any())
