"""Which build of the native core is taken, and what is said when there is none."""

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
