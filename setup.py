"""Builds the emulator's core, one per instruction set, the native part of the jax plugin, and the runtime for C as plain shared
libraries beside their Python loaders.

They use no symbol of Python's, so one wheel per system serves every Python. Where no compiler runs the build ends with what to
install; HLO2TX8_WITHOUT_NATIVE=1 leaves them out, and the definition in Python does the work, slowly and without a device for jax.
"""

import os
import subprocess
import sys
import sysconfig
from copy import copy
from pathlib import Path
from shutil import copyfile

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError, ExecError, LinkError

NATIVE = Path("hlo2tx8/device/native")
PLUGIN = Path("hlo2tx8/pjrt/native")
RUNTIME = Path("hlo2tx8/runtime/native")
MODEL = Path("hlo2tx8/vendor/native")
WHAT_TO_DO = (
    "hlo2tx8 needs a C compiler to be built from source, for example `apt-get install gcc libc6-dev`. A wheel needs none. "
    "HLO2TX8_WITHOUT_NATIVE=1 builds it without: no device for jax, and programs run in Python, slowly."
)
# Each writes headers into the folder it is given.
GENERATORS = ("hlo2tx8.device.native.generate", "hlo2tx8.pjrt.header", "hlo2tx8.vendor.native.generate")
# Value-safe options only: no fused multiply-add, no fast-math; traps and errno are not observed, integers wrap.
OPTIONS = (NATIVE / "options.txt").read_text().split()
# Calls from one file to another are inlined too: a record takes a dozen of them. Not every compiler and its linker can do so.
WHOLE = ["-flto=auto"]
X86_LEVELS = {
    "v2": ["-march=x86-64-v2", "-DTX8_LEVEL=2"],
    "v3": ["-march=x86-64-v3", "-DTX8_LEVEL=3"],
    "v4": ["-march=x86-64-v4", "-DTX8_LEVEL=4", "-mprefer-vector-width=512"],
}


def levels() -> dict[str, list[str]]:
    """Compiler options by instruction set of the machine that is built for, which _PYTHON_HOST_PLATFORM names if it is another;
    a universal macOS build and other machines take the compiler's default.

    HLO2TX8_LEVELS names the instruction sets to build for, all without it: one is quicker to try things with.
    """
    is_x86 = sysconfig.get_platform().endswith(("x86_64", "amd64")) and sys.platform != "darwin"
    chosen = os.environ.get("HLO2TX8_LEVELS", " ".join(X86_LEVELS)).split()
    return {name: X86_LEVELS[name] for name in chosen} if is_x86 else {"baseline": []}


class BuildError(BaseError):
    """The native libraries cannot be built."""


class BuildCore(build_ext):
    """Plain libraries: no Python symbol to export, objects of each level apart, headers generated from the Python declarations."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True  # all processors; a number given stays

    def build_extensions(self) -> None:
        folder = Path(self.build_temp).absolute() / "generated"
        for module in GENERATORS:
            subprocess.run([sys.executable, "-m", module, str(folder)], cwd=Path(__file__).parent, check=True)
        for extension in self.extensions:
            extension.include_dirs.append(str(folder))
            extension.depends += [str(path) for path in sorted(folder.glob("*.h"))]
            if extension.name.startswith("hlo2tx8.vendor"):  # main programs include it
                beside = Path(self.get_ext_fullpath(extension.name)).parent
                beside.mkdir(parents=True, exist_ok=True)
                copyfile(folder / "tx8.h", beside / "tx8.h")
        if self._optimises_whole():
            for extension in self.extensions:
                if extension.name.startswith("hlo2tx8.device"):
                    extension.extra_compile_args += WHOLE
                    extension.extra_link_args += extension.extra_compile_args
        super().build_extensions()

    def _optimises_whole(self) -> bool:
        """Does the compiler take WHOLE, and the linker what comes of it? Tried on a function."""
        folder = Path(self.build_temp).absolute() / "whole"
        source = folder / "whole.c"
        folder.mkdir(parents=True, exist_ok=True)
        source.write_text("int whole(void) { return 1; }\n")
        try:
            objects = self.compiler.compile([str(source)], output_dir=str(folder), extra_postargs=WHOLE)
            self.compiler.link_shared_object(objects, str(folder / "whole.so"), extra_postargs=WHOLE)
        except (CompileError, ExecError, LinkError):
            return False
        return True

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for extension in self.extensions:
            if extension.name.startswith("hlo2tx8.vendor"):
                copyfile(Path(self.build_lib) / MODEL / "tx8.h", MODEL / "tx8.h")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def build_extension(self, ext: Extension) -> None:
        apart = copy(self)
        apart.build_temp = str(Path(self.build_temp) / ext.name)
        try:
            super(BuildCore, apart).build_extension(ext)
        except (CompileError, ExecError, LinkError) as error:
            raise BuildError(f"{ext.name}: {error}\n{WHAT_TO_DO}") from None


class PlainWheel(bdist_wheel):
    """A wheel for every Python 3 of one system."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


LIBRARIES = [
    Extension(
        f"hlo2tx8.device.native.core_{level}",
        sources=[str(path) for path in sorted(NATIVE.glob("*.c"))],
        depends=[str(path) for path in sorted(NATIVE.glob("*.h"))],
        include_dirs=[str(NATIVE)],
        extra_compile_args=[*OPTIONS, *options],
        extra_link_args=["-pthread"],
        libraries=["m"],
    )
    for level, options in levels().items()
] + [
    Extension(
        "hlo2tx8.pjrt.native.plugin",
        sources=[str(path) for path in sorted(PLUGIN.glob("*.c"))],
        depends=[str(path) for path in sorted(PLUGIN.glob("*.h"))],
        include_dirs=[str(PLUGIN)],
        extra_compile_args=["-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread"],
    ),
    Extension(
        "hlo2tx8.runtime.native.libtx8runtime",
        sources=[str(path) for path in sorted(RUNTIME.glob("*.c"))],
        depends=[str(path) for path in sorted((*RUNTIME.glob("*.h"), *NATIVE.glob("*.h")))],
        include_dirs=[str(RUNTIME), str(NATIVE)],
        define_macros=[("_GNU_SOURCE", None)],
        extra_compile_args=["-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread"],
        libraries=["dl"],
    ),
    Extension(
        "hlo2tx8.vendor.native.libtx8model",
        sources=[*(str(path) for path in sorted(MODEL.glob("*.c"))), str(RUNTIME / "load.c")],
        depends=[str(path) for path in sorted((*MODEL.glob("*.h"), *NATIVE.glob("*.h"), RUNTIME / "load.h"))],
        include_dirs=[str(MODEL), str(RUNTIME), str(NATIVE)],
        define_macros=[("_GNU_SOURCE", None)],
        extra_compile_args=["-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-pthread"],
        extra_link_args=["-pthread"],
        libraries=["dl"],
    ),
]
setup(
    ext_modules=[] if os.environ.get("HLO2TX8_WITHOUT_NATIVE", "0") == "1" else LIBRARIES,
    cmdclass={"build_ext": BuildCore, "bdist_wheel": PlainWheel},
)
