"""Several devices: queues and graphs with a list of devices become one of each, called as in the file with .0, .1, and so on."""

from collections.abc import Mapping
from dataclasses import replace

from hlo2tx8.netlist.instructions import Execute, Instruction, Lifetime, Program, Setting
from hlo2tx8.netlist.model import Devices, NetGraph, Netlist, Queue


def expand(netlist: Netlist) -> Netlist:
    """The netlist with a queue, a graph, an op and an execution for each device; each knows its name in the file."""
    shared = {queue.name for queue in netlist.queues.values() if isinstance(queue.target_device, tuple)}
    shared |= {op.name for graph in netlist.graphs.values() if isinstance(graph.target_device, tuple) for op in graph.ops}
    if not shared and not any(isinstance(graph.target_device, tuple) for graph in netlist.graphs.values()):
        return netlist

    def at(name: str, device: int) -> str:
        return f"{name}.{device}" if name in shared else name

    queues: dict[str, Queue] = {}
    for queue in netlist.queues.values():
        for device in devices_of(queue.target_device):
            one = replace(queue, target_device=device, input=at(queue.input, device), alias=at(queue.alias, device))
            if isinstance(queue.target_device, tuple):
                one = replace(one, name=at(queue.name, device), instance_of=queue.name)
            queues[one.name] = one
    graphs: dict[str, NetGraph] = {}
    for graph in netlist.graphs.values():
        if not isinstance(graph.target_device, tuple):
            graphs[graph.name] = graph
            continue
        for device in graph.target_device:
            ops = tuple(
                replace(op, name=at(op.name, device), inputs=tuple(at(name, device) for name in op.inputs)) for op in graph.ops
            )
            name = f"{graph.name}.{device}"
            graphs[name] = replace(graph, name=name, target_device=device, ops=ops, instance_of=graph.name)
    programs = tuple(_expanded(program, netlist, queues) for program in netlist.programs)
    return replace(netlist, queues=queues, graphs=graphs, programs=programs)


def devices_of(devices: Devices) -> tuple[int, ...]:
    """One device or several as a tuple."""
    return (devices,) if isinstance(devices, int) else devices


def _expanded(program: Program, netlist: Netlist, queues: Mapping[str, Queue]) -> Program:
    instructions: list[Instruction] = []
    for instruction in program.instructions:
        match instruction:
            case Lifetime():
                names = tuple(name for old in instruction.queues for name in _instances(old, queues))
                instructions.append(replace(instruction, queues=names))
            case Execute(name) if name in netlist.graphs:
                devices = netlist.graphs[name].target_device
                for device in devices_of(devices):
                    graph = f"{name}.{device}" if isinstance(devices, tuple) else name
                    settings = _settings(instruction, device, queues)
                    instructions.append(replace(instruction, graph_name=graph, queue_settings=settings))
            case _:
                instructions.append(instruction)
    return replace(program, instructions=tuple(instructions))


def _instances(name: str, queues: Mapping[str, Queue]) -> tuple[str, ...]:
    return tuple(queue.name for queue in queues.values() if queue.instance_of == name) or (name,)


def _settings(execute: Execute, device: int, queues: Mapping[str, Queue]) -> dict[str, Setting]:
    """Settings of the queues of that device; of a queue that is on one device only, the graph there has them."""
    found: dict[str, Setting] = {}
    for io, setting in execute.queue_settings.items():
        for name in _instances(io, queues):
            if name not in queues or queues[name].target_device == device or name == io:
                found[name] = setting
    return found
