"""Make the pictures of report pages in the README: a registration and a follow-up. Needs chromium.

python Testing/engine/make_page_pictures.py          # into Resources/Screenshots
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.proposing import find_places
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.report_page import write_page
from AnatomicalEmbedding.registration.register import register
from AnatomicalEmbedding.reports.scan_pages import write_registration_report

sys.path.append(str(Path(__file__).resolve().parents[1]))
from synthetic_follow_up import VISIBLE, LesionHistory, PhantomFollowUp, make_follow_up

SEED = 120_004  # of a patient whose lesions grow, shrink and vanish
DATES = (date(2023, 3, 1), date(2023, 9, 4), date(2024, 2, 26))
SCREENSHOTS = Path(__file__).resolve().parents[2] / "Resources" / "Screenshots"


def reviewed_record(patient: PhantomFollowUp, maps: list) -> FollowUp:
    """What a reader would make of it: lesions of the first study, all but the last proposal looked at."""
    keys = [volume.name for volume in patient.volumes]
    studies = [Study(key, key, day) for key, day in zip(keys, DATES, strict=True)]
    record = FollowUp().with_studies(studies)
    known = [lesion for lesion in patient.lesions if lesion.states[0].state == VISIBLE][:4]
    for lesion in known:
        record = record.mark(keys[0], tuple(lesion.states[0].point_ras))
        record = record.describe(record.lesions[-1].id, name=lesion.kind, nodal="node" in lesion.kind)
        record = measured(record, record.lesions[-1].id, lesion, 0, keys[0])
    every = dict(zip(keys, maps, strict=True))
    for number, key in enumerate(keys[1:], start=1):
        record = find_places(record, [key], every)[0]
        for n, lesion in enumerate(known, start=1):
            if number == len(keys) - 1 and n == len(known):
                continue
            state = lesion.states[number]
            if state.state == VISIBLE:
                record = record.move(f"L{n}", key, tuple(state.point_ras))
                record = measured(record, f"L{n}", lesion, number, key)
            else:
                record = record.not_visible(f"L{n}", key)
    return record


def measured(record: FollowUp, lesion_id: str, lesion: LesionHistory, number: int, key: str) -> FollowUp:
    """With axes as long as the truth is."""
    middle, radius = lesion.states[number].point_ras, lesion.states[number].radius_mm
    long, short = np.array([radius, 0.0, 0.0]), np.array([0.0, 0.8 * radius, 0.0])
    axes = [(tuple(middle - step), tuple(middle + step)) for step in (long, short)]
    return record.measure(lesion_id, key, *axes)


def draw(page: Path, target: Path, width: int, height: int) -> None:
    """A picture of the top of a page."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed; install it to draw the pictures.")
    size = [f"--window-size={width},{height}", f"--screenshot={target}"]
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    subprocess.run([browser, *quiet, *size, page.as_uri()], check=True, capture_output=True)


def main() -> None:
    model = load_model()
    patient = make_follow_up(SEED, studies=3)
    maps = [model.embed(volume) for volume in patient.volumes]
    with TemporaryDirectory() as folder:
        first, second = patient.volumes[:2]
        found = register((maps[0], maps[1]), (first, second))
        folding = found.folding(maps[0])
        facts = {
            "matches": f"{found.used} of {found.tried} points found in the moving scan",
            "volume change": f"by a factor of {folding.low:.2f} to {folding.high:.2f} (98 % of the body)",
            "turned inside out": f"{100 * folding.share:.2f} % of the body",
        }
        page = write_registration_report(Path(folder) / "registration.html", first, second, found, facts)
        draw(page, SCREENSHOTS / "registration.png", 1400, 1160)
        record = reviewed_record(patient, maps)
        volumes = {volume.name: volume for volume in patient.volumes}
        page = Path(folder) / "follow-up.html"
        write_page(page, record, volumes)
        draw(page, SCREENSHOTS / "follow-up-report.png", 1400, 1500)


if __name__ == "__main__":
    main()
