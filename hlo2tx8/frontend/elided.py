"""Constants whose elements a printer left out, `f32[512,512] constant({...})`, as XLA's own dumps have them.

XLA's parser fills them with whatever its counter holds; here they are the same in every run: random numbers drawn from the
constant's place in the module, or zeros.
"""

import re
import warnings

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.rewriter import Rewriter

from hlo2tx8.dialects import stablehlo
from hlo2tx8.dialects.hlo import LiteralAttr
from hlo2tx8.dialects.layout import as_tensor
from hlo2tx8.hlo.types import is_complex, is_float, numpy_dtype
from hlo2tx8.options import Filling

TARGET = "hlo2tx8.elided_constant"
_ELIDED = re.compile(r"\bconstant\(\s*\{\s*\.\.\.\s*\}\s*\)")


def mark_elided(text: str) -> str:
    """HLO text in which such constants are calls that fill_elided finds again; lines stay as they are."""
    return _ELIDED.sub(f'custom-call(), custom_call_target="{TARGET}"', text)


def fill_elided(module: ModuleOp, filling: Filling, name: str) -> None:
    """Give the marked constants of a module their elements, in place, with one warning that says how many there are."""
    marked = [op for op in module.walk() if op.properties.get("call_target_name") == StringAttr(TARGET)]
    for number, op in enumerate(marked):
        type_ = as_tensor(op.results[0].type)
        dtype, shape = numpy_dtype(type_.element_type), type_.get_shape()
        if filling == "zeros":
            elements = np.zeros(shape, dtype)
        elif is_float(dtype) or is_complex(dtype):
            elements = np.random.default_rng(number).random(shape).astype(dtype)
        else:
            elements = np.random.default_rng(number).integers(0, 2, shape).astype(dtype)
        constant = stablehlo.OPS["constant"]([], [op.results[0].type], {"value": LiteralAttr.from_array(elements)})
        constant.attributes |= {k: v for k, v in op.attributes.items() if k == "loc"}
        Rewriter.replace_op(op, constant)
    if marked:
        what = {"zeros": "zeros", "random": "random numbers, the same in every run"}[filling]
        warnings.warn(f"{name}: elements left out of the text ({len(marked)} x constant({{...}})) are {what}", stacklevel=2)
