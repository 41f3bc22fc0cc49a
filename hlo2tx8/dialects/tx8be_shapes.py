"""Shapes and layouts of ops of `tx8be`: what their verifiers check, and the layout of a result.

3x4x5x6 NCHW --Transpose(0, 2, 3, 1)--> 3x5x6x4 NHWC
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import NoneType, TensorType, TupleType, bf16, f16, f32, i8
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

FEATURE, WEIGHT = "NHWC", "OIHW"
"""The letters of layouts of features and weights, in any order."""
CONV_LAYOUT = "NHWC-HWOI-NHWC"
PRODUCT_TYPES = (bf16, f16, f32, i8)
"""What the neural engine takes; f32 is TF32."""
ON_SPREAD = ("Reshape", "Broadcast")
"""Ops from which no layout follows."""


def tensor_in(type_: Attribute) -> TensorType[Attribute] | None:
    """The type if it is one of tensors."""
    return cast("TensorType[Attribute]", type_) if isinstance(type_, TensorType) else None


def tensor_of(value: Any) -> TensorType[Attribute]:
    """The type of a value that must be a tensor of known shape."""
    type_ = tensor_in(value.type)
    if type_ is None or not type_.has_static_shape():
        raise VerifyException(f"{value.type} is no tensor of known shape")
    return type_


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of such a value."""
    return tuple(tensor_of(value).get_shape())


def _expect(op: Any, found: TensorType[Attribute], element: Attribute, shape: Sequence[int]) -> None:
    wanted = TensorType(element, list(shape))
    if found != wanted:
        raise VerifyException(f"the result of {op.name} is {found}, and should be {wanted}")


def _same(op: Any) -> None:
    if op.results[0].type != op.operands[0].type:
        raise VerifyException(f"{op.name} gives {op.results[0].type} for {op.operands[0].type}")


def _product(op: Any) -> Attribute:
    """The element type of a Gemm or Conv, which both factors have."""
    element = tensor_of(op.operands[0]).get_element_type()
    if element not in PRODUCT_TYPES or tensor_of(op.operands[1]).get_element_type() != element:
        types = ", ".join(map(str, PRODUCT_TYPES))
        raise VerifyException(f"{op.name} takes two tensors of one element type: {types}")
    return element


def _factors(op: Any, columns: int) -> None:
    """Bias and scale have an element for each column, or for all of them; of int8, bias is i32 or f32 and scale f32."""
    for name in ("bias", "scale"):
        if (value := op.operand_named(name)) is not None:
            shape = shape_of(value)
            if shape[-1:] not in ((), (1,), (columns,)) or any(size != 1 for size in shape[:-1]):
                raise VerifyException(f"{name} of {op.name} is {value.type}, and there are {columns} columns")


def _gemm(op: Any) -> None:
    element = _product(op)
    left, right = list(shape_of(op.operands[0])), list(shape_of(op.operands[1]))
    if op["sparse_en"]:
        raise VerifyException("sparse_en is true, and what that means is not published")
    if len(left) < 2 or len(right) not in (2, len(left)) or (len(right) > 2 and right[:-2] != left[:-2]):
        raise VerifyException(f"Gemm takes [..., M, K] and [K, N] or [..., K, N], got {left} and {right}")
    rows, depth = left[:-3:-1] if op["transL"] else left[-2:]
    inner, columns = right[:-3:-1] if op["transR"] else right[-2:]
    if depth != inner:
        raise VerifyException(f"Gemm sums over {depth} of the left and {inner} of the right matrix")
    _expect(op, tensor_of(op.results[0]), element, (*left[:-2], rows, columns))
    _factors(op, columns)


def conv_layouts(op: Any) -> tuple[str, str, str]:
    """Layouts of a Conv's input, weight and output."""
    text = op["layout_str"]
    words = (CONV_LAYOUT if text == "Unknown" else text).split("-")
    if len(words) != 3 or [sorted(word) for word in words] != [sorted(FEATURE), sorted(WEIGHT), sorted(FEATURE)]:
        raise VerifyException(f"layout_str of Conv is {text!r}, and should be as {CONV_LAYOUT!r}")
    return words[0], words[1], words[2]


def _conv(op: Any) -> None:
    element, layouts = _product(op), conv_layouts(op)
    shapes = shape_of(op.operands[0]), shape_of(op.operands[1])
    if any(len(shape) != 4 for shape in shapes):
        raise VerifyException(f"Conv takes tensors of rank 4, got {shapes[0]} and {shapes[1]}")
    source, weight = (dict(zip(letters, shape, strict=True)) for letters, shape in zip(layouts, shapes, strict=False))
    strides, dilations, pads, groups = (op[name] for name in ("strides", "dilations", "pads", "groups"))
    if (len(strides), len(dilations), len(pads)) != (2, 2, 4) or min(*strides, *dilations, groups) < 1 or min(pads) < 0:
        raise VerifyException("Conv takes 2 strides and 2 dilations of 1 or more, 4 pads of 0 or more, and 1 or more groups")
    if source["C"] != weight["I"] * groups or weight["O"] % groups:
        raise VerifyException(f"{source['C']} channels in {groups} groups, and weights for {weight['I']} of them to {weight['O']}")
    sizes: dict[str, int] = {"N": source["N"], "C": weight["O"]}
    for k, letter in enumerate("HW"):
        room = source[letter] + pads[2 * k] + pads[2 * k + 1] - (weight[letter] - 1) * dilations[k] - 1
        sizes[letter] = max(0, room // strides[k] + 1) if weight[letter] else 0
    _expect(op, tensor_of(op.results[0]), element, [sizes[letter] for letter in layouts[2]])
    _factors(op, weight["O"])


def _batch_norm(op: Any) -> None:
    _same(op)
    shape = shape_of(op.operands[0])
    if not 2 <= len(shape) <= 4 or tensor_of(op.operands[0]).get_element_type() not in (bf16, f16, f32):
        raise VerifyException("BatchNorm_Inference takes bf16, f16 or f32 of rank 2 to 4, with channels last")
    wanted = TensorType(f32, [1, 1, 1, shape[-1]])
    for name, value in zip(op.ROW.operands[1:], op.operands[1:], strict=True):
        if value.type != wanted:
            raise VerifyException(f"{name} of {op.name} is {value.type}, and should be {wanted}")


def _transpose(op: Any) -> None:
    source, order = tensor_of(op.operands[0]), cast(tuple[int, ...], op["permutation"])
    shape = tuple(source.get_shape())
    if sorted(order) != list(range(len(shape))):
        raise VerifyException(f"permutation {list(order)} is none of {len(shape)} dimensions")
    _expect(op, tensor_of(op.results[0]), source.get_element_type(), tuple(shape[d] for d in order))


def _reshape(op: Any) -> None:
    source, result = tensor_of(op.operands[0]), tensor_of(op.results[0])
    if source.get_element_type() != result.get_element_type() or source.element_count() != result.element_count():
        raise VerifyException(f"Reshape gives {result} for {source}")


def places(op: Any) -> tuple[int, ...]:
    """The dimensions of a Broadcast's result that its operand has; the last ones if nobody says."""
    given = op["broadcast_dimensions"]
    first = len(shape_of(op.results[0])) - len(shape_of(op.operands[0]))
    return tuple(range(first, first + len(shape_of(op.operands[0])))) if given is None else given


def _broadcast(op: Any) -> None:
    source, result, dims = shape_of(op.operands[0]), shape_of(op.results[0]), places(op)
    fits = len(dims) == len(source) == len(set(dims)) and all(0 <= d < len(result) for d in dims)
    if not fits or any(size not in (1, result[d]) for size, d in zip(source, dims, strict=True)):
        raise VerifyException(f"Broadcast gives {result} for {source} at dimensions {list(dims)}")
    if tensor_of(op.operands[0]).get_element_type() != tensor_of(op.results[0]).get_element_type():
        raise VerifyException("Broadcast gives another element type")


def _elementwise(op: Any) -> None:
    """Operands are as the result, or spread over its last dimensions."""
    result = tensor_of(op.results[0])
    for value in op.operands:
        source = tensor_of(value)
        last = tuple(result.get_shape())[result.get_num_dims() - source.get_num_dims() :]
        is_fit = source.get_num_dims() <= result.get_num_dims() and all(
            size in (1, whole) for size, whole in zip(source.get_shape(), last, strict=True)
        )
        if not is_fit or source.get_element_type() != result.get_element_type():
            raise VerifyException(f"{op.name} gives {result} for {source}")


def _tuple(op: Any) -> None:
    types = [value.type for value in op.operands]
    if len(op.results) != 1 or not isinstance(op.results[0].type, TupleType) or list(op.results[0].type.types) != types:
        raise VerifyException(f"Tuple of {', '.join(map(str, types))} gives {', '.join(str(r.type) for r in op.results)}")
    if op["input_nums"] not in (None, len(types)):
        raise VerifyException(f"input_nums is {op['input_nums']}, and there are {len(types)}")


def _none(op: Any) -> None:
    if not isinstance(op.results[0].type, NoneType):
        raise VerifyException(f"None gives {op.results[0].type}")


def _group(op: Any) -> None:
    blocks = op.regions[0].blocks
    if len(blocks) != 1 or blocks[0].last_op is None or blocks[0].last_op.name != "tx8be.Return":
        raise VerifyException("the body of a Group is one block that ends in Return")
    given, found = [a.type for a in blocks[0].args], [v.type for v in blocks[0].last_op.operands]
    if given != [v.type for v in op.operands] or found != [v.type for v in op.results]:
        raise VerifyException("the body of a Group takes its operands and returns its results")
    if op["group_tag"] not in (None, 0, 1, 2):
        raise VerifyException(f"group_tag {op['group_tag']} is none: 0 normal, 1 split, 2 not split")


CHECKS: Mapping[str, Callable[[Any], None]] = {
    **dict.fromkeys(("Input", "Output", "LoadVar", "StoreVar", "ChannelNorm"), _same),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _elementwise),
    "Tuple": _tuple,
    "None": _none,
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNorm_Inference": _batch_norm,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Broadcast": _broadcast,
    "Group": _group,
}
"""By the op's name; they raise VerifyException."""


def dense_layout(shape: Sequence[int]) -> str:
    """The layout of a tensor that is no image: N says that the first dimension is not 1."""
    return "NTensor" if shape and shape[0] != 1 else "Tensor"


def inferred_layout(op: Any, layouts: Sequence[str]) -> str:
    """layout_str of the result from those of the operands; "Unknown" where none follows."""
    name, given = op.ROW.name, next((word for word in layouts if word != "Unknown"), "Unknown")
    if name == "Transpose" and len(given) == len(op["permutation"]) == 4 and given.isupper():
        return "".join(given[d] for d in op["permutation"])
    if name == "Conv":
        return conv_layouts(op)[2]
    if name == "Gemm":
        return dense_layout(shape_of(op.results[0]))
    if name in ON_SPREAD or not op.results or not isinstance(op.results[0].type, TensorType):
        return "Unknown"
    if given in ("Tensor", "NTensor"):
        return dense_layout(shape_of(op.results[0]))
    return given if len(given) == len(shape_of(op.results[0])) else "Unknown"
