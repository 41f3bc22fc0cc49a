"""Families of CT instructions: one function of two elements in several operand forms, each an instruction class of its own.

    CtAddVV, CtAddVS, CtAddVuV, CtAddVuVLoop = ARITHMETIC.declare(Function("add", 16, "{a} + {b}", np.add, number("x + y"), SUM))

declares four classes. Each form says how its mnemonics are spelt, where its opcode lies and what its operands are called.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np

from hlo2tx8.device.isa.base import Instruction, instruction
from hlo2tx8.device.isa.exactness import Exactness
from hlo2tx8.device.isa.expressions import Expression

Compute = Callable[..., np.ndarray]
VV = TypeVar("VV", bound=Instruction)
VS = TypeVar("VS", bound=Instruction)
VuV = TypeVar("VuV", bound=Instruction)
Loop = TypeVar("Loop", bound=Instruction)


@dataclass(frozen=True)
class Function:
    """A function of two elements: `formula` in terms of {a} and {b}, the numpy form and the C form of the same.

    `opcode` is that of the form VV.
    """

    name: str
    opcode: int
    formula: str
    compute: Compute
    expression: Expression
    exact: Exactness
    has_poles: bool = False


@dataclass(frozen=True)
class Family:
    """Instructions of one group of mnemonics. `sentence` is their docstring in terms of {}, the formula; `module` declares them."""

    module: str
    prefix: str
    group: str
    sentence: str

    def derive(self, form: type[VV], function: Function) -> type[VV]:
        """The class of a function in an operand form."""
        facts: dict[str, Any] = {
            "__module__": self.module,
            "__doc__": self.sentence.format(function.formula.format(a=form.FIRST, b=form.SECOND)),
            "MNEMONIC": f"CGRATensor_{self.group}_{form.SPELLING.format(function.name)}",
            "OPCODE": function.opcode + form.OFFSET,
            "COMPUTE": function.compute,
            "EXPRESSION": function.expression,
            "EXACT": function.exact,
            "HAS_POLES": function.has_poles,
        }
        name = f"{self.prefix}{function.name.capitalize()}{form.SUFFIX}"
        return instruction(cast(type[VV], type(name, (form,), facts)))


@dataclass(frozen=True)
class FourForms(Family, Generic[VV, VS, VuV, Loop]):
    """Functions in the forms VV, VS, VuV and VuV_loop."""

    forms: tuple[type[VV], type[VS], type[VuV], type[Loop]]

    def declare(self, function: Function) -> tuple[type[VV], type[VS], type[VuV], type[Loop]]:
        """The four instructions of a function."""
        vv, vs, vuv, loop = self.forms
        return self.derive(vv, function), self.derive(vs, function), self.derive(vuv, function), self.derive(loop, function)


@dataclass(frozen=True)
class ThreeForms(Family, Generic[VV, VuV, Loop]):
    """Functions in the forms VV, VuV and VuV_loop."""

    forms: tuple[type[VV], type[VuV], type[Loop]]

    def declare(self, function: Function) -> tuple[type[VV], type[VuV], type[Loop]]:
        """The three instructions of a function."""
        vv, vuv, loop = self.forms
        return self.derive(vv, function), self.derive(vuv, function), self.derive(loop, function)
