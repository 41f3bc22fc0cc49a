"""PyTorch on the emulator of the chip: modules that are compiled as a whole, and the backend `tx8` of torch.compile."""

from hlo2tx8.torch_backend.dynamo import backend
from hlo2tx8.torch_backend.executable import TorchExecutable, compile_torch

__all__ = ["TorchExecutable", "backend", "compile_torch"]
