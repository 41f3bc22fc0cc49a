"""Options of the plugin: given when its client is made, and per compilation through `compiler_options`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hlo2tx8.errors import InputError
from hlo2tx8.options import Options
from hlo2tx8.runtime.pods.pod import Membership

OPTIONS = {
    "chip": Path,
    "mode": str,
    "threads": int,
    "step_elements": int,
    "search": str,
    "search_cache": Path,
    "matmul_precision": str,
    "timeout": float,
    "max_steps": int,
    "verify": bool,
    "hlo_passes": bool,
    "reassociate": bool,
    "dump_dir": Path,
    "dump_pass_re": str,
    "dump_emitter_re": str,
}
"""Options of the compiler and emulator that can be given, and their types."""
XLA_OPTIONS = ("exec_time_optimization_effort", "memory_fitting_effort", "optimization_level", "memory_fitting_level")
"""XLA's own, with all others that begin with `xla_`: programs set them for every platform, and they change no result."""
XLA_DUMPS = {"xla_dump_to": "dump_dir", "xla_dump_hlo_pass_re": "dump_pass_re", "xla_dump_emitter_re": "dump_emitter_re"}
"""XLA's options that are ours under another name, also from XLA_FLAGS; "" is as if not given."""
NO_PASSES = "xla_disable_all_hlo_passes"
"""XLA's option that is ours the other way round, also from XLA_FLAGS."""
WAITS = {"arrival_timeout": "arrival", "exchange_timeout": "patience"}
"""Options about waiting for other processes."""
POD_OPTIONS = ("node_id", "num_nodes", "pod_address", *WAITS)
"""Options of a process among several; the first two are set by jax."""
XLA_BOOLS = ("true", "false", "t", "f", "yes", "no", "y", "n", "1", "0")


@dataclass(frozen=True)
class Configuration:
    """`chips` emulated devices of this process, how to compile and run for them, and what it brings to a pod if it is in one.

    Taken from jax's own option: JAX_PJRT_CLIENT_CREATE_OPTIONS="chips:8;mode:strict".
    """

    chips: int = 1
    options: Options = field(default_factory=Options)
    pod: Membership | None = None

    @staticmethod
    def of(values: Mapping[str, object]) -> "Configuration":
        """The configuration of named values; InputError on unknown names and wrong values."""
        rest = dict(values)
        chips = _number("chips", rest.pop("chips", 1))
        if not 1 <= chips <= 1024:
            raise InputError("E1004", f"{chips} chips", hint="from 1 to 1024")
        own = {name: rest.pop(name) for name in POD_OPTIONS if name in rest}
        rest.pop("partition_index", None)
        number, count = (_number(name, own.get(name, least)) for name, least in (("node_id", 0), ("num_nodes", 1)))
        waits = {field: _number(name, own[name], float) for name, field in WAITS.items() if name in own}
        address = {"address": str(own["pod_address"])} if "pod_address" in own else {}
        pod = Membership(number, count, chips, **address, **waits) if count > 1 else None
        return Configuration(chips, override(Options(), rest), pod)


def override(options: Options, values: Mapping[str, object]) -> Options:
    """The options with some changed; InputError on unknown names and wrong values."""
    known = {f.name for f in fields(Options)}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        kind = OPTIONS.get(name)
        if name.startswith("xla_") or name in XLA_OPTIONS:
            _check_xla_option(name, value)
            if name == NO_PASSES:
                changed["hlo_passes"] = not _truth(name, value)
            elif name in XLA_DUMPS and value:
                name = XLA_DUMPS[name]
                changed[name] = OPTIONS[name](str(value))
            continue
        if kind is None or name not in known:
            raise InputError("E1004", f"No such compile option: {name!r}", hint=", ".join(["chips", *POD_OPTIONS[2:], *OPTIONS]))
        if kind in (int, float):
            changed[name] = _number(name, value, kind)
        elif kind is bool:
            changed[name] = _truth(name, value)
        else:
            changed[name] = kind(str(value))
    return replace(options, **changed)


def _check_xla_option(name: str, value: object) -> None:
    """InputError on a value of another type than the option's, where jaxlib says which that is."""
    from hlo2tx8.pjrt.jax_side import xla_option_type

    kind = xla_option_type(name)
    is_good = kind is str or isinstance(value, kind)
    if isinstance(value, str) and kind is bool:
        is_good = value.lower() in XLA_BOOLS
    elif isinstance(value, str) and kind is int:
        is_good = value.removeprefix("-").isdecimal()
    if not is_good:
        raise InputError("E1004", f"While setting option {name}, '{value}' is not a valid {kind.__name__} value.")


def _truth(name: str, value: object) -> bool:
    word = str(value).lower()
    if word not in XLA_BOOLS:
        raise InputError("E1004", f"option {name} should be true or false, got {value!r}")
    return word in ("1", "true", "t", "yes", "y")


def _number(name: str, value: object, kind: type[Any] = int) -> Any:
    try:
        return kind(str(value))
    except ValueError:
        raise InputError("E1004", f"option {name} should be a number, got {value!r}") from None
