"""Which build of the native core is taken, and what is said when there is none."""

import subprocess
from pathlib import Path

import pytest

from hlo2tx8.device.native import loader


@pytest.mark.parametrize("built", [None, "core_v2.so"])
def test_no_core_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, built: str | None):
    path = tmp_path / built if built else None
    if path:
        path.write_bytes(b"no library")
    monkeypatch.setattr(loader, "_path", lambda _level: path)
    with pytest.warns(RuntimeWarning, match="no native core, programs run in the slow definition tier"):
        reason = loader.load.__wrapped__()
    assert isinstance(reason, str) and ("core_v2.so" in reason if built else "install with a C compiler" in reason)


def test_a_core_older_than_the_sources_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """One that was built before a function was added, as behind a pull without a build."""
    source, built = tmp_path / "old.c", tmp_path / "core_v2.so"
    digest = loader.declarations.digest()
    source.write_text(
        f"int tx8_abi_version(void) {{ return {loader.ABI_VERSION}; }}\n"
        f'const char *tx8_declarations(void) {{ return "{digest}"; }}\n'
        'const char *tx8_headers(void) { return ""; }\n'
        "int tx8_supported(void) { return 1; }\n"
        "void *tx8_create(void) { return 0; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, source], check=True)
    monkeypatch.setattr(loader, "_path", lambda _level: built)
    with pytest.warns(RuntimeWarning, match="no native core"):
        reason = loader.load.__wrapped__()
    assert reason == f"core_v2.so is older than the sources, tx8_restart is not in it; {loader.REBUILD}"
    assert "make native" in reason
