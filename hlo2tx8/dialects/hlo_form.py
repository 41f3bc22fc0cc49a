"""Forms of ops: `OpenForm` has any number of operands, results and regions; `HloForm`, an HLO op, has attributes as properties."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, traits_def, var_operand_def, var_region_def, var_result_def
from xdsl.traits import IsTerminator

from hlo2tx8.ir import DeclaredOp, fill

TERMINATORS = ("return",)


class OpenForm(DeclaredOp):
    """An op of any number of operands, results and regions."""

    inputs = var_operand_def()
    outputs = var_result_def()
    bodies = var_region_def()

    def __init__(
        self,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        fill(self, operands, result_types, dict(properties or {}), dict(attributes or {}), regions)


class HloForm(OpenForm):
    """An HLO op; ATTRIBUTES are the names the specification gives it."""

    ATTRIBUTES: ClassVar[tuple[str, ...]] = ()


def declare(dialect: str, name: str, attributes: Sequence[str]) -> type[HloForm]:
    """The op class `dialect.name` with these attributes, each optional as far as this class is concerned."""
    members: dict[str, object] = {"name": f"{dialect}.{name}", "__doc__": f"`{dialect}.{name}`.", "__module__": __name__}
    members |= {f"{a}_attr": opt_prop_def(Attribute, prop_name=a) for a in attributes}
    members |= {"ATTRIBUTES": tuple(attributes), "__annotations__": {"ATTRIBUTES": ClassVar[tuple[str, ...]]}}
    if name in TERMINATORS:
        members["traits"] = traits_def(IsTerminator())
    class_name = "".join(part.capitalize() for part in name.replace("-", "_").split("_")) + "DeclaredOp"
    return irdl_op_definition(type(class_name, (HloForm,), members))
