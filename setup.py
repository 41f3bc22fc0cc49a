"""Builds the emulator's core, one per instruction set, and the native part of the jax plugin as plain shared libraries beside their
Python loaders. Without a compiler there are none, which is no error."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

NATIVE = Path("hlo2tx8/device/native")
PLUGIN = Path("hlo2tx8/pjrt/native")
# Each writes headers into the folder it is given.
GENERATORS = ("hlo2tx8.device.native.generate", "hlo2tx8.pjrt.header")
# Value-safe options only: no fused multiply-add, no fast-math; traps and errno are not observed, integers wrap.
OPTIONS = [
    "-O3",
    "-g0",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    "-Wno-psabi",
    "-pthread",
]
X86_LEVELS = {
    "v2": ["-march=x86-64-v2", "-DTX8_LEVEL=2"],
    "v3": ["-march=x86-64-v3", "-DTX8_LEVEL=3"],
    "v4": ["-march=x86-64-v4", "-DTX8_LEVEL=4", "-mprefer-vector-width=512"],
}


def levels() -> dict[str, list[str]]:
    """Compiler options by instruction set; a universal macOS build and other machines take the compiler's default.

    HLO2TX8_LEVELS names the instruction sets to build for, all without it: one is quicker to try things with.
    """
    is_x86 = platform.machine().lower() in ("x86_64", "amd64") and sys.platform != "darwin"
    chosen = os.environ.get("HLO2TX8_LEVELS", " ".join(X86_LEVELS)).split()
    return {name: X86_LEVELS[name] for name in chosen} if is_x86 else {"baseline": []}


class BuildCore(build_ext):
    """Plain libraries: no Python symbol to export, objects of each level apart, headers generated from the Python declarations."""

    def build_extensions(self) -> None:
        folder = Path(self.build_temp).absolute() / "generated"
        for module in GENERATORS:
            subprocess.run([sys.executable, "-m", module, str(folder)], cwd=Path(__file__).parent, check=True)
        for extension in self.extensions:
            extension.include_dirs.append(str(folder))
            extension.depends += [str(path) for path in sorted(folder.glob("*.h"))]
        super().build_extensions()

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def build_extension(self, ext: Extension) -> None:
        objects = self.build_temp
        self.build_temp = str(Path(objects) / ext.name)
        try:
            super().build_extension(ext)
        finally:
            self.build_temp = objects


setup(
    ext_modules=[
        Extension(
            f"hlo2tx8.device.native.core_{level}",
            sources=[str(path) for path in sorted(NATIVE.glob("*.c"))],
            depends=[str(path) for path in sorted(NATIVE.glob("*.h"))],
            include_dirs=[str(NATIVE)],
            extra_compile_args=[*OPTIONS, *options],
            extra_link_args=["-pthread"],
            libraries=["m"],
            optional=True,
        )
        for level, options in levels().items()
    ]
    + [
        Extension(
            "hlo2tx8.pjrt.native.plugin",
            sources=[str(path) for path in sorted(PLUGIN.glob("*.c"))],
            depends=[str(path) for path in sorted(PLUGIN.glob("*.h"))],
            include_dirs=[str(PLUGIN)],
            extra_compile_args=["-O2", "-g0", "-std=gnu11", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildCore},
)
