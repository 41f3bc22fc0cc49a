"""Chromium driven by its own protocol over two pipes: no driver and no package is needed, only the browser."""

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def found() -> str | None:
    """The browser's path, None without one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser without a window; `errors` are what scripts raised or wrote to the console as errors."""

    def __init__(self, width: int = 1280, height: int = 800) -> None:
        self.errors: list[str] = []
        self._numbers = itertools.count(1)
        self._profile = tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True)
        take, give = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (take[0], give[1])]
        command = f'exec "$0" "$@" 3<&{theirs[0]} 4>&{theirs[1]}'  # where it reads and writes
        flags = (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
        )
        flags += (
            f"--user-data-dir={self._profile.name}",
            f"--window-size={width},{height}",
            "--remote-debugging-pipe",
            "about:blank",
        )
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(["bash", "-c", command, str(found()), *flags], pass_fds=theirs, **quiet)
        for end in (*theirs, take[0], give[1]):
            os.close(end)
        self._to, self._from, self._rest = take[1], give[0], b""
        targets = self._ask("Target.getTargets")["targetInfos"]
        target = next(t for t in targets if t["type"] == "page")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def resize(self, width: int, height: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, page: Path, ready: str = "document.body?.dataset.ready", seconds: float = 30) -> float:
        """Open a file and wait until it is ready: the seconds that took."""
        self.errors.clear()
        started = time.monotonic()
        self.ask("Page.navigate", url=page.absolute().as_uri())
        self.wait(ready, seconds)
        return time.monotonic() - started

    def wait(self, condition: str, seconds: float = 10) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"{condition} is not true after {seconds} s; {self.errors}"
            time.sleep(0.02)

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript; a promise's when it has one."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"].get("exception", found)
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, selector: str, text: str) -> None:
        """Give a field a value, as a person would."""
        change = f"f.value = {json.dumps(text)}; for (const e of ['input', 'change']) f.dispatchEvent(new Event(e));"
        self.run(f"(f => {{ {change} }})(document.querySelector({json.dumps(selector)}))")

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """A command to the page."""
        return self._ask(method, self._session, **parameters)

    def _ask(self, method: str, session: str = "", **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                return found["result"]
            self._hear(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "the browser is gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(str([a.get("value", a.get("description")) for a in parameters["args"]]))
            case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                self.errors.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent" if not parameters["request"]["url"].startswith(("file:", "data:", "blob:")):
                self.errors.append(f"asks for {parameters['request']['url']}")
            case _:
                pass
