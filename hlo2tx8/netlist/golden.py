"""A whole netlist run: what the host pushes, all programs, and what it finds at the end."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hlo2tx8.errors import CapacityError, InputError
from hlo2tx8.netlist.config import TestConfig
from hlo2tx8.netlist.epochs import Golden
from hlo2tx8.netlist.evaluate import Rules
from hlo2tx8.netlist.formats import Array, to_host
from hlo2tx8.netlist.infer import input_shape
from hlo2tx8.netlist.instances import expand
from hlo2tx8.netlist.instructions import Declare
from hlo2tx8.netlist.machine import Backend, Machine
from hlo2tx8.netlist.model import Netlist, Queue
from hlo2tx8.netlist.queues import Io
from hlo2tx8.netlist.roots import under_roots
from hlo2tx8.netlist.stimulus import Pushes, config_of, exact_in
from hlo2tx8.netlist.tensors import Tensor, from_host, to_plain
from hlo2tx8.netlist.tree import number_of

MOST_TILES = 1 << 20
"""Of one tensor: 4 GiB in float32."""


def inputs_of(netlist: Netlist) -> dict[str, Queue]:
    """IOs that the host fills before programs run: those it feeds, and rams that ops read although ops write them."""
    read = {name for op in netlist.ops.values() for name in op.inputs}
    return {name: queue for name, queue in netlist.queues.items() if queue.is_fed_by_host or (queue.is_ram and name in read)}


def outputs_of(netlist: Netlist) -> dict[str, Queue]:
    """IOs that ops feed, but for those between devices."""
    return {name: queue for name, queue in netlist.queues.items() if not queue.is_fed_by_host and "e2e" not in name}


def params_of(netlist: Netlist, given: Mapping[str, int]) -> dict[str, int]:
    """Parameters of all programs: as given, else the test argument of that name, else 1."""
    args = (netlist.test_config or TestConfig()).args
    declared = (i for program in netlist.programs for i in program.instructions if isinstance(i, Declare) and i.kind == "param")
    found: dict[str, int] = {}
    for name in dict.fromkeys(name for declare in declared for name in declare.variables):
        plain = name.removeprefix("$").removeprefix("p_")
        value = number_of(args.get("program_loop_count" if plain == "loop_count" else plain, "1"))
        found[name] = given.get(name, value if isinstance(value, int) else 1)
    return found


def run_golden(
    netlist: Netlist,
    arch: str,
    inputs: Mapping[str, Array] | None,
    params: Mapping[str, int],
    *,
    exact: bool = False,
    max_steps: int | None = None,
) -> dict[str, Array]:
    """As `run_netlist`, by numpy."""
    rules = rules_of(netlist, arch, exact=exact)
    return run_netlist(netlist, Golden(rules), inputs, params, exact=exact, max_steps=max_steps)


def rules_of(netlist: Netlist, arch: str, *, exact: bool = False) -> Rules:
    """How the netlist is computed for an architecture."""
    return Rules(arch, netlist.fused_ops, exact)


def run_netlist(
    netlist: Netlist,
    backend: Backend,
    inputs: Mapping[str, Array] | None,
    params: Mapping[str, int],
    *,
    exact: bool = False,
    max_steps: int | None = None,
) -> dict[str, Array]:
    """Outputs [entries, t, rows, columns] by IO. Without inputs the host pushes what the test configuration says, as room is there.
    It ends in an error after `max_steps` turns of loops. `exact`: outputs are float64, as the backend makes them.

    InputError for inputs that are missing or of another shape, CapacityError for tensors that are too large, NetlistRunError where
    the programs cannot go on.
    """
    machine = machine_of(netlist, backend, inputs, params, max_steps)
    machine.run()
    return {name: _found(machine.ios[name], exact) for name in outputs_of(machine.netlist)}


def machine_of(
    netlist: Netlist, backend: Backend, inputs: Mapping[str, Array] | None, params: Mapping[str, int], max_steps: int | None = None
) -> Machine:
    """A netlist whose inputs are pushed, or have a host that pushes them, before its programs run; see `run_netlist`."""
    whole = expand(netlist)
    _refuse_large(whole)
    machine = Machine(whole, backend, params_of(whole, params), max_steps)
    if inputs is None:
        _attach_host(whole, machine)
    else:
        for name, queue in inputs_of(whole).items():
            _push_all(machine.ios[name], queue, inputs)
    return machine


def _refuse_large(netlist: Netlist) -> None:
    """CapacityError for a tensor, or a ram that the host reads, which no memory holds."""
    for queue in netlist.queues.values():
        slots = queue.entries if queue.is_ram and not queue.is_fed_by_host else 1
        if queue.shape.num_tiles * slots > MOST_TILES:
            raise CapacityError("E1005", f"{queue.type} {queue.name}: {slots} times {queue.shape} are more than {MOST_TILES} tiles")
    for op in netlist.ops.values():
        sources = [netlist.queues.get(name) or netlist.ops[name] for name in op.inputs]
        for shape in (op.shape, *(input_shape(op, number, source.shape) for number, source in enumerate(sources))):
            if shape.num_tiles > MOST_TILES:
                raise CapacityError("E1005", f"op {op.name}: {shape} are more than {MOST_TILES} tiles")


def _attach_host(netlist: Netlist, machine: Machine) -> None:
    """A host that fills rams, pushes whenever a queue is read empty, and pops what is in the way."""
    config = (netlist.test_config or TestConfig()).stimulus
    encoded = {op.inputs[2]: name for name, op in netlist.ops.items() if op.attributes.get("identity")}
    positive = under_roots(netlist)
    for name, queue in inputs_of(netlist).items():
        chosen, op = config_of(config, queue), encoded.get(queue.name)
        if op is not None and chosen is config:
            chosen = replace(config, type="sparse_encoding", matmul_ident_name=op)  # other words would be no encoding
        io, source = machine.ios[name], Pushes(netlist, queue, chosen, name in positive and chosen is config)

        def pushed(source: Pushes = source) -> Tensor:
            return Tensor(from_host(source.next(), source.queue), source.queue.df)

        io.refill = pushed
    read = {name for op in netlist.ops.values() for name in op.inputs}
    for name in outputs_of(netlist):
        if name not in read:
            machine.ios[name].taken = []


def _push_all(io: Io, queue: Queue, inputs: Mapping[str, Array]) -> None:
    shape = f"[n, {', '.join(map(str, queue.host_shape))}]"
    name = queue.name if queue.name in inputs else queue.instance_of
    if name not in inputs:
        if queue.is_ram:
            return
        raise InputError("E1004", f"there is no input {queue.name} {shape}")
    given = inputs[name]
    if given.ndim != 4 or given.shape[1:] != queue.host_shape or given.dtype.kind not in "biuf":
        raise InputError("E1004", f"input {queue.name} is {given.dtype}{list(given.shape)} instead of numbers {shape}")
    if len(given) > queue.entries:
        raise InputError("E1004", f"input {queue.name} has {len(given)} tensors for {queue.entries} entries")
    for slot, tensor in enumerate(given):
        pushed = Tensor(from_host(exact_in(tensor, queue), queue), queue.df)
        io.put(slot, pushed) if queue.is_ram else io.push(pushed)


def _found(io: Io, exact: bool) -> Array:
    queue = io.queue
    kind = np.uint32 if queue.df.family == "raw" else np.float64 if exact else np.float32
    left = io.left()
    found = np.zeros((len(left), *queue.host_shape), kind)
    for number, tensor in enumerate(left):
        if tensor is not None:
            plain = to_plain(tensor.data, queue)
            found[number] = plain if exact and not queue.df.is_integer else to_host(plain, queue.df)
    return found
