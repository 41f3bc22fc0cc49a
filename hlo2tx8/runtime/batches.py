"""One module for requests of any batch: a program per bucket, to which requests are padded, or a program per batch."""

import threading
from collections.abc import Callable, Mapping, Sequence

from hlo2tx8.errors import InputError
from hlo2tx8.hlo.signature import Signature
from hlo2tx8.runtime.arguments import Callee, arguments_of
from hlo2tx8.runtime.executable import Array, Executable

Shape = tuple[int, ...]


class Batches:
    """The programs of a module by batch; see Session.load_batches. Any thread may ask for one; each is compiled once.

    `compile_for(batch)` makes a program, `signature_for(batch)` says what it would take and give. Without buckets the last
    `most_programs` are kept.
    """

    def __init__(
        self,
        compile_for: Callable[[int], Executable],
        signature_for: Callable[[int], Signature],
        buckets: Sequence[int],
        most_programs: int,
    ) -> None:
        if any(isinstance(b, bool) or not isinstance(b, int) or b < 1 for b in buckets) or most_programs < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError("E1004", f"buckets {list(buckets)} of {most_programs} programs", hint="integers from 1 on")
        self.buckets, self.most_programs = tuple(sorted(set(buckets))), most_programs
        self._compile_for, self._signature_for = compile_for, signature_for
        self._padded: dict[int, dict[int, Shape]] = {}
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
        with self._lock:
            if batch not in self._padded:
                self._padded[batch] = _padded(self._signature_for(batch), executable.signature, batch, bucket)
            return self._padded[batch]


def _padded(own: Signature, bucket: Signature, batch: int, rows: int) -> dict[int, Shape]:
    """The shapes of a batch's arguments where they are not its bucket's; InputError where more differs than the number of rows."""
    ports, padded = (*own.inputs, *own.outputs), (*bucket.inputs, *bucket.outputs)
    if [port.dtype for port in ports] != [port.dtype for port in padded]:
        raise InputError("E1004", f"with a batch of {batch} the module has other arguments than with {rows}")
    for offset, (port, whole) in enumerate(zip(ports, padded, strict=True)):
        is_padded = len(port.shape) == len(whole.shape) and all(
            size == most or (size, most) == (batch, rows) for size, most in zip(port.shape, whole.shape, strict=True)
        )
        if not is_padded or port.value != whole.value:
            raise InputError(
                "E1004", f"argument {offset} is {port} for a batch of {batch} and {whole} for {rows}: not a matter of rows"
            )
    shapes = zip(ports, padded, strict=True)
    return {offset: port.shape for offset, (port, whole) in enumerate(shapes) if port.shape != whole.shape}
