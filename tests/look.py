"""`make look`: reports opened in a real browser, photographed, and checked as they are drawn.

For each report, width and colour scheme: nothing sticks out of its box, every chart has the names and labels of its
axes, no script failed, and nothing was asked of anybody. The pictures are for people to look at.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tenure.spark.report import write_report
from tests.spark.gold import MONDAY, Lake, shop

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HOW = "`make look` needs Chromium: apt-get install chromium (or have google-chrome on the path)"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)

CHECK = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class View(msgspec.Struct, frozen=True):
    """A window."""

    name: str
    width: int
    scheme: str = "light"
    media: str = "screen"


VIEWS = (
    View("desktop", 1280),
    View("dark", 1280, "dark"),
    View("tablet", 820),
    View("narrow", 400),
    View("paper", 720, media="print"),
)


class Browser:
    """Chromium through a pipe: commands in, answers and events out."""

    def __init__(self, sent: BinaryIO, heard: BinaryIO) -> None:
        self._sent, self._heard = sent, heard
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._sent.write(json.dumps(message).encode() + b"\0")
        self._sent.flush()
        return self._until(lambda said: said.get("id") == self._number)

    def wait(self, event: str) -> None:
        """Until an event has come, or has been there already."""
        if not any(said["method"] == event for said in self.events):
            self._until(lambda said: said.get("method") == event)

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            said = json.loads(self._read())
            if "method" in said:
                self.events.append(said)
            if "error" in said:
                raise RuntimeError(f"the browser refused: {said['error']}")
            if wanted(said):
                return said.get("result") or {}

    def _read(self) -> bytes:
        found = bytearray()
        while (byte := self._heard.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser is gone")
            found += byte
        return bytes(found)


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A browser with nothing of anybody's in it, ended at the end."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    def wired() -> None:
        """Chromium reads from 3 and writes to 4."""
        commands, answers = os.dup(to_read), os.dup(from_write)
        os.dup2(commands, 3)
        os.dup2(answers, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, preexec_fn=wired, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        with open(to_write, "wb") as sent, open(from_read, "rb") as heard:
            try:
                yield Browser(sent, heard)
            finally:
                with suppress(OSError, RuntimeError):
                    Browser.call(Browser(sent, heard), "Browser.close")
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def look(program: str, report: Path, view: View, picture: Path) -> list[str]:
    """What is wrong with a report in a window; its picture is written."""
    with browser(program) as chromium:
        target = chromium.call("Target.createTarget", url="about:blank")["targetId"]
        page = chromium.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            chromium.call(f"{domain}.enable", page)
        window = {"width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": view.width < 600}
        chromium.call("Emulation.setDeviceMetricsOverride", page, **window)
        scheme = [{"name": "prefers-color-scheme", "value": view.scheme}]
        chromium.call("Emulation.setEmulatedMedia", page, media=view.media, features=scheme)
        chromium.call("Page.navigate", page, url=report.as_uri())
        chromium.wait("Page.loadEventFired")
        found = json.loads(chromium.call("Runtime.evaluate", page, expression=CHECK)["result"]["value"])
        size = chromium.call("Page.getLayoutMetrics", page)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": view.width, "height": size["height"], "scale": 1}
        shot = chromium.call("Page.captureScreenshot", page, captureBeyondViewport=True, clip=clip)
        picture.write_bytes(base64.b64decode(shot["data"]))
        return [
            *found["wrong"],
            *_heard(chromium.events, report),
            *(["a text of the lake ran"] if found["hijacked"] else []),
        ]


def _heard(events: list[dict[str, Any]], report: Path) -> Iterator[str]:
    """What the browser said that it shouldn't have: requests, errors, refusals of the page's policy."""
    for event in events:
        said = event["params"]
        match event["method"]:
            case "Network.requestWillBeSent" if said["request"]["url"].split("#")[0] != report.as_uri():
                yield f"asked for {said['request']['url'][:120]}"
            case "Runtime.exceptionThrown":
                yield f"a script failed: {said['exceptionDetails'].get('exception', {}).get('description', said)}"
            case "Log.entryAdded" if said["entry"]["level"] in ("error", "warning"):
                yield f"the browser complained: {said['entry']['text'][:200]}"


# Reports to look at


HOSTILE = (
    "</script><script>window.hijacked = 1</script>",
    "<img src=x onerror='window.hijacked = 1'>",
    "\"'><svg onload=window.hijacked=1>",
    "a\u2028b\u2029c\u202ed {a|b} @count $bad \\u003c",
    "x" * 300,
)


class Hostile(Lake):
    """A lake whose every name and message are texts that would like to be something else."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        for text in texts:
            names: dict[str, Any] = {"tenant": text, "queue": text, "job_type": text}
            self.hour(MONDAY, **names, enqueued=40, started=80, succeeded=30, failed=10, retries=40, busy_ms=90_000)
            self.durations(MONDAY, "wait", [5, 50, 500], **names)
            self.durations(MONDAY, "run", [5, 50, 500], **names)
            self.failure(MONDAY, text, text * 4, 50, 10, **names)
            self.usage(MONDAY, 90_000, 80, text, **names)


def reports(folder: Path) -> dict[str, Path]:
    """The shop's week, one of hostile texts, a lake of one hour, and an empty one."""
    young = Lake()
    young.hour(MONDAY, enqueued=3, started=3, succeeded=3, busy_ms=30, slo_n=3, slo_ok=3)
    young.durations(MONDAY, "wait", [1, 2, 3])
    young.durations(MONDAY, "run", [10, 10, 10])
    young.usage(MONDAY, 30, 3)
    lakes = {"week": shop(), "hostile": Hostile(*HOSTILE), "young": young, "empty": Lake()}
    return {
        name: write_report(lake.write(folder / f"{name}-lake"), folder / f"{name}.html", tz="Europe/Berlin")
        for name, lake in lakes.items()
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=Path(tempfile.gettempdir()) / "tenure-look", help="where the pictures go"
    )
    folder = parser.parse_args(argv).to.resolve()
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        print(HOW, file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    faults = 0
    for name, report in reports(folder).items():
        for view in VIEWS:
            picture = folder / f"{name}-{view.name}.png"
            wrong = look(program, report, view, picture)
            faults += len(wrong)
            print(f"{'FAULTY' if wrong else 'fine  '}  {picture}")
            for one in wrong:
                print(f"        {one}")
    print(f"{faults} faults" if faults else "nothing overflows, every axis is labelled, nothing was requested")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
