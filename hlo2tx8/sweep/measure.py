"""The process of a sweep: one module on one chip, compiled and modelled. Its task holds all that decides the answer."""

import base64
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hlo2tx8.compiler.found_plans import code_version
from hlo2tx8.device.chip import ChipError, load_chip
from hlo2tx8.device.proxies import area, power
from hlo2tx8.errors import Hlo2tx8Error
from hlo2tx8.options import Options
from hlo2tx8.runtime.compile import compile_source
from hlo2tx8.sweep.child import serve


def measure(task: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a point: `status` ok, refused or failed with `why`, and what is known; `version` is the code that says so."""
    started = time.process_time()
    found: dict[str, Any] = {"version": code_version(), "status": "ok", "why": ""}
    try:
        found |= _modelled(task)
    except (Hlo2tx8Error, ChipError) as error:
        found |= {"status": "refused", "why": " ".join(str(error).split())}
    except Exception as error:
        found |= {"status": "failed", "why": f"error E1000: internal error: {type(error).__name__}: {error}".partition("\n")[0]}
    return found | {"cpu_seconds": round(time.process_time() - started, 3)}


def _modelled(task: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="hlo2tx8-sweep-") as folder:
        file = Path(folder, "chip.yaml")
        file.write_text(json.dumps(task["chip"]))
        try:
            chip = load_chip(file)
        except ChipError as error:
            raise ChipError(str(error).replace(f"{file}: ", "")) from None
        options = Options(chip=file, **task["options"])
        executable = compile_source(base64.b64decode(task["module"]), options, format=task["format"])
        cost, bound = executable.report, executable.lower_bound
    return {
        "cycles": float(cost.cycles),
        "microseconds": cost.cycles / chip.clock_hz * 1e6,
        "bound_cycles": None if bound is None else float(bound.cycles),
        "bound": cost.bound,
        "ddr_bytes": float(cost.ddr_bytes),
        "flops": float(cost.operations),
        "spm_used": float(executable.memory_analysis()["spm_size_in_bytes"]),
        "area": area(chip),
        "power": power(chip),
    }


if __name__ == "__main__":
    serve(measure)
