"""The layouts and shardings extensions: row major everywhere, one sharding per array."""

import ctypes
from typing import Any

from hlo2tx8.pjrt.executables import ExecutableEntries, Loaded
from hlo2tx8.pjrt.memory import read_int64s


class ExtensionEntries(ExecutableEntries):
    """The extensions' entry points that Python serves."""

    def row_major(self, rank: int) -> int:
        """A new layout."""
        keep = (ctypes.c_int64 * max(1, rank))(*reversed(range(rank)))
        return self.library.layout_create(ctypes.addressof(keep), rank, 0)

    def Client_GetDefaultLayout(self, args: Any) -> None:
        args.layout = self.row_major(len(read_int64s(args.dims, args.num_dims)))

    def Executable_GetOutputLayouts(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        ports = loaded.executable.signature.outputs
        args.layouts = loaded.keep.pointers([self.row_major(len(port.shape)) for port in ports])
        args.num_layouts = len(ports)

    def Executable_GetParameterLayouts(self, args: Any) -> None:
        loaded: Loaded = self.executables[args.executable]
        ports = loaded.executable.signature.inputs
        args.layouts = loaded.keep.pointers([self.row_major(len(port.shape)) for port in ports])
        args.num_layouts = len(ports)

    def Executable_OutputShardings(self, args: Any) -> None:
        args.num_shardings = self.executables[args.executable].num_outputs
        args.shardings = args.sharding_sizes = None

    def Executable_ParameterShardings(self, args: Any) -> None:
        args.num_shardings = len(self.executables[args.executable].executable.signature.inputs)
        args.shardings = args.sharding_sizes = None
