"""ONNX models to StableHLO modules."""

from hlo2tx8.frontend.onnx.importer import import_model, input_names, output_names
from hlo2tx8.frontend.onnx.model_file import ModelFile

__all__ = ["ModelFile", "import_model", "input_names", "output_names"]
