"""Executables whose devices belong to several processes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo2tx8.pjrt.devices import Client, Device

if TYPE_CHECKING:
    from hlo2tx8.spmd.pod_launch import PodProgram
    from hlo2tx8.spmd.segmented_executable import SegmentedExecutable


def pod_program(executable: "SegmentedExecutable", client: Client, devices: Sequence[Device]) -> "PodProgram | None":
    """How the processes run it together; None if all devices are of this process."""
    from hlo2tx8.runtime.pods.peer import Begun
    from hlo2tx8.spmd.pod_launch import PodProgram, fingerprint_of

    owners = tuple(device.process for device in devices)
    if client.pod is None or {*owners} == {client.process}:
        return None
    return PodProgram(client.pod, owners, Begun(fingerprint_of(executable, owners), executable.name))
