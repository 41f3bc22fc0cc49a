"""What the bytes of a file or stream are: HLO text, StableHLO, an HLO proto, a model of ONNX or PyTorch, a function that jax has
exported; packed by gzip or not."""

import re
import zlib
from dataclasses import dataclass

from hlo2tx8.errors import InputError
from hlo2tx8.frontend.torch.archive import is_archive
from hlo2tx8.protobuf import fields

GZIP, BYTECODE, ZIP = b"\x1f\x8b", b"ML\xefR", b"PK\x03\x04"
MOST_UNPACKED_BYTES = 1 << 31
_GRAPH = 7
"""The field of an ONNX ModelProto that is its graph."""
FORMATS = {
    "hlo": "hlo",
    "stablehlo": "stablehlo",
    "mlir": "stablehlo",
    "mlirbc": "stablehlo",
    "pb": "pb",
    "onnx": "onnx",
    "pt2": "pt2",
    "jaxexport": "jaxexport",
}
"""Names of input formats, and what each is."""
SUFFIXES = {
    ".hlo": "hlo",
    ".txt": "",
    ".mlir": "stablehlo",
    ".mlirbc": "stablehlo",
    ".pb": "",
    ".onnx": "onnx",
    ".pt2": "pt2",
    ".jaxexport": "jaxexport",
}
"""What files of that name hold; "" where their text says it."""
_HLO = re.compile(r"^\s*(HloModule\b|ENTRY\b|%?[\w.-]+ (\([^)]*\) -> [^{]*)?\{\s*$)", re.MULTILINE)


@dataclass(frozen=True)
class Content:
    """A program as it came, text or the bytes of MLIR bytecode or a proto; `format` is hlo, stablehlo, pb, onnx, pt2 or
    jaxexport."""

    format: str
    data: str | bytes

    @staticmethod
    def of_bytes(data: bytes, name: str, format: str = "", suffix: str = "") -> "Content":
        """What the bytes are by the format asked for, else by the name's suffix, else by what is in them.

        InputError where they are something else.
        """
        if data[:2] == GZIP:
            data = unpacked(data, name)
        format = _checked(format) or SUFFIXES.get(suffix.lower(), "")
        if format == "jaxexport":
            return Content(format, data)
        if data[:4] == BYTECODE:
            return Content("stablehlo", data)
        if data[:4] == ZIP and (format == "pt2" or is_archive(data)):
            return Content("pt2", data)
        if data[:4] == ZIP:
            raise InputError("E1004", f"{name} is a compiled program, not a module", hint="the names of such files end in .tx8x")
        if format == "pt2":
            raise InputError("E1004", f"{name} is no program that torch.export has saved")
        format = format or ("onnx" if _is_onnx(data) else "pb" if suffix.lower() == ".pb" else "")
        if format in ("pb", "onnx"):
            return Content(format, data)
        try:
            return Content.of_text(data.decode("utf-8-sig"), format)
        except UnicodeDecodeError:
            if format:
                raise InputError("E1004", f"{name} is neither text nor MLIR bytecode") from None
            return Content("pb", data)

    @staticmethod
    def of_text(text: str, format: str = "") -> "Content":
        """Text in that format, or in what it looks like."""
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        return Content(_checked(format) or _guess(text), text)


def _checked(format: str) -> str:
    if format and format not in FORMATS:
        raise InputError("E1004", f"unknown input format {format}", hint=", ".join(FORMATS))
    return FORMATS.get(format, "")


def _is_onnx(data: bytes) -> bool:
    """An ONNX model begins with the version of its format, and has a graph; protos of HLO and text begin otherwise."""
    if data[:1] != b"\x08":
        return False
    try:
        return any(number == _GRAPH and isinstance(value, bytes) for number, value in fields(data))
    except (ValueError, IndexError):
        return False


def _guess(text: str) -> str:
    """HLO has a header, an entry computation, or a computation before anything else; all else is taken for MLIR."""
    body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("//", "#")))
    first = _HLO.search(body)
    return "hlo" if first is not None and not re.match(r"\s*(module|func\.func|builtin\.module|\"builtin)", body) else "stablehlo"


def unpacked(data: bytes, name: str) -> bytes:
    """What a gzip file holds; InputError if it is damaged or holds too much."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(data, MOST_UNPACKED_BYTES)
    except zlib.error as error:
        raise InputError("E1004", f"{name} is not a sound gzip file: {error}") from None
    if unpacker.unconsumed_tail:
        raise InputError("E1004", f"{name} unpacks to more than {MOST_UNPACKED_BYTES:,} bytes")
    if not unpacker.eof:
        raise InputError("E1004", f"{name} is not a sound gzip file: it ends early")
    return found
