"""Straight-line programs over scalars: the one form in which a transcendental is written down.

A `FunctionProgram` is a tuple of `FunctionStep`s in single assignment form. Every floating step is one correctly rounded IEEE
operation in f32 or f64 (no fused multiply-add), every integer step wraps in 32 or 64 bits, so numpy and C give the same bits on
every host.

    y = 1 / sqrt(x):   %0 = input x : f64      %1 = sqrt %0 : f64      %2 = const 1.0 : f64      %3 = div %2, %1 : f64
"""

from dataclasses import dataclass, replace

FLOATS = ("f32", "f64")
COMPARES = ("lt", "le", "eq")


@dataclass(frozen=True)
class FunctionStep:
    """`op` applied to earlier steps `args`. `value`: the constant (float or int), the input's number, or the table's name."""

    op: str
    type: str
    args: tuple[int, ...] = ()
    value: float | int | str = 0


@dataclass(frozen=True)
class FunctionProgram:
    """`name`: C identifier; `inputs`: their types; `result`: number of the step that is the answer."""

    name: str
    inputs: tuple[str, ...]
    steps: tuple[FunctionStep, ...]
    result: int

    @property
    def type(self) -> str:
        """The type of the result, as the steps name it: f32, f64, i32, i64 or bool."""
        return self.steps[self.result].type


@dataclass(frozen=True)
class Value:
    """A step of a program under construction; operators append steps. `>>` is arithmetic, `logical_shift` is not."""

    builder: "Builder"
    index: int
    type: str

    def _with(self, op: str, other: "Value | float", type_: str = "") -> "Value":
        right = self.builder.value(other, self.type)
        assert right.type == self.type, (op, self.type, right.type)
        return self.builder.emit(FunctionStep(op, type_ or self.type, (self.index, right.index)))

    def _alone(self, op: str, type_: str = "") -> "Value":
        return self.builder.emit(FunctionStep(op, type_ or self.type, (self.index,)))

    def __add__(self, other: "Value | float") -> "Value":
        return self._with("add", other)

    def __sub__(self, other: "Value | float") -> "Value":
        return self._with("sub", other)

    def __rsub__(self, other: float) -> "Value":
        return self.builder.value(other, self.type) - self

    def __mul__(self, other: "Value | float") -> "Value":
        return self._with("mul", other)

    def __truediv__(self, other: "Value | float") -> "Value":
        return self._with("div", other)

    def __rtruediv__(self, other: float) -> "Value":
        return self.builder.value(other, self.type) / self

    def __and__(self, other: "Value | int") -> "Value":
        return self._with("and", other)

    def __or__(self, other: "Value | int") -> "Value":
        return self._with("or", other)

    def __xor__(self, other: "Value | int") -> "Value":
        return self._with("xor", other)

    def __lshift__(self, other: "Value | int") -> "Value":
        return self._with("shl", other)

    def __rshift__(self, other: "Value | int") -> "Value":
        return self._with("shr", other)

    def __invert__(self) -> "Value":
        return self._alone("not")

    def __neg__(self) -> "Value":
        return self._alone("neg")

    def logical_shift(self, other: "Value | int") -> "Value":
        """This integer shifted right by `other` bits, zeros coming in."""
        return self._with("lshr", other)

    def abs(self) -> "Value":
        """The absolute value."""
        return self._alone("abs")

    def sqrt(self) -> "Value":
        """The square root, rounded once."""
        return self._alone("sqrt")

    def less(self, other: "Value | float") -> "Value":
        """A bool: is this less than `other`? False if one is NaN."""
        return self._with("lt", other, "bool")

    def at_most(self, other: "Value | float") -> "Value":
        """A bool: is this less than or equal to `other`? False if one is NaN."""
        return self._with("le", other, "bool")

    def equal(self, other: "Value | float") -> "Value":
        """A bool: is this equal to `other`? False if one is NaN."""
        return self._with("eq", other, "bool")

    def is_nan(self) -> "Value":
        """A bool: is this NaN?"""
        return ~self.equal(self)

    def bits(self) -> "Value":
        """The same bits as a signed integer of the same width."""
        return self._alone("bits", "i32" if self.type == "f32" else "i64")

    def as_float(self) -> "Value":
        """The same bits as a float of the same width."""
        return self._alone("bits", "f32" if self.type == "i32" else "f64")

    def to(self, type_: str) -> "Value":
        """The value converted: rounded to nearest even into a float, truncated from a float that fits into an integer."""
        return self._alone("convert", type_)

    def scale(self, n: "Value") -> "Value":
        """Times 2^n, n an integer of the same width: times 2^(n >> 1) and then the rest, so that only the last product rounds."""
        return self.builder.emit(FunctionStep("scale", self.type, (self.index, n.index)))

    def select(self, then: "Value | float", otherwise: "Value | float") -> "Value":
        """`then` where this condition holds, `otherwise` elsewhere (at least one of them a Value)."""
        of = then if isinstance(then, Value) else otherwise
        assert self.type == "bool"
        assert isinstance(of, Value)
        left, right = self.builder.value(then, of.type), self.builder.value(otherwise, of.type)
        return self.builder.emit(FunctionStep("select", of.type, (self.index, left.index, right.index)))


class Builder:
    """Collects the steps of one program; equal steps are shared."""

    def __init__(self, *inputs: str) -> None:
        self.types = inputs
        self.steps: list[FunctionStep] = []
        self._known: dict[tuple[FunctionStep, str], int] = {}
        self.inputs = tuple(self.emit(FunctionStep("input", t, (), i)) for i, t in enumerate(inputs))

    def emit(self, step: FunctionStep) -> Value:
        """Adds a step to the program and returns its result."""
        key = (step, repr(step.value))  # repr tells -0.0 from 0.0
        if key not in self._known:
            self._known[key] = len(self.steps)
            self.steps.append(step)
        return Value(self, self._known[key], step.type)

    def value(self, value: "Value | float", type_: str) -> Value:
        """`value` itself, or a constant of `type_`."""
        if isinstance(value, Value):
            return value
        return self.emit(FunctionStep("const", type_, (), float(value) if type_ in FLOATS else int(value)))

    def lookup(self, table: str, index: Value, type_: str = "f64") -> Value:
        """Element `index` (i64, in range) of the constant table `table`."""
        return self.emit(FunctionStep("lookup", type_, (index.index,), table))

    def finish(self, name: str, result: Value) -> FunctionProgram:
        """The program of `result`, without the steps it does not need."""
        used = {result.index}
        for i in range(result.index, -1, -1):
            if i in used:
                used.update(self.steps[i].args)
        number = {old: new for new, old in enumerate(sorted(used))}
        steps = [self.steps[old] for old in sorted(used)]
        renumbered = tuple(replace(s, args=tuple(number[a] for a in s.args)) for s in steps)
        return FunctionProgram(name, self.types, renumbered, number[result.index])
