"""fft over the last dimensions, at full precision."""

import numpy as np

from hlo2tx8.hlo.rounding import widen_to_double
from hlo2tx8.hlo.spec import Array, Attributes, Kind, OpSpec, TensorLike


def fft(attributes: Attributes, results: tuple[TensorLike, ...], x: Array) -> Array:
    """The transform of type FFT, IFFT, RFFT (real operand) or IRFFT (real result) of the last dimensions."""
    kind, lengths = str(attributes["fft_type"]), tuple(int(n) for n in attributes["fft_length"])
    if 0 in (*x.shape, *results[0].shape):
        return np.zeros(results[0].shape, results[0].dtype)
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    functions = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    return functions[kind](widen_to_double(x), lengths, axes).astype(results[0].dtype)


def _leading_dimensions(attributes: Attributes, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - len(attributes["fft_length"])))


SPECS = (OpSpec("stablehlo.fft", Kind.HERO, fft, ulp=8, complex_ulp=8, batch_dimensions=_leading_dimensions),)
