"""What the driver asks a module: its name, its @main, the arrays it takes and gives."""

from typing import cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from hlo2tx8.errors import InputError
from hlo2tx8.runtime.signature import Port, Signature


def module_name(module: ModuleOp) -> str:
    """The module's symbol name, or "module"."""
    return module.sym_name.data if module.sym_name is not None else "module"


def find_main(module: ModuleOp) -> FuncOp:
    """The function @main; InputError where there is none."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise InputError("E1004", "the module has no function @main")


def signature_of(module: ModuleOp) -> Signature:
    """Inputs and outputs of @main; those the source has, whatever the IR has for them now."""
    from hlo2tx8.hlo.expansion import SIGNATURE

    main = find_main(module)
    types = main.attributes.get(SIGNATURE, main.function_type)
    assert isinstance(types, FunctionType)
    return Signature(tuple(map(port_of, types.inputs)), tuple(map(port_of, types.outputs)))


def port_of(type_: Attribute) -> Port:
    """Shape and dtype of a tensor type; InputError for tokens, tuples and dynamic shapes."""
    from hlo2tx8.dialects.layout import is_row_major, minor_to_major
    from hlo2tx8.hlo import numpy_dtype

    if not isinstance(type_, TensorType):
        raise InputError("E1004", f"{type_} is no array")
    tensor = cast(TensorType[Attribute], type_)
    if not tensor.has_static_shape():
        raise InputError("E1004", f"{type_} has no static shape")
    layout = () if is_row_major(tensor) else minor_to_major(tensor)
    return Port(tuple(tensor.get_shape()), numpy_dtype(tensor.get_element_type()).name, layout=layout)
