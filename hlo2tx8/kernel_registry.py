"""Kernels that people write for coarse ops, and who has which: see docs/kernels.md.

    @hlo2tx8.register_kernel("softmax", operands=("float32[*,1024]",))
    def softmax(op: CoarseOp, chip: Chip) -> Program | str | None: ...

The registry belongs to the process, as that of jax's lowerings: `jax.jit` has no other way to know of a kernel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, TypeAlias

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.program import Program
from hlo2tx8.errors import CompileError, Hlo2tx8Error, InputError

ENTRY_POINTS = "hlo2tx8.kernels"
"""The group of entry points of packages that register kernels: functions without arguments, called before the first compilation."""
BYTEIR = "byteir."


@dataclass(frozen=True)
class CoarseTensor:
    """The element type, by numpy's name, and shape of what a coarse op takes or gives; rows lie one after the other in DDR."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def fits(self, pattern: str) -> bool:
        """Is it what `float32[*,1024]` says? A `*` stands for any size; `float32` alone for any shape."""
        dtype, bracket, sizes = pattern.rstrip("]").partition("[")
        wanted = [size.strip() for size in sizes.split(",")] if sizes else []
        if dtype not in ("*", self.dtype) or not bracket:
            return dtype in ("*", self.dtype)
        return len(wanted) == len(self.shape) and all(w in ("*", str(n)) for w, n in zip(wanted, self.shape, strict=True))


@dataclass(frozen=True)
class CoarseOp:
    """A coarse op of a program: its name, attributes, and what it takes and gives."""

    name: str
    attributes: Mapping[str, Any]
    operands: tuple[CoarseTensor, ...]
    results: tuple[CoarseTensor, ...]


KernelMaker: TypeAlias = Callable[[CoarseOp, Chip], "Program | str | None"]
"""Gives an Assembler's program, or a module at level LOOPS as text; None where it has no kernel for the op."""


@dataclass(frozen=True)
class RegisteredKernel:
    """A way to compute the coarse ops of a name whose operands fit the patterns, all where there are none."""

    name: str
    make: KernelMaker
    version: str = "1"
    operands: tuple[str, ...] | None = None
    reference: Callable[..., Any] | None = None

    def takes(self, op: CoarseOp) -> bool:
        """Is it for this op, as far as name and types say?"""
        if op.name != self.name or self.operands is None:
            return op.name == self.name
        return len(op.operands) == len(self.operands) and all(t.fits(p) for t, p in zip(op.operands, self.operands, strict=True))

    @property
    def title(self) -> str:
        """What reports call it: the function's name and its version."""
        return f"{getattr(self.make, '__name__', self.name)} {self.version}"


@dataclass
class KernelRegistry:
    """Kernels in the order in which they are asked: the last that was registered is the first."""

    kernels: list[RegisteredKernel] = field(default_factory=list[RegisteredKernel])
    has_entry_points: bool = False

    def register(self, kernel: RegisteredKernel) -> None:
        """Add a kernel; InputError if one of that name, version and function is there."""
        if kernel.title in (known.title for known in self.kernels if known.name == kernel.name):
            raise InputError("E1004", f"a kernel {kernel.title} for {kernel.name} is registered", hint="give it another version")
        self.kernels.insert(0, kernel)

    def remove(self, name: str) -> None:
        """Forget the kernels for coarse ops of that name."""
        self.kernels[:] = [kernel for kernel in self.kernels if kernel.name != canonical(name)]

    def known(self) -> Sequence[RegisteredKernel]:
        """All kernels, those of installed packages too; InputError if one of these cannot be asked for them."""
        if self.has_entry_points:
            return self.kernels
        before = list(self.kernels)
        for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
            try:
                entry.load()()
            except Exception as error:  # of a package that nobody here knows
                self.kernels[:] = before
                what = f"{type(error).__name__}: {error}"
                raise InputError("E1004", f"the kernels of the entry point {entry.value} cannot be had: {what}") from error
        self.has_entry_points = True
        return self.kernels

    def names(self) -> dict[str, None]:
        """Names of the coarse ops that have a kernel."""
        return dict.fromkeys(kernel.name for kernel in self.known())

    def reference(self, name: str) -> Callable[..., Any] | None:
        """The jax function that says what a custom call of that name is."""
        return next((k.reference for k in self.known() if k.name == canonical(name) and k.reference is not None), None)

    def make(self, op: CoarseOp, chip: Chip) -> "tuple[RegisteredKernel, Program | str] | None":
        """The first kernel that is there for an op, and what it is; None if there is none. CompileError E1016 for what the function
        of one raises."""
        for kernel in self.known():
            try:
                made = kernel.make(op, chip) if kernel.takes(op) else None
            except Hlo2tx8Error:
                raise
            except Exception as error:  # of a function that nobody here knows
                what = f"{type(error).__name__}: {error}"
                raise CompileError("E1016", f"kernel {kernel.title} for {op.name} raised {what}") from error
            if made is not None:
                return kernel, made
        return None


def canonical(name: str) -> str:
    """The name of a coarse op: `byteir.softmax` is softmax, other names stay."""
    return name.removeprefix(BYTEIR)


REGISTRY = KernelRegistry()


def register_kernel(
    name: str,
    *,
    operands: Sequence[str] | None = None,
    version: str = "1",
    reference: Callable[..., Any] | None = None,
) -> Callable[[KernelMaker], KernelMaker]:
    """A decorator of functions that make kernels for the coarse op `name`.

    operands: types it is for, such as `float32[*,1024]`. version: told in reports and in the program's IR. reference: a jax
    function of the operands, and of the attributes by name, for a custom call of that name, which has no decomposition.
    """

    def register(make: KernelMaker) -> KernelMaker:
        REGISTRY.register(
            RegisteredKernel(canonical(name), make, version, None if operands is None else tuple(operands), reference)
        )
        return make

    return register
