"""Executables whose devices belong to several processes."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo2tx8.pjrt.devices import Client, Device

if TYPE_CHECKING:
    from hlo2tx8.spmd.pod_launch import PodProgram
    from hlo2tx8.spmd.segmented_executable import SegmentedExecutable


def pod_program(executable: "SegmentedExecutable", client: Client, devices: Sequence[Device]) -> "PodProgram | None":
    """How the processes run it together; None if all devices are of this process."""
    from hlo2tx8.runtime.pods.peer import Begun
    from hlo2tx8.spmd.pod_launch import PodProgram

    owners = tuple(device.process for device in devices)
    if client.pod is None or {*owners} == {client.process}:
        return None
    return PodProgram(client.pod, owners, Begun(fingerprint_of(executable, owners), executable.name))


def fingerprint_of(executable: "SegmentedExecutable", owners: Sequence[int]) -> str:
    """Equal for programs that run the same instructions and exchange the same boxes between the same processes."""
    plans = [(step.name, step.plan, count) for step, count in executable.links]
    digest = hashlib.sha256(repr((executable.signature, executable.mesh, plans, owners)).encode())
    for program, count in executable.programs:
        digest.update(repr((program.name, count)).encode() + program.program.code.tobytes())
    return digest.hexdigest()
