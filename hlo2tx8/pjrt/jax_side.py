"""With jax_lowerings.py the plugin's only file that touches jax's and jaxlib's private modules."""
# pyright: basic

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from hlo2tx8.pjrt.configuration import NO_PASSES, XLA_DUMPS
from hlo2tx8.pjrt.errors import FORKED
from hlo2tx8.protobuf import integers, messages

PLATFORM = "tx8"
PRIORITY = -50
"""Below cpu: installing the package changes no program that does not ask for tx8."""


def register(
    table_address: int, before_exit: Callable[[], None], at_exit: Callable[[], None], has_host_functions: Callable[[bytes], bool]
) -> None:
    """Makes jax know the platform; at the process's end `before_exit` runs before jax lets go of its clients, `at_exit` after.

    `has_host_functions` says whether the executable of a fingerprint calls functions of this process.
    """
    import atexit

    from jax._src import api, array, compilation_cache, compiler, xla_bridge
    from jax._src.interpreters import mlir

    ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
    ctypes.pythonapi.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = ctypes.pythonapi.PyCapsule_New(table_address, CAPSULE_NAME, None)
    xla_bridge._nonexperimental_plugins.add(PLATFORM)
    xla_bridge.register_plugin(PLATFORM, priority=PRIORITY, c_api=capsule, options={}, make_topology=_no_topology)
    xla_bridge._backend_factories[PLATFORM].fail_quietly = True  # who asks for it hears the reason
    import_module("jaxlib._profiler").register_plugin_profiler(capsule)
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    compilation_cache.is_cache_used = _cached(compilation_cache.is_cache_used)
    compiler._cache_write = _written(compiler._cache_write, has_host_functions)
    for name in ("__dlpack__", "__dlpack_device__"):
        setattr(array.ArrayImpl, name, _on_cpu(getattr(array.ArrayImpl, name)))
    os.register_at_fork(after_in_child=_forked)
    atexit.unregister(api.clean_up)
    atexit.register(at_exit)
    atexit.register(api.clean_up)
    atexit.register(before_exit)


def is_distributed() -> bool:
    """Has `jax.distributed.initialize` been called, so that there is a key-value store?"""
    from jax._src import distributed

    return distributed.global_state.client is not None


def end_without_others() -> None:
    """Lets this process end where another one of `jax.distributed` has died: jax would wait for that one, for minutes."""
    import atexit

    from jax._src import api, distributed

    atexit.unregister(api.clean_up)
    state = distributed.global_state
    for thing in (state.client, state.service, state.preemption_sync_manager):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))  # what ends with these is what waits


def register_reason(reason: str) -> None:
    """Makes jax answer with `reason` where the platform is asked for; whoever does not ask hears nothing."""
    from jax._src import xla_bridge

    def refuse() -> Any:
        raise RuntimeError(reason)

    xla_bridge.register_backend_factory(PLATFORM, refuse, priority=PRIORITY, fail_quietly=True)


def _on_cpu(standard: Callable[..., Any]) -> Callable[..., Any]:
    """A method about DLPack, which has no tx8: our arrays give a copy on jax's cpu."""
    import jax

    def call(self: Any, **how: Any) -> Any:
        if self.platform() != PLATFORM:
            return standard(self, **how)
        if how.get("copy") is False:
            raise BufferError("arrays on tx8 are copied to the cpu for DLPack, and copy=False was asked for")
        return standard(jax.device_put(self, jax.devices("cpu")[0]), **how)

    return call


def _forked() -> None:
    """In a child of a process that used the device: the threads that compile and run are not there, so programs are refused."""
    import atexit

    from jax._src import api, compiler, xla_bridge

    if PLATFORM not in xla_bridge._backends:
        return
    atexit.unregister(api.clean_up)  # it waits for those threads
    standard = compiler.compile_or_get_cached

    def compile_or_refuse(backend: Any, *arguments: Any, **how: Any) -> Any:
        if backend.platform == PLATFORM:
            raise RuntimeError(FORKED)
        return standard(backend, *arguments, **how)

    compiler.compile_or_get_cached = compile_or_refuse


class _Cached:
    """A backend of those whose executables jax keeps; it knows them by their names."""

    platform = "cpu"
    supports_executable_serialization = True


def _cached(standard: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """jax's question whether a backend's executables go into the persistent cache, where there is one: ours do."""
    return lambda backend: standard(_Cached() if backend.platform == PLATFORM else backend)


def _written(standard: Callable[..., None], has_host_functions: Callable[[bytes], bool]) -> Callable[..., None]:
    """jax's writing to the persistent cache, to which no executable goes that calls functions of this process."""

    def write(key: str, seconds: float, name: str, backend: Any, executable: Any, host_callbacks: Any) -> None:
        calls_host = backend.platform == PLATFORM and has_host_functions(executable.fingerprint)
        standard(key, seconds, name, backend, executable, [*host_callbacks, calls_host] if calls_host else host_callbacks)

    return write


BOOL_OPTIONS = ("xla_embed_ir_in_executable",)
"""Options of XLA that jaxlib does not show."""
EMITTERS = "xla_dump_emitter_re"
CAPSULE_NAME = b"pjrt_c_api"


def jax_versions() -> dict[str, str]:
    """The versions of jax and jaxlib."""
    return {name: metadata.version(name) for name in ("jax", "jaxlib")}


def current_stablehlo() -> tuple[int, ...]:
    """The version of StableHLO that jaxlib reads and writes."""
    from jaxlib.mlir.dialects import stablehlo

    return tuple(int(part) for part in stablehlo.get_current_version().split("."))


def _no_topology(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("topology not implemented for tx8")


@dataclass(frozen=True)
class CompileOptions:
    """What is read of a CompileOptionsProto; `device_assignment` is serialised, empty if there is none.

    Overrides are those of XLA_FLAGS that say what to dump, and behind them those of the compilation.
    """

    num_replicas: int
    num_partitions: int
    device_assignment: bytes
    is_portable: bool
    overrides: dict[str, Any]


def compile_options(serialized: bytes) -> CompileOptions:
    """The options jax's `compile` was given."""
    from jaxlib import xla_client

    options = xla_client.CompileOptions.ParseFromString(serialized)
    build = options.executable_build_options
    assignment, debug = build.device_assignment, build.debug_options
    return CompileOptions(
        build.num_replicas,
        build.num_partitions,
        assignment.serialize() if assignment is not None else b"",
        options.compile_portable_executable,
        {name: str(getattr(debug, name, "")) for name in XLA_DUMPS}
        | _unseen_options(serialized)
        | dict(options.env_option_overrides or ()),
    )


def _unseen_options(serialized: bytes) -> dict[str, Any]:
    """Those of DebugOptions that jaxlib does not show, if they are set: fields of field 3 of field 3."""
    found: dict[str, Any] = {}
    for debug in (inner for outer in messages(serialized, 3) for inner in messages(outer, 3)):
        found |= dict.fromkeys((NO_PASSES,) if any(integers(debug, 104)) else (), True)
        for pattern in messages(debug, 433):
            found[EMITTERS] = pattern.decode(errors="replace")
    return found


def xla_option_type(name: str) -> type:
    """bool or int; str where anything will do, or jaxlib does not show the option."""
    from jaxlib import xla_client

    if name in BOOL_OPTIONS:
        return bool
    # jaxlib hands out parts of an object without keeping it alive.
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    found = type(getattr(build.debug_options, name, ""))
    return found if found in (bool, int) else str


@dataclass(frozen=True)
class MainFunction:
    """What jax says about the arguments and results of @main: one dictionary of attributes each, as text."""

    arguments: tuple[dict[str, str], ...]
    results: tuple[dict[str, str], ...]


def main_function(code: bytes) -> MainFunction:
    """The attributes of a portable artifact's entry function."""
    from hlo2tx8.frontend import shim

    ir = shim.ir()
    module = shim.parse_module(code, shim.make_context())
    for op in module.body.operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == "main":
            kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
            return MainFunction(_dictionaries(op, "arg_attrs", len(kind.inputs)), _dictionaries(op, "res_attrs", len(kind.results)))
    raise ValueError("the module has no function @main")


def _dictionaries(op: Any, name: str, count: int) -> tuple[dict[str, str], ...]:
    if name not in op.attributes:
        return tuple({} for _ in range(count))
    return tuple({entry.name: str(entry.attr) for entry in dictionary} for dictionary in op.attributes[name])
