"""Attributes of the dialect `tx8be`: where tensors are, in which layout, at which addresses, and how they are shared out.

    #tx8be<memscope_mode DDR>
    #tx8be.dev_attr<imm_size = 512, mem_layout = Cx, multi_buf_en = true, multi_buf_num = 2, mem_addr = [65536, 66048]>

A parameter that nobody has chosen is left out, and a reader takes the default of its field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


class EnumAttr(SpacedOpaqueSyntaxAttribute, Data[str]):
    """One of the words in CASES, which gives their numbers; `#tx8be<memscope_mode SPM>`."""

    CASES: ClassVar[Mapping[str, int]]

    @property
    def number(self) -> int:
        """The number of the word."""
        return self.CASES[self.data]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        word = parser.parse_identifier_or_str_literal()
        if word not in cls.CASES:
            parser.raise_error(f"{word!r} is no {cls.name.partition('.')[2]}: {', '.join(cls.CASES)}")
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_identifier_or_string_literal(self.data)

    def verify(self) -> None:
        if self.data not in self.CASES:
            raise VerifyException(f"{self.data!r} is no {self.name}")


@irdl_attr_definition
class MemScopeAttr(EnumAttr):
    """The memory that a tensor is in."""

    name = "tx8be.memscope_mode"
    CASES: ClassVar[Mapping[str, int]] = {"DDR": 0, "SPM": 1, "3DDRAM": 2}


@irdl_attr_definition
class GemmModeAttr(EnumAttr):
    """What a Gemm does beside the product; no other mode is published."""

    name = "tx8be.GemmMode"
    CASES: ClassVar[Mapping[str, int]] = {"Normal": 0}


@dataclass(frozen=True)
class ParameterKind:
    """A parameter of a structured attribute: its kind (bool, int, tuple or words) and its value where it is left out."""

    kind: type | tuple[str, ...]
    default: Any

    def has(self, value: Any) -> bool:
        """Is the value of the field's kind?"""
        if isinstance(self.kind, tuple):
            return value in self.kind
        return type(value) is self.kind


class ParametersAttr(Data[tuple[tuple[str, Any], ...]]):
    """`<key = value, ...>` of the parameters in FIELDS, in any order, each at most once."""

    FIELDS: ClassVar[Mapping[str, ParameterKind]]

    @classmethod
    def of(cls, **values: Any) -> Any:
        """The attribute with these parameters; the others are left out."""
        return cls(tuple((name, values[name]) for name in cls.FIELDS if name in values))

    def __getitem__(self, name: str) -> Any:
        """A parameter, or what it is where it is left out."""
        return dict(self.data).get(name, self.FIELDS[name].default)

    def __contains__(self, name: str) -> bool:
        return name in dict(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Any], ...]:
        found: dict[str, Any] = {}

        def pair() -> None:
            name = parser.parse_identifier()
            if name not in cls.FIELDS or name in found:
                parser.raise_error(f"{name} is {'given twice' if name in found else 'no parameter'}: {', '.join(cls.FIELDS)}")
            parser.parse_punctuation("=")
            found[name] = _parse(parser, cls.FIELDS[name])

        with parser.in_angle_brackets():
            if parser.parse_optional_punctuation(">") is None:
                parser.parse_comma_separated_list(parser.Delimiter.NONE, pair)
            else:
                parser.raise_error("no parameter is given")
        return tuple((name, found[name]) for name in cls.FIELDS if name in found)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        for number, (name, value) in enumerate(self.data):
            printer.print_string(f"{', ' if number else ''}{name} = ")
            match value:
                case bool():
                    printer.print_string(str(value).lower())
                case tuple():
                    printer.print_string(str(list(value)))  # pyright: ignore[reportUnknownArgumentType]
                case str():
                    printer.print_identifier_or_string_literal(value)
                case _:
                    printer.print_string(str(value))
        printer.print_string(">")

    def verify(self) -> None:
        for name, value in self.data:
            if name not in self.FIELDS or not self.FIELDS[name].has(value):
                raise VerifyException(f"{name} of {self.name} cannot be {value!r}")


def _parse(parser: AttrParser, field: ParameterKind) -> Any:
    if isinstance(field.kind, tuple):
        word = parser.parse_identifier_or_str_literal()
        if word not in field.kind:
            parser.raise_error(f"{word!r} is none of {', '.join(field.kind)}")
        return word
    if field.kind is bool:
        return parser.parse_boolean()
    if field.kind is int:
        return parser.parse_integer()
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


LAYOUTS = ("Unknown", "Tensor", "NTensor", "Cx", "NCx")
"""How a tensor lies in memory: not said, dense, or in blocks of channels; N: the first dimension is not 1."""
MODES = ("None", "Data", "Tensor", "DataTensor")


@irdl_attr_definition
class ParallelAttr(ParametersAttr):
    """How a tensor is shared out over chips or tiles; sizes along the axes of the mesh for data and for tensor parallelism."""

    name = "tx8be.parallel_attr"
    FIELDS: ClassVar[Mapping[str, ParameterKind]] = {
        "parallel": ParameterKind(MODES, "None"),
        "is_dp_inner": ParameterKind(bool, False),
        **{f"{kind}_dim_{axis}": ParameterKind(int, 1) for kind in ("dp", "tp") for axis in "xyz"},
        "sharding_is_given": ParameterKind(bool, False),
        "shape_spatial_sharding": ParameterKind(tuple, ()),
    }

    def verify(self) -> None:
        super().verify()
        sizes = [self[name] for name in self.FIELDS if "_dim_" in name] + list(self["shape_spatial_sharding"])
        if any(size < 1 for size in sizes):
            raise VerifyException("a tensor is shared out over 1 or more in every direction")
        if self["sharding_is_given"] and not self["shape_spatial_sharding"]:
            raise VerifyException("sharding_is_given, and shape_spatial_sharding is not there")

    @property
    def num_parts(self) -> int:
        """Over how many chips or tiles it shares out, 1 where it has no numbers."""
        return prod(self[name] for name in self.FIELDS if "_dim_" in name)

    @property
    def sharding(self) -> str:
        """It as the text of a sharding of HLO, for what shares arrays out; "" if it is given: the array is a part already."""
        if self["sharding_is_given"]:
            return ""
        if self["parallel"] == "None":
            return "{replicated}"
        data, tensor = (",".join(str(self[f"{kind}_dim_{axis}"]) for axis in "xyz") for kind in ("dp", "tp"))
        return f"{{chip_parallel={self['parallel']} dp={data} tp={tensor} is_dp_inner={int(self['is_dp_inner'])}}}"


@irdl_attr_definition
class DevAttr(ParametersAttr):
    """What an op has on the device: scratch (imm, bytes and address), layout, copies of its buffer and their addresses in SPM."""

    name = "tx8be.dev_attr"
    FIELDS: ClassVar[Mapping[str, ParameterKind]] = {
        "imm_size": ParameterKind(int, 0),
        "mem_layout": ParameterKind(LAYOUTS, "Unknown"),
        "multi_buf_en": ParameterKind(bool, False),
        "multi_buf_num": ParameterKind(int, 1),
        "out_shape_buf_idx": ParameterKind(tuple, ()),
        "temporal_mem_slice": ParameterKind(tuple, ()),
        "source_type": ParameterKind(int, 0),
        "imm_addr": ParameterKind(int, -1),
        "mem_addr": ParameterKind(tuple, ()),
    }

    def verify(self) -> None:
        super().verify()
        if self["imm_size"] < 0 or self["multi_buf_num"] < 1 or any(address < 0 for address in self["mem_addr"]):
            raise VerifyException("sizes and addresses are 0 or more, and there is at least one buffer")
        if "mem_addr" in self and len(self["mem_addr"]) != self["multi_buf_num"]:
            raise VerifyException(f"{len(self['mem_addr'])} addresses of {self['multi_buf_num']} buffers: mem_addr, multi_buf_num")
        if self["multi_buf_num"] > 1 and not self["multi_buf_en"]:
            raise VerifyException("multi_buf_num is more than 1, and multi_buf_en false")


@irdl_attr_definition
class RegionAttr(ParametersAttr):
    """The tiles of a group: the first one's place in the mesh, and how many there are along its sides."""

    name = "tx8be.region_attr"
    FIELDS: ClassVar[Mapping[str, ParameterKind]] = {
        name: ParameterKind(int, 1 if name[0] == "d" else 0) for name in ("x", "y", "dx", "dy")
    }

    def verify(self) -> None:
        super().verify()
        if min(self["x"], self["y"]) < 0 or min(self["dx"], self["dy"]) < 1:
            raise VerifyException("a region is at 0 or more and has a tile at least")


ATTRIBUTES = [MemScopeAttr, GemmModeAttr, ParallelAttr, DevAttr, RegionAttr]
