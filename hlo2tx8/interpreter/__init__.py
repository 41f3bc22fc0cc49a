"""Interpreter of LOOPS, FLAT and VECTOR: runs a module on numpy arrays, all iterations of a loop at once.

    interpret(module, [x]) -> [y]

Loop variables are index arrays, tensor.extract is fancy indexing, so full-size samples take seconds.
"""

from hlo2tx8.interpreter.run import interpret

__all__ = ["interpret"]
