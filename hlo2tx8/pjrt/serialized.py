"""Executables as bytes, for jax's compilation cache and ahead-of-time programs.

version           of this package; others are refused
module.mlirbc     the portable artifact, from which everything can be compiled again
options.pb        jax's compile options
program.tx8x      the compiled program; absent where it is compiled again: several devices, tokens, interruptions
"""

import io
import zipfile

import hlo2tx8
from hlo2tx8.errors import ContainerError
from hlo2tx8.options import Level, Options
from hlo2tx8.pjrt.compilation import Compiled, Compiler, Request, describe
from hlo2tx8.runtime.container import read_file, write_file
from hlo2tx8.runtime.executable import Executable

_VERSION, _MODULE, _OPTIONS, _PROGRAM = "version", "module.mlirbc", "options.pb", "program.tx8x"
_LIMIT = 4 << 30


def serialize(compiled: Compiled, request: Request) -> bytes:
    """The executable's bytes."""
    members = {_VERSION: hlo2tx8.__version__.encode(), _MODULE: request.code, _OPTIONS: request.serialized_options}
    executable = compiled.executable
    is_plain = not (compiled.token_inputs or compiled.token_outputs or compiled.output_shardings)
    if isinstance(executable, Executable) and is_plain:
        stream = io.BytesIO()
        write_file(executable, stream, levels=(Level.PROGRAM,))
        members[_PROGRAM] = stream.getvalue()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return target.getvalue()


def deserialize(data: bytes, serialized_options: bytes, options: Options, compiler: Compiler) -> tuple[Compiled, Request]:
    """The executable, for other compile options if any are given; ContainerError if the bytes are damaged or of another version."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if any(info.file_size > _LIMIT for info in file.infolist()):
                raise ContainerError("E1007", "a serialized executable with a member of more than 4 GiB")
            members = {name: file.read(name) for name in file.namelist()}
            version, code, stored = members[_VERSION].decode(), members[_MODULE], members[_OPTIONS]
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, OSError) as error:
        raise ContainerError("E1007", f"no serialized tx8 executable: {error}") from None
    if version != hlo2tx8.__version__:
        raise ContainerError("E1007", f"an executable of hlo2tx8 {version}; this is {hlo2tx8.__version__}")
    request = Request.of(code, serialized_options or stored, options)
    if _PROGRAM not in members:
        return compiler.compile(request), request
    return describe(read_file(io.BytesIO(members[_PROGRAM]), _PROGRAM), request.code), request
