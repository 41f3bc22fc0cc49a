"""`with_real_ports`: a module around another one, whose arrays have element types with format codes of the machine.

@main takes and gives f32 where the inner function has f64 or f8, bytes for integers of less than 8 bits, and two arrays for a
complex one.
"""

import re

_MAIN = re.compile(r"func\.func public @main\((.*?)\)\s*->\s*(\([^)]*\)|\S+) \{", re.DOTALL)
_STORED = {"f64": "f32", "i4": "i8", "i2": "i8", "ui4": "ui8", "ui2": "ui8"}


def stored(element: str) -> str:
    """The element type that an array without a format code is kept in."""
    return "f32" if element.startswith("f8") else _STORED.get(element, element)


def with_real_ports(text: str) -> str:
    """The module of that text, as it is where all arrays have format codes."""
    found = _MAIN.search(text)
    assert found is not None
    arguments = [part.split(": ")[1] for part in found[1].split(", ") if part]
    results = found[2].strip("()").split(", ")
    if all(stored(_element(type_)) == _element(type_) and "complex" not in type_ for type_ in (*arguments, *results)):
        return text
    lines: list[str] = []
    given: list[str] = []
    for number, type_ in enumerate(arguments):
        part = _part(type_)
        names = [f"%in{number}_{k}" for k in range(1 + ("complex" in type_))]
        given += [f"{name}: {_with(type_, stored(part))}" for name in names]
        for name in names:
            lines.append(_convert(f"{name}c", name, _with(type_, stored(part)), _with(type_, part)))
        if len(names) == 2:
            plain = _with(type_, part)
            lines.append(f"%a{number} = stablehlo.complex {names[0]}c, {names[1]}c : ({plain}, {plain}) -> {type_}")
    read = [f"%a{n}" if "complex" in type_ else f"%in{n}_0c" for n, type_ in enumerate(arguments)]
    outs = f"({', '.join(results)})"
    lines.append(f"%r:{len(results)} = func.call @inner({', '.join(read)}) : ({', '.join(arguments)}) -> {outs}")
    returned: list[tuple[str, str]] = []
    for number, type_ in enumerate(results):
        part = _part(type_)
        values = [f"%r#{number}"]
        if "complex" in type_:
            values = [f"%re{number}", f"%im{number}"]
            lines += [
                f"{name} = stablehlo.{op} %r#{number} : ({type_}) -> {_with(type_, part)}"
                for name, op in zip(values, ("real", "imag"), strict=True)
            ]
        for k, value in enumerate(values):
            lines.append(_convert(f"%out{number}_{k}", value, _with(type_, part), _with(type_, stored(part))))
            returned.append((f"%out{number}_{k}", _with(type_, stored(part))))
    types = ", ".join(type_ for _, type_ in returned)
    lines.append(f"return {', '.join(name for name, _ in returned)} : {types}")
    inner = text[: found.start()] + text[found.start() :].replace("func.func public @main(", "func.func private @inner(", 1)
    body = "".join(f"  {line}\n" for line in lines)
    outer = f"func.func public @main({', '.join(given)}) -> ({types}) {{\n{body}}}\n"
    end = inner.rstrip()
    return end[:-1] + outer + "}\n" if text.startswith("module") else inner + outer


def _element(type_: str) -> str:
    return type_.removeprefix("tensor<").removesuffix(">").rpartition("x")[2] if "complex" not in type_ else "complex"


def _part(type_: str) -> str:
    """The element type, or that of the parts of a complex number."""
    return re.findall(r"complex<(\w+)>", type_)[0] if "complex" in type_ else _element(type_)


def _with(type_: str, element: str) -> str:
    """The type with another element type."""
    old = re.findall(r"complex<\w+>", type_)[0] if "complex" in type_ else _element(type_)
    return f"{type_[: type_.rindex(old)]}{element}>"


def _convert(name: str, value: str, source: str, target: str) -> str:
    return f"{name} = stablehlo.convert {value} : ({source}) -> {target}"
