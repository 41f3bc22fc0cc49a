"""`Session`: programs that stay loaded, and requests to them from any number of threads.

    session = hlo2tx8.Session()
    session.load("mlp.tx8x")
    request = session.new_request_context()
    request.bind_arg(0, x)
    request.finish_io_binding()
    request.run()
    request.sync()
    y = request.get_arg(1)

A session has models by name, each with one copy of its program and weights; a request context is one caller's arguments; a work
queue says on which threads, and in which order, transfers and launches are done. See docs/runtime.md.
"""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hlo2tx8.device.program import SlotKind
from hlo2tx8.errors import InputError, SessionError
from hlo2tx8.hlo.signature import Port, Signature, array_of, dtype_of
from hlo2tx8.options import Options
from hlo2tx8.runtime.allocators import Allocator, Arena
from hlo2tx8.runtime.arguments import Argument, Callee, arguments_of
from hlo2tx8.runtime.batches import Batches
from hlo2tx8.runtime.compile import compile_source, signature_of_source
from hlo2tx8.runtime.container import read, read_file
from hlo2tx8.runtime.executable import Array, Executable
from hlo2tx8.runtime.request_context import RequestContext
from hlo2tx8.runtime.tasks import Listener
from hlo2tx8.runtime.work_queues import SingleStream, WorkQueue

ZIP = b"PK\x03\x04"


@dataclass
class Model:
    """A loaded program, or the programs of one module for several batches; `weights` are inputs that all requests share."""

    name: str
    executable: Executable | None
    batches: Batches | None = None
    weights: dict[int, Array] = field(default_factory=dict[int, Array])


class Session:
    """Loaded models, and what their requests have in common.

    options: as of hlo2tx8.compile, also how programs of files run. allocator: where contexts take memory from, an Arena without a
    limit by default. queue: for contexts that name none; a SingleStream by default, which ends with the session. Any thread may use
    a session.
    """

    def __init__(
        self, options: Options | None = None, *, allocator: Allocator | None = None, queue: WorkQueue | None = None
    ) -> None:
        self.options = options
        self.allocator: Allocator = Arena() if allocator is None else allocator
        self.queue = SingleStream() if queue is None else queue
        self._owns_queue = queue is None
        self._models: dict[str, Model] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()
        self._is_closed = False

    def load(self, source: object, name: str = "", *, args: Sequence[object] | None = None, format: str = "") -> str:
        """Load a model, and return its name, its program's if none is given.

        source: a `.tx8x` file or its bytes, an Executable, or whatever hlo2tx8.compile takes for one chip. Raises ContainerError
        and what a compilation does; InputError where the session has a model of that name.
        """
        executable = self._executable(source, args, format)
        return self._add(Model(name or executable.name, executable))

    def load_batches(
        self,
        source: object,
        args_of: Callable[[int], Sequence[object]],
        buckets: Sequence[int] = (),
        name: str = "",
        *,
        format: str = "",
        most_programs: int = 16,
    ) -> str:
        """Load a model whose requests have any batch: one program per bucket, or with no buckets one per batch, compiled when the
        first request asks for it, of which the last `most_programs` are kept.

        `args_of(batch)` are the example arguments that the source is compiled with, for a function or dynamic shapes. With buckets
        a request is padded with zeros to the next one, and its outputs are cut, in the dimensions in which the module for its batch
        has other shapes than that of the bucket: no row of a result may depend on others. InputError where shapes differ otherwise.
        """

        def compile_for(batch: int) -> Executable:
            return compile_source(source, self.options, args=args_of(batch), format=format)

        def signature_for(batch: int) -> Signature:
            return signature_of_source(source, self.options, args=args_of(batch), format=format)

        batches = Batches(compile_for, signature_for, buckets, most_programs)
        return self._add(Model(name or batches.name, None, batches))

    def bind_weight(self, offset: int, array: object, model: str = "") -> None:
        """Make an input a weight: contexts made from now on have this array bound, without a copy, and cannot bind another one."""
        found = self._model(model)
        callee = self._callee(found, None)
        if not 0 <= offset < callee.num_inputs:
            raise InputError("E1004", f"{found.name} has no input {offset}", hint=f"0 to {callee.num_inputs - 1}")
        argument, given = callee.arguments[offset], array_of(array)
        if given.shape != argument.shape or given.dtype != dtype_of(argument.dtype) or not given.flags.c_contiguous:
            raise InputError("E1004", f"{argument} cannot be a {Port(given.shape, given.dtype.name)}, or is not contiguous")
        found.weights = {**found.weights, offset: given}

    def new_request_context(self, queue: WorkQueue | None = None, *, model: str = "", batch: int | None = None) -> RequestContext:
        """A request to a model, which may be left out where there is one only; `batch` for a model of `load_batches`."""
        if self._is_closed:
            raise SessionError("the session is closed")
        callee = self._callee(self._model(model), batch)
        return RequestContext(callee, self.queue if queue is None else queue, self.allocator, self._listeners)

    def add_listener(self, listener: Listener) -> None:
        """Have a listener hear of all tasks of contexts that are made from now on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, in the order in which they were loaded."""
        return tuple(self._models)

    def inputs(self, model: str = "", batch: int | None = None) -> tuple[Argument, ...]:
        """The inputs of a model by their offset."""
        return tuple(each for each in self._callee(self._model(model), batch).arguments if each.kind == "input")

    def outputs(self, model: str = "", batch: int | None = None) -> tuple[Argument, ...]:
        """The outputs of a model by their offset."""
        return tuple(each for each in self._callee(self._model(model), batch).arguments if each.kind == "output")

    def weights(self, model: str = "", batch: int | None = None) -> tuple[Argument, ...]:
        """The constants of a model's program that lie in DDR, by their offset."""
        slots = self.executable(model, batch).program.slots_of(SlotKind.CONSTANT)
        return tuple(
            Argument("weight", slot.name or f"constant{i}", i, slot.shape, slot.dtype, "ddr", slot.size_bytes)
            for i, slot in enumerate(slots)
        )

    def weight(self, offset: int, model: str = "", batch: int | None = None) -> Array:
        """The array of a weight, which all contexts share; read only."""
        constants = self.executable(model, batch).program.constants
        if not 0 <= offset < len(constants):
            raise InputError("E1004", f"{len(constants)} weights have no number {offset}")
        array = constants[offset].view()
        array.flags.writeable = False
        return array

    def executable(self, model: str = "", batch: int | None = None) -> Executable:
        """The executable that serves a model's requests."""
        return self._callee(self._model(model), batch).executable

    def close(self) -> None:
        """Take no more requests; runs that were queued are done. Queues of the caller's own stay open."""
        self._is_closed = True
        if self._owns_queue:
            self.queue.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _executable(self, source: object, args: Sequence[object] | None, format: str) -> Executable:
        if isinstance(source, Executable):
            return source
        loaded: Executable | None = None
        if isinstance(source, bytes) and source[:4] == ZIP:
            loaded = read_file(io.BytesIO(source), "the container")
        elif isinstance(source, str | Path) and str(source).endswith(".tx8x"):
            loaded = read(Path(source))
        if loaded is None:
            return compile_source(source, self.options, args=args, format=format)
        if self.options is None:
            return loaded
        run = {name: getattr(self.options, name) for name in ("mode", "threads", "timeout", "max_steps")}
        return replace(loaded, options=replace(loaded.options, **run))

    def _add(self, model: Model) -> str:
        with self._lock:
            if self._is_closed:
                raise SessionError("the session is closed")
            if model.name in self._models:
                raise InputError("E1004", f"the session has a model {model.name} already", hint="name= gives it another one")
            self._models[model.name] = model
        return model.name

    def _model(self, name: str) -> Model:
        if not name and len(self._models) == 1:
            return next(iter(self._models.values()))
        if name not in self._models:
            loaded = ", ".join(self._models) or "none is loaded"
            raise InputError("E1004", f"no model {name!r}" if name else "which model?", hint=loaded)
        return self._models[name]

    def _callee(self, model: Model, batch: int | None) -> Callee:
        if model.batches is not None:
            return model.batches.callee(model.name, batch, model.weights)
        if batch is not None:
            raise InputError("E1004", f"{model.name} has one program, for no batch but its own", hint="Session.load_batches")
        assert model.executable is not None
        return Callee(model.name, model.executable, arguments_of(model.executable, {}), model.weights)
