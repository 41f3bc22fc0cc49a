"""The layouts and shardings extensions: row major everywhere; shardings of programs for several devices."""

import ctypes
from typing import Any

from hlo2tx8.pjrt.c_memory import read_int64s
from hlo2tx8.pjrt.executables import ExecutableEntries, LoadedExecutable


class ExtensionEntries(ExecutableEntries):
    """The extensions' entry points that Python serves."""

    def row_major(self, rank: int) -> int:
        """A new layout."""
        keep = (ctypes.c_int64 * max(1, rank))(*reversed(range(rank)))
        return self.library.layout_create(ctypes.addressof(keep), rank, 0)

    def Client_GetDefaultLayout(self, args: Any) -> None:
        args.layout = self.row_major(len(read_int64s(args.dims, args.num_dims)))

    def Executable_GetOutputLayouts(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        ports = loaded.executable.signature.outputs
        args.layouts = loaded.keep.pointers([self.row_major(len(port.shape)) for port in ports])
        args.num_layouts = len(ports)

    def Executable_GetParameterLayouts(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        ports = loaded.executable.signature.inputs
        args.layouts = loaded.keep.pointers([self.row_major(len(port.shape)) for port in ports])
        args.num_layouts = len(ports)

    def Executable_OutputShardings(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        self.give_shardings(args, loaded, loaded.compiled.output_shardings, loaded.num_outputs)

    def Executable_ParameterShardings(self, args: Any) -> None:
        loaded: LoadedExecutable = self.executables[args.executable]
        self.give_shardings(args, loaded, loaded.compiled.parameter_shardings, len(loaded.executable.signature.inputs))

    def give_shardings(self, args: Any, loaded: LoadedExecutable, shardings: tuple[bytes, ...], count: int) -> None:
        """Serialised OpShardings, none for programs of one device."""
        args.num_shardings = count
        args.shardings, args.sharding_sizes = loaded.keep.texts(shardings) if shardings else (None, None)
