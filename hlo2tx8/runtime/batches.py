"""One module for requests of any batch: a program per bucket, to which requests are padded, or a program per batch."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo2tx8.errors import InputError
from hlo2tx8.runtime.arguments import Callee, arguments_of
from hlo2tx8.runtime.executable import Array, Executable

Shape = tuple[int, ...]


class Batches:
    """The programs of a module by batch; see Session.load_batches. Any thread may ask for one; each is compiled once.

    `compile_for(batch)` makes a program. Without buckets the last `most_programs` are kept.
    """

    def __init__(
        self,
        compile_for: Callable[[int], Executable],
        args_of: Callable[[int], Sequence[object]],
        buckets: Sequence[int],
        most_programs: int,
    ) -> None:
        if any(isinstance(b, bool) or not isinstance(b, int) or b < 1 for b in buckets) or most_programs < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("E1004", f"buckets {list(buckets)} of {most_programs} programs", hint="integers from 1 on")
        self.buckets, self.most_programs = tuple(sorted(set(buckets))), most_programs
        self._compile_for, self._args_of = compile_for, args_of
        self._programs = {batch: compile_for(batch) for batch in self.buckets}
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """That of the first program, compiled for a batch of 1 if there are no buckets."""
        return self._program(self.buckets[0] if self.buckets else 1).name

    def callee(self, name: str, batch: int | None, weights: Mapping[int, Array]) -> Callee:
        """What a request of that batch calls, None for the first bucket; InputError if the batch is more than any bucket."""
        batch = (self.buckets[0] if self.buckets else 1) if batch is None else batch
        if batch < 1 or (self.buckets and batch > self.buckets[-1]):
            most = f", at most {self.buckets[-1]}" if self.buckets else ""
            raise InputError("E1004", f"{name} has no program for a batch of {batch}", hint=f"1 or more{most}")
        bucket = next((b for b in self.buckets if b >= batch), batch)
        executable = self._program(bucket)
        arguments = arguments_of(executable, self._shapes(executable, bucket, batch) if batch != bucket else {})
        padded = f", {bucket - batch} rows of padding" if batch != bucket else ""
        what = f"bucket {bucket}{padded}" if self.buckets else f"exactly {batch}"
        return Callee(name, executable, arguments, weights, what)

    def _program(self, batch: int) -> Executable:
        with self._lock:
            found = self._programs.pop(batch, None) or self._compile_for(batch)
            self._programs[batch] = found  # the last one asked for stands last
            while not self.buckets and len(self._programs) > self.most_programs:
                del self._programs[next(iter(self._programs))]
            return found

    def _shapes(self, executable: Executable, bucket: int, batch: int) -> dict[int, Shape]:
        """The shapes that a request of fewer rows than the bucket has, by offset of the arguments that change."""
        found: dict[int, Shape] = {}
        inputs = executable.signature.inputs
        smaller = [_shape(arg) for arg in self._args_of(batch)]
        if len(smaller) != len(inputs) or any(len(a) != len(port.shape) for a, port in zip(smaller, inputs, strict=False)):
            raise InputError("E1004", "the program leaves out or takes apart some of its arguments, so it cannot be padded")
        for offset, (shape, port) in enumerate(zip(smaller, inputs, strict=True)):
            if any((a, size) != (batch, bucket) and a != size for a, size in zip(shape, port.shape, strict=True)):
                raise InputError("E1004", f"input {offset} is {list(shape)} for {batch} rows and {port} for {bucket}")
            if shape != port.shape:
                found[offset] = shape
        firsts = [[port.shape[:1] for port in program.signature.outputs] for program in self._programs.values()]
        for index, port in enumerate(executable.signature.outputs):
            if all(shapes[index] == (own,) for shapes, own in zip(firsts, self._programs, strict=True)):
                found[len(inputs) + index] = (batch, *port.shape[1:])
        return found


def _shape(arg: Any) -> Shape:
    return tuple(arg.shape) if hasattr(arg, "shape") else np.shape(arg)
