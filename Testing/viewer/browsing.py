"""Start `anatemb view` as a separate program, and open its page in Chromium without a window."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from system_packages import find_program

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = find_program("chromium")
TOKEN = "token-of-the-tests-1234"
VIEW = [sys.executable, "-m", "AnatomicalEmbedding", "view", "--no-browser", "--token", TOKEN]
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WAIT_MS = 240_000  # a machine that is busy is no failure; what never comes fails, if late


@contextmanager
def open_browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, headless=True, args=_ARGUMENTS
        )
        try:
            yield browser
        finally:
            browser.close()


class Running:
    """The program while it runs. url: what it printed, with the token. program: the folder that it is imported from."""

    def __init__(self, folder: Path, *arguments: str, program: Path = ROOT) -> None:
        self.folder = folder
        self._log = folder / "log.txt"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        environment = os.environ | {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TMPDIR": str(self.temporary),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(program), str(program / "SlicerModules")]),
        }
        command = [*VIEW, *arguments]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=program, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.url = self._printed_url()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def errors(self) -> list[str]:
        """Lines of the log that tell of something gone wrong."""
        return [
            line
            for line in self.log.splitlines()
            if re.search(r"Traceback|ERROR|\bError\b|Exception", line)
        ]

    def stop(self, seconds: float = 60.0) -> int:
        """Ctrl-C; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def _printed_url(self, seconds: float = 60.0) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"http://\S+", self.log)
            if found:
                return found.group(0)
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(f"the viewer did not start:\n{self.log}")

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_error) -> None:
        self.stop()


class Page:
    """The viewer's page. faults: errors of its script and refused requests, but for the calls of trame's script that
    were under way when the socket closed (another page opened, the program ended): it rejects them with an object."""

    def __init__(
        self, browser, running: Running, size: tuple[int, int] = (1400, 860), density: float = 1.0
    ) -> None:
        self.running = running
        self.faults = []
        viewport = {"width": size[0], "height": size[1]}
        self.page = browser.new_page(
            viewport=viewport, device_scale_factor=density, accept_downloads=True
        )
        self.page.set_default_timeout(_WAIT_MS)
        self.page.on("pageerror", self._note_fault)
        self.page.goto(running.url)

    def _note_fault(self, error) -> None:
        if str(error) != "Object":
            self.faults.append(str(error))

    def close(self) -> None:
        self.page.close()

    def wait(self, expression: str) -> None:
        """Until a JavaScript expression is true."""
        self.page.wait_for_function(expression)

    def wait_ready(self, count: int) -> None:
        """Until that many scans are embedded, and drawn."""
        self.wait(f"document.querySelectorAll('li[data-status=ready]').length === {count}")
        self.wait(f"document.querySelectorAll('.row .cell img').length >= {count}")

    def press(self, name: str) -> None:
        self.page.click(f"[data-test={name}]")

    def reset(self) -> None:
        """Go back to both scans of the tests, fitted, without points, boxes, words or sentences."""
        self.page.keyboard.press("Control+f")
        self.page.keyboard.press("Escape")
        self.press("tab-points")
        self.place_mode(False)
        if self.is_on("crosshair"):
            self.press("crosshair")
        if not self.is_on("link"):
            self.press("link")
        for name in self.names()[2:]:
            self.remove(name)
        if not self.page.is_checked("li[data-scan=prior] input[type=radio]"):
            self.page.check("li[data-scan=prior] input[type=radio]")
        for left in range(len(self.points()) - 1, -1, -1):
            self.page.locator("[data-point] tr.point button").first.click()
            self.wait(f"document.querySelectorAll('[data-point]').length === {left}")
        self.press("rows")
        self.press("fit")
        self.dismiss_all()
        self.wait("document.querySelectorAll('.cell img').length === 6")

    def is_on(self, name: str) -> bool:
        return "on" in (self.page.get_attribute(f"[data-test={name}]", "class") or "").split()

    def names(self) -> list[str]:
        """The names of the scans, in the order of their rows."""
        return self.page.eval_on_selector_all(
            "li[data-scan]", "all => all.map((each) => each.dataset.scan)"
        )

    def remove(self, name: str) -> None:
        self.page.click(f"li[data-scan='{name}'] > button")
        self.wait(f"!document.querySelector(\"li[data-scan='{name}']\")")

    def place_mode(self, on: bool = True) -> None:
        if self.is_on("place") != on:
            self.press("place")
            self.wait(
                f"document.querySelector('[data-test=place]').classList.contains('on') === {str(on).lower()}"
            )

    def at(self, view: str, across: float, down: float) -> tuple[float, float]:
        """Pixels of a place in a view, given as shares of its width and height."""
        box = self.page.locator(f"[data-view={view}]").bounding_box()
        return box["x"] + across * box["width"], box["y"] + down * box["height"]

    def click(self, view: str, across: float, down: float) -> None:
        x, y = self.at(view, across, down)
        self.page.mouse.move(x - 8, y)
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.up()

    def add_point(self, view: str, across: float, down: float) -> dict:
        """Place a point by the mouse; what the table says of it, once it is answered in every scan."""
        before = len(self.points())
        self.place_mode()
        self.click(view, across, down)
        self.wait(f"document.querySelectorAll('[data-point]').length === {before + 1}")
        self.wait("document.querySelectorAll('[data-point] .answer.pending').length === 0")
        return self.points()[0]

    def points(self) -> list[dict]:
        """What the table shows, the latest first."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll('[data-point]')].map((body) => ({
                label: body.querySelector('input').value,
                place: body.querySelector('.place').textContent,
                answers: [...body.querySelectorAll('.answer')].map((row) => ({
                    scan: row.dataset.answer, status: row.className.replace('answer', '').trim(),
                    text: row.querySelector('.status').textContent, error: row.querySelector('.error').textContent,
                })),
            }))"""
        )

    def state(self, name: str):
        """A value that the server keeps for the page."""
        return self.page.evaluate(f"() => window.trame.state.get({name!r})")

    def sentences(self) -> list[str]:
        return self.page.locator(".sentences p span").all_inner_texts()

    def wait_sentence(self, part: str) -> str:
        """Until a sentence on the page holds these words; all of it."""
        found = self.page.locator(".sentences p span", has_text=part).first
        found.wait_for()
        return found.inner_text()

    def dismiss_all(self) -> None:
        """Press the cross of every sentence."""
        while left := len(self.sentences()):
            self.page.locator(".sentences button").first.evaluate("(button) => button.click()")
            self.wait(f"document.querySelectorAll('.sentences p').length < {left}")

    def download(self, name: str, folder: Path) -> Path:
        """Press what downloads; the file, in `folder`."""
        with self.page.expect_download() as waiting:
            self.press(name)
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path

    def export(self, name: str, folder: Path) -> Path:
        self.press("export")
        return self.download(f"export-{name}", folder)

    def send(self, *paths: Path) -> None:
        """Upload files, until the server has taken them in."""
        with self._sent():
            self.page.set_input_files("[data-test=files]", [str(path) for path in paths])

    def send_folder(self, folder: Path) -> None:
        """Upload a folder by its own button."""
        with self._sent():
            self.page.set_input_files("[data-test=folder]", str(folder))

    def drop(self, *paths: Path) -> None:
        """Drag files or folders from outside onto the page, and let them fall."""
        x, y = self.at("scan0axial", 0.5, 0.5)
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        session = self.page.context.new_cdp_session(self.page)
        with self._sent():
            for kind in ("dragEnter", "dragOver", "drop"):
                session.send(
                    "Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data}
                )
        session.detach()

    @contextmanager
    def _sent(self) -> Iterator[None]:
        """Until the upload that begins inside has ended."""
        before = int(self.page.get_attribute("body", "data-sent") or 0)
        yield
        self.wait(f"Number(document.body.dataset.sent || 0) === {before + 1}")

    def drag(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        button: str = "left",
        key: str = "",
    ) -> None:
        """Move the mouse with a button pressed, and a key if any."""
        mouse = self.page.mouse
        if key:
            self.page.keyboard.down(key)
        mouse.move(*start)
        mouse.down(button=button)
        mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=3)
        mouse.move(*end, steps=3)
        mouse.up(button=button)
        if key:
            self.page.keyboard.up(key)

    def picture(self, view: str) -> np.ndarray:
        """(rows, columns, 3) of the middle of a view, RGB, once it no longer changes."""
        box = self.page.locator(f"[data-view={view}]").bounding_box()
        before = None
        clip = {
            "x": box["x"] + 40,
            "y": box["y"] + 50,
            "width": box["width"] - 80,
            "height": box["height"] - 100,
        }
        for _ in range(40):
            self.page.wait_for_timeout(200)
            now = self.page.screenshot(clip=clip)
            if now == before:
                break
            before = now
        return np.asarray(Image.open(io.BytesIO(now)).convert("RGB"), dtype=int)

    def watch_pictures(self) -> None:
        """Begin to count the pictures that each view shows."""
        self.page.evaluate(
            """() => {
                window.pictures = {};
                for (const cell of document.querySelectorAll('.cell')) {
                    const tag = cell.dataset.view;
                    window.pictures[tag] = 0;
                    new MutationObserver(() => window.pictures[tag]++).observe(
                        cell.querySelector('img'), {attributes: true, attributeFilter: ['src']});
                }
            }"""
        )


def read_bundle(path: Path, folder: Path):
    """The scene of a .mrb, opened by slicer-core in a scene of its own."""
    import slicer

    scene = slicer.vtkMRMLScene()
    scene.logics = [logic := slicer.vtkSlicerApplicationLogic()]
    logic.SetMRMLScene(scene)
    for name in (
        "VolumesLogic",
        "MarkupsLogic",
        "SubjectHierarchyModuleLogic",
        "SegmentationsModuleLogic",
    ):
        each = getattr(slicer, f"vtkSlicer{name}")()
        each.SetMRMLApplicationLogic(logic)
        each.SetMRMLScene(scene)
        scene.logics.append(each)
    cache = slicer.vtkCacheManager()
    io_manager = slicer.vtkDataIOManager()
    cache.SetRemoteCacheDirectory(str(folder))  # without it the bundle is read as an empty scene
    scene.SetCacheManager(cache)
    io_manager.SetCacheManager(cache)
    scene.SetDataIOManager(io_manager)
    scene.ReadFromMRB(str(path), True)
    return scene
