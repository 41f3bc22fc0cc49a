"""What arrays of numpy look like where they lie, so that the core sees at once which ones are as a program's slots want them.

Numpy's headers have had an array begin in one way since its first version, and every extension that uses numpy reads it so. Whether
this Python and this numpy do is still asked, of some arrays, before the core does too.
"""

import ctypes

import numpy as np

C_CONTIGUOUS = 1


class Object(ctypes.Structure):
    """struct array of arguments.c."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("num_dims", ctypes.c_int),
        ("dims", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.c_void_p),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def is_known() -> bool:
    """Do arrays begin as in `Object`?"""
    square = np.zeros((2, 3, 5), np.float32)
    return all(map(_is_as_read, (square, square[:, :, 1:], square.astype(np.int8), square[1], np.zeros((0, 4), bool))))


def _is_as_read(given: np.ndarray) -> bool:
    if np.ndarray.__basicsize__ < ctypes.sizeof(Object):
        return False
    read = Object.from_address(id(given))
    if (read.type, read.data, read.num_dims, read.dtype) != (id(np.ndarray), given.ctypes.data, given.ndim, id(given.dtype)):
        return False
    dims = tuple(read.dims[dim] for dim in range(given.ndim))
    return dims == given.shape and bool(read.flags & C_CONTIGUOUS) == given.flags.c_contiguous
