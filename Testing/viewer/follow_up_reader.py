"""The follow-up page as a reader of scans uses it, and the DICOM studies of a patient to read."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from browsing import Page, Running
from followup.dicom_series import write_ct_series

from AnatomicalEmbedding.phantom import make_phantom

DAYS = {"prior": "20240115", "current": "20240711"}
CLOSE_MM = 130.0  # across the shorter side of a view, close up


def write_studies(folder: Path) -> None:
    """DICOM folders of one synthetic patient on two days; anatomy lies at the same RAS places in both."""
    scans = [make_phantom(71, (4.0, 4.0, 4.0), (150.0, 480.0)), make_phantom(71, (3.0, 3.0, 5.0), (200.0, 480.0))]
    for (name, day), scan in zip(DAYS.items(), scans, strict=True):
        write_ct_series(folder / name, scan.volume, StudyDate=day)


@contextmanager
def open_reading(browser, studies: Path, folder: Path) -> Iterator[Reading]:
    """The page with both studies, given latest first, and the follow-up in front; its faults fail the user of it."""
    with Running(folder, str(studies / "current"), str(studies / "prior")) as program:
        opened = Reading(browser, program)
        opened.wait_ready(2)
        opened.press("tab-lesions")
        opened.wait("!!document.querySelector('[data-study=prior]')")
        yield opened
        opened.close()
        assert opened.faults == []
        assert program.errors() == []


class Reading(Page):
    """The page as a reader uses it."""

    def key(self, key: str) -> None:
        self.page.keyboard.press(key)

    def cells(self) -> dict[str, list[str]]:
        """Lesion -> what each study's cell says, in order of time."""
        return self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll('[data-lesion]')].map((row) => [
                row.dataset.lesion,
                [...row.querySelectorAll('td')].map(
                    (cell) => [...cell.children].map((each) => each.textContent).join(' ')),
            ]))"""
        )

    def wait_cell(self, lesion: str, column: int, words: str) -> str:
        """Until a cell says these words; all that it says."""
        cell = self.page.locator(f"[data-lesion={lesion}] [data-cell='{column}']", has_text=re.compile(words))
        cell.wait_for()
        return self.cells()[lesion][column]

    def choose(self, lesion: str, column: int) -> None:
        self.page.click(f"[data-lesion={lesion}] [data-cell='{column}']")
        self.page.locator(f"[data-lesion={lesion}] [data-cell='{column}'].here").wait_for()

    def begin(self, key: str, action: str) -> None:
        """Press a key after which the mouse places something, and wait until it does."""
        self.key(key)
        self.page.locator(f"[data-test='{action}'].on").wait_for()

    def mark(self, view: str, across: float, down: float) -> None:
        self.begin("w", "act-new")
        self.click(view, across, down)

    def view_of(self, study: str) -> str:
        """Its axial view."""
        cell = self.page.locator(".row", has=self.page.locator("h2 b", has_text=study)).locator(".cell").first
        return cell.get_attribute("data-view")

    def mm_across(self, view: str) -> float:
        """What a view shows across its width, close up."""
        box = self.page.locator(f"[data-view={view}]").bounding_box()
        return CLOSE_MM * box["width"] / min(box["width"], box["height"])

    def close_up(self) -> None:
        if not self.state("close_up"):
            self.key("z")
            self.wait("window.trame.state.get('close_up')")
        self.page.wait_for_timeout(300)  # views have their new size

    def exported(self, folder) -> dict[str, bytes]:
        with zipfile.ZipFile(self.download("follow-export", folder)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def table(self, folder) -> dict[tuple[str, str], dict]:
        """(lesion, study) -> row of the CSV."""
        text = self.exported(folder)["follow-up.csv"].decode("utf-8-sig")
        return {(row["lesion"], row["study"]): row for row in csv.DictReader(io.StringIO(text))}

    def mark_and_confirm(self, lesion: str, across: float, down: float) -> None:
        """A new lesion in the prior study, and its place in the current one as it is proposed."""
        self.mark(self.view_of("prior"), across, down)
        self.wait_cell(lesion, 1, "proposed|uncertain")
        self.choose(lesion, 1)
        self.key("c")
        self.wait_cell(lesion, 1, "confirmed")

    def draw(self, key: str, action: str, view: str, start: tuple, end: tuple) -> None:
        self.begin(key, action)
        self.click(view, *start)
        self.click(view, *end)

    def load(self, path: Path) -> None:
        """A record of an earlier session."""
        self.page.set_input_files("[data-test=follow-load]", str(path))


def place(row: dict) -> np.ndarray:
    return np.array([float(row[axis]) for axis in ("R_mm", "A_mm", "S_mm")])
