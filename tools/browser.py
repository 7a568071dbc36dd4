"""A headless Chromium, driven by its DevTools protocol: for tests of the web page and pictures.

The machine's own, or else that of Debian's packages, extracted into the cache (as the engine is).
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import websocket

from tools.cluster.debian import extracted
from tools.cluster.shell import ClusterError, Say, silent
from tools.waiting import eventually

_Object = dict[str, Any]

_NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable")
_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root has none; it opens our own pages alone
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
_SECONDS = 30.0
_FONT_CONFIG = """<fontconfig>
<dir>{0}/fonts</dir><include ignore_missing="yes">{0}/fontconfig/conf.avail</include>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
</fontconfig>"""


class NoBrowserError(Exception):
    """There is no Chromium here, and none can be had."""


@dataclass(frozen=True, slots=True)
class Program:
    """Chromium, and the variables that it needs."""

    path: Path
    env: dict[str, str] = field(default_factory=dict)
    share: Path | None = None
    """Folder with fonts beside those of the machine, which may have none."""


def program(say: Say = silent) -> Program:
    """Return Chromium; the first call may download 130 MB. Raises NoBrowserError."""
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            return Program(Path(found))
    try:
        box = extracted("chromium", _PACKAGES, say)
        # The script beside it would look for its files at the root.
        (path,) = box.root.glob("usr/lib/chromium/*headless*shell")
    except (ClusterError, OSError, ValueError) as error:
        raise NoBrowserError(f"no Chromium on this machine or from Debian: {error}") from error
    # Where an installed package's own configuration would have the linker look as well.
    inner = [str(folder) for folder in sorted(box.root.glob("usr/lib/*-linux-gnu/pulseaudio"))]
    libraries = os.pathsep.join([box.env["LD_LIBRARY_PATH"], *inner])
    return Program(path, {"LD_LIBRARY_PATH": libraries}, box.root / "usr/share")


@dataclass(slots=True)
class Page:
    """One tab."""

    _socket: websocket.WebSocket
    _session: str = ""
    _last: int = 0
    problems: list[str] = field(default_factory=list)
    """What the browser complained of: errors of scripts, violations of the policy, lost files."""

    def call(self, method: str, **parameters: Any) -> _Object:  # noqa: ANN401 - JSON
        """Make a call of the DevTools protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            self._note(answer)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                found: _Object = answer["result"]
                return found

    def attach(self) -> None:
        """Make a tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")

    def look(self, width: int, *, dark: bool = False, height: int = 800) -> None:
        """Be a screen of so many CSS pixels, of a user who likes it light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,  # noqa: PLR2004 - phones
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - JSON
        """Return the value of a JavaScript expression. Raises AssertionError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = _SECONDS) -> Any:  # noqa: ANN401 - JSON
        """Wait until an expression is true; return its value."""
        return eventually(lambda: self.evaluate(expression), expression, seconds)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press a key and let it go."""
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def accessible(self) -> list[tuple[str, str]]:
        """Return role and name of all that a screen reader is told of, in its order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node["role"]["value"]), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node["ignored"]
        ]

    def picture(self, path: Path, most: int = 1600) -> None:
        """Write a picture of the whole page, or of its upper part."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "scale": 1}
        clip["height"] = min(size["height"], most)
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _note(self, answer: _Object) -> None:
        parameters = answer.get("params") or {}
        if answer.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:500])
        if answer.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["level"] in ("error", "warning"):
                self.problems.append(f"{entry['text']} {entry.get('url', '')}".strip())


@contextmanager
def browsing(found: Program) -> Iterator[Page]:
    """Start Chromium and give one tab of it; it is ended with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder,
        tempfile.TemporaryFile("w+") as log,
    ):
        env = {**os.environ, "HOME": folder, **found.env}
        if found.share is not None:
            config = Path(folder) / "fonts.conf"
            config.write_text(_FONT_CONFIG.format(found.share))
            env["FONTCONFIG_FILE"] = str(config)
        process = subprocess.Popen(
            [found.path, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            env=env,
            stdout=log,
            stderr=log,
        )
        try:
            address = _address(process, folder, log)
            connected = websocket.create_connection(address, timeout=_SECONDS)
            page = Page(connected)
            try:
                page.attach()
                yield page
            finally:
                connected.close()
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], folder: str, log: IO[str]) -> str:
    """Return the address of the DevTools, which Chromium writes into its folder."""
    file = Path(folder) / "DevToolsActivePort"
    deadline = time.monotonic() + _SECONDS
    while not (file.exists() and "\n" in file.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            raise NoBrowserError(f"Chromium does not start: {log.read()[-2000:]}")
        time.sleep(0.05)
    port, path = file.read_text().split()
    return f"ws://127.0.0.1:{port}{path}"
