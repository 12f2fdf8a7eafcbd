"""Take all pictures in Resources/Screenshots anew, with synthetic patients.

.venv-views/bin/python tools/take_pictures.py [NAME ...] [--slicer path/to/Slicer]

NAME: file names without extension; without names, all pictures are taken. The pictures of the modules are taken only
with --slicer. Needs Chromium.
"""

import argparse
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(ROOT / folder) for folder in ("Testing/viewer", "Testing", "tools", "SlicerModules", "")
]

from browsing import Page, Running, open_browser  # noqa: E402
from synthetic_follow_up import VISIBLE, LesionHistory, PhantomFollowUp, make_follow_up  # noqa: E402

from AnatomicalEmbedding.followup.lesions import Study  # noqa: E402
from AnatomicalEmbedding.followup.proposing import find_places  # noqa: E402
from AnatomicalEmbedding.followup.record import FollowUp  # noqa: E402

SCREENSHOTS = ROOT / "Resources" / "Screenshots"

# viewer.png and viewer-words.png: the two patients of `anatemb view --demo`
VIEWER_POINTS = (
    ("scan0coronal", 0.63, 0.74, "Left kidney"),
    ("scan0axial", 0.62, 0.42, "Heart"),
    ("scan0coronal", 0.27, 0.77, "Right kidney"),
    ("scan0axial", 0.48, 0.59, "Spine"),
)
REPORT_TEXT = (
    "Mass in the upper pole of the left kidney, 3 cm. Liver and spleen are normal.\n"
    "No rib fracture. No metastasis in the brain."
)
PATIENCE_MS = 300_000  # the phantoms are made first
DRAWN_MS = 4000  # until the last pictures have come

# click.webp: seed and covered body heights (mm) of four patients; view, place in the view, and name of each click
CLICK_PAGE, CLICK_WIDTH = (1500, 1000), 1000  # pixels: size of the page, width of the picture
CLICK_PATIENTS = (
    (20_001, (120.0, 600.0)),
    (20_002, (190.0, 600.0)),
    (20_007, (90.0, 520.0)),
    (20_011, (150.0, 640.0)),
)
CLICKS = (
    ("scan0coronal", 0.60, 0.735, "Left kidney"),
    ("scan0coronal", 0.50, 0.41, "Heart"),
    ("scan0coronal", 0.37, 0.66, "Liver"),
)
SHORT_MS, LONG_MS = 90, 1600  # a frame while the mouse moves, and one that shows answers
ARROW = ((0, 0), (0, 19), (5, 14), (9, 22), (12, 21), (8, 13), (14, 13))

# boxes.png
STRUCTURES = "liver,kidney_left,spleen,heart_myocardium,pancreas,urinary_bladder"

# registration.png and follow-up-report.png: a patient whose lesions grow, shrink and vanish
FOLLOW_UP_SEED = 120_004
DATES = (date(2023, 3, 1), date(2023, 9, 4), date(2024, 2, 26))
FOLLOWED = 4  # lesions


def take_viewer(name: str, size: tuple[int, int], draw: Callable[[Page], None]) -> None:
    """Take a picture of the viewer's page with the demo's patients, after `draw` has used the page."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_browser() as browser,
        Running(Path(folder), "--demo") as program,
    ):
        page = Page(browser, program, size)
        page.page.set_default_timeout(PATIENCE_MS)
        page.wait_ready(2)
        draw(page)
        page.page.mouse.move(size[0] - 80, size[1] - 20)
        page.page.wait_for_timeout(DRAWN_MS)
        page.page.screenshot(path=SCREENSHOTS / f"{name}.png")
        page.close()


def draw_points(page: Page) -> None:
    """Click the points of VIEWER_POINTS, and name them."""
    for view, across, down, label in VIEWER_POINTS:
        page.press("fit")
        page.add_point(view, across, down)
        page.page.locator("[data-point] input").first.fill(label)
        page.page.keyboard.press("Enter")
        page.wait(f"!!document.querySelector(\"[data-point='{label}']\")")
    page.place_mode(False)
    page.page.locator("[data-point] tr.point td.place").nth(2).click()


def draw_words(page: Page) -> None:
    """Read a report, and show the place of its first sentence."""
    page.press("report")
    page.page.fill("[data-test=report-text]", REPORT_TEXT)
    page.press("report-read")
    page.page.locator(".report li button").first.click()
    page.page.locator("[data-place]", has_text="found (").nth(1).wait_for()


class Animation:
    """Pictures of a page, with the mouse drawn in."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames, self.times = page, [], []
        self.mouse = (CLICK_PAGE[0] * 0.8, CLICK_PAGE[1] * 0.9)

    def take(self, milliseconds: int) -> None:
        """Take a picture that the animation shows for some milliseconds."""
        picture = Image.open(io.BytesIO(self.page.page.screenshot())).convert("RGB")
        arrow = [(self.mouse[0] + x, self.mouse[1] + y) for x, y in ARROW]
        ImageDraw.Draw(picture).polygon(arrow, fill="white", outline="black")
        height = CLICK_WIDTH * CLICK_PAGE[1] // CLICK_PAGE[0]
        self.frames.append(picture.resize((CLICK_WIDTH, height), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def move_to(self, x: float, y: float, steps: int = 6) -> None:
        """Move the mouse to a place of the page, pixels, with a picture at each step."""
        start = self.mouse
        for step in range(1, steps + 1):
            self.mouse = (
                start[0] + (x - start[0]) * step / steps,
                start[1] + (y - start[1]) * step / steps,
            )
            self.page.page.mouse.move(*self.mouse)
            self.page.page.wait_for_timeout(120)
            self.take(SHORT_MS)

    def write(self, path: Path) -> None:
        """Write the pictures as one animated file."""
        first, *rest = self.frames
        first.save(
            path,
            save_all=True,
            append_images=rest,
            duration=self.times,
            loop=0,
            quality=55,
            method=6,
        )


def take_click() -> None:
    """After clicks in one scan, three other scans show the same places."""
    from AnatomicalEmbedding.phantom import make_phantom

    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder = Path(name)
        paths = [folder / f"Patient {letter}.nii.gz" for letter in "ABCD"]
        for path, (seed, coverage_mm) in zip(paths, CLICK_PATIENTS, strict=True):
            make_phantom(seed, spacing=(2.0, 2.0, 2.5), coverage_mm=coverage_mm).volume.write(path)
        with Running(folder, *map(str, paths)) as program:
            page = Page(browser, program, CLICK_PAGE)
            page.wait_ready(len(paths))
            page.press("fit")
            page.page.wait_for_timeout(1500)
            animation = Animation(page)
            animation.take(LONG_MS)
            for view, across, down, label in CLICKS:
                page.press("fit")
                page.place_mode()
                page.page.wait_for_timeout(800)
                animation.move_to(*page.at(view, across, down))
                page.add_point(view, across, down)
                page.page.locator("[data-point] input").first.fill(label)
                page.page.keyboard.press("Enter")
                page.page.wait_for_timeout(1500)  # the pictures of all scans have come
                animation.take(LONG_MS)
            animation.write(SCREENSHOTS / "click.webp")
            page.close()


def take_page(page: Path, name: str, width: int, height: int) -> None:
    """Take a picture of the top of an HTML page."""
    with open_browser() as browser:
        window = browser.new_page(viewport={"width": width, "height": height})
        window.goto(page.resolve().as_uri())
        window.screenshot(path=SCREENSHOTS / f"{name}.png")


def run_command(folder: Path, *arguments: str) -> None:
    """Run `anatemb` in a folder, so that pages show names without the path of this machine."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "AnatomicalEmbedding", *arguments],
        cwd=folder,
        env=environment,
        check=True,
    )


def take_report(folder: Path) -> None:
    """The report of `anatemb demo`."""
    run_command(folder, "demo", "-o", ".")
    take_page(folder / "report.html", "report", 1200, 1400)


def take_boxes(folder: Path) -> None:
    """The page of `anatemb locate` for the second patient of the demo."""
    run_command(folder, "demo", "-o", ".")
    run_command(folder, "locate", "target.nii.gz", "--structures", STRUCTURES, "-o", "boxes")
    take_page(folder / "boxes" / "target.html", "boxes", 1500, 880)


def take_registration(folder: Path) -> None:
    """The page of `anatemb register` for two studies of one patient."""
    names = [f"{day}.nii.gz" for day in DATES[:2]]
    for name, volume in zip(names, make_follow_up(FOLLOW_UP_SEED, studies=2).volumes, strict=True):
        volume.write(folder / name)
    run_command(folder, "register", *names, "-o", "out")
    take_page(folder / "out" / "report.html", "registration", 1400, 1160)


def take_follow_up(folder: Path) -> None:
    """The page of a follow-up, which a reader has confirmed but for the last place."""
    from AnatomicalEmbedding import load_model
    from AnatomicalEmbedding.followup.report_page import write_page

    model = load_model()
    patient = make_follow_up(FOLLOW_UP_SEED, studies=3)
    record = reviewed_record(patient, [model.embed(volume) for volume in patient.volumes])
    page = folder / "follow-up.html"
    write_page(page, record, {volume.name: volume for volume in patient.volumes})
    take_page(page, "follow-up-report", 1400, 1500)


def reviewed_record(patient: PhantomFollowUp, maps: list) -> FollowUp:
    """Return the record of a reader who moves each lesion to its true place, and has not seen the last place."""
    keys = [volume.name for volume in patient.volumes]
    lesions = [lesion for lesion in patient.lesions if lesion.states[0].state == VISIBLE][:FOLLOWED]
    record = FollowUp().with_studies(
        [Study(key, key, day) for key, day in zip(keys, DATES, strict=True)]
    )
    for lesion in lesions:
        record = record.mark(keys[0], tuple(lesion.states[0].point_ras))
        lesion_id = record.lesions[-1].id
        record = record.describe(lesion_id, name=lesion.kind, nodal="node" in lesion.kind)
        record = measured(record, lesion_id, lesion, 0, keys[0])
    maps_by_key = dict(zip(keys, maps, strict=True))
    for study, key in enumerate(keys[1:], start=1):
        record = find_places(record, [key], maps_by_key)[0]
        for number, lesion in enumerate(lesions, start=1):
            if (study, number) == (len(keys) - 1, len(lesions)):
                continue
            state = lesion.states[study]
            if state.state == VISIBLE:
                record = record.move(f"L{number}", key, tuple(state.point_ras))
                record = measured(record, f"L{number}", lesion, study, key)
            else:
                record = record.not_visible(f"L{number}", key)
    return record


def measured(
    record: FollowUp, lesion_id: str, lesion: LesionHistory, study: int, key: str
) -> FollowUp:
    """Return the record with the true axes of a lesion."""
    middle, radius_mm = lesion.states[study].point_ras, lesion.states[study].radius_mm
    long, short = np.array([radius_mm, 0.0, 0.0]), np.array([0.0, 0.8 * radius_mm, 0.0])
    axes = [(tuple(middle - half), tuple(middle + half)) for half in (long, short)]
    return record.measure(lesion_id, key, *axes)


def in_new_folder(take: Callable[[Path], None]) -> Callable[[], None]:
    """Return a function that calls `take` with a temporary folder."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            take(Path(folder))

    return run


PICTURES: dict[str, Callable[[], None]] = {
    "click": take_click,
    "viewer": lambda: take_viewer("viewer", (1440, 860), draw_points),
    "viewer-words": lambda: take_viewer("viewer-words", (1280, 720), draw_words),
    "report": in_new_folder(take_report),
    "boxes": in_new_folder(take_boxes),
    "registration": in_new_folder(take_registration),
    "follow-up-report": in_new_folder(take_follow_up),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Take all pictures in Resources/Screenshots anew.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"pictures to take: {', '.join(PICTURES)}"
    )
    parser.add_argument(
        "--slicer",
        type=Path,
        metavar="FILE",
        help="3D Slicer, which takes the pictures of the modules",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(PICTURES):
        parser.error(
            f"no such picture: {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}."
        )
    for name in options.names or PICTURES:
        print(f"{name} ...", flush=True)
        PICTURES[name]()
    if options.slicer is not None:
        script = ROOT / "Testing" / "in_slicer" / "run.py"
        subprocess.run(
            [sys.executable, str(script), str(options.slicer), "--pictures"], cwd=ROOT, check=True
        )


if __name__ == "__main__":
    main()
