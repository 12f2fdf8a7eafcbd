"""Draw Resources/Screenshots/viewer-follow-up.png: the demo patient's follow-up, partly read.

.venv-views/bin/python Testing/viewer/make_follow_up_picture.py

What a reader would say is taken from the phantom, which knows its lesions, and comes in as a record.
"""

from __future__ import annotations

import math
import sys
import tempfile
import zipfile
from pathlib import Path

_TESTING = Path(__file__).resolve().parents[1]
_ROOT = _TESTING.parent
sys.path[:0] = [str(each) for each in (_TESTING / "viewer", _TESTING, _ROOT / "SlicerModules", _ROOT / "tools", _ROOT)]

from AnatomicalEmbeddingViewer.logic.demo_follow_up import axes_of, make_patient  # noqa: E402
from browsing import Page, Running, open_browser  # noqa: E402

from AnatomicalEmbedding.followup.record import FollowUp  # noqa: E402
from AnatomicalEmbedding.followup.record_file import read_record, write_record  # noqa: E402
from AnatomicalEmbedding.phantom.followup import NOT_THERE, VISIBLE  # noqa: E402

OUTPUT = _ROOT / "Resources" / "Screenshots" / "viewer-follow-up.png"
_SHOWN = "L5"
_NEAR_MM = 4.0  # a reader confirms what lies that close


def read_second_study(record: FollowUp) -> FollowUp:
    """All of the second study but one lesion, and those of the third that have not left the scan."""
    phantom = make_patient()
    known = [lesion for lesion in phantom.lesions if lesion.states[0].state == VISIBLE]
    new = next(lesion for lesion in phantom.lesions if lesion.states[0].state == NOT_THERE and not lesion.split_from)
    record = record.mark(record.studies[1].key, tuple(new.states[1].point_ras))
    added = record.lesions[-1].id
    record = record.describe(added, site=new.kind.split()[0], target=False).not_visible(added, record.studies[0].key)
    for lesion_id, lesion in [*zip([each.id for each in record.lesions], known, strict=False), (added, new)]:
        for number, unread in ((1, "L2"), (2, "L4")):
            state, study = lesion.states[number], record.studies[number].key
            if lesion_id == unread or (number == 2 and lesion_id in ("L2", "L5", added)):
                continue
            if state.state == VISIBLE:
                place = tuple(map(float, state.point_ras))
                found = record.finding(lesion_id, study)
                if found is None:
                    record = record.mark(study, place, lesion_id)
                elif math.dist(found.point_ras, place) > _NEAR_MM:
                    record = record.move(lesion_id, study, place)
                axes = axes_of(phantom.volumes[number], place, float(state.radius_mm))
                record = record.measure(lesion_id, study, *axes)
            elif state.state == NOT_THERE:
                record = record.not_visible(lesion_id, study)
    return record


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_browser() as browser,
        Running(Path(folder), "--demo-follow-up") as program,
    ):
        page = Page(browser, program, (1500, 1120))
        page.page.set_default_timeout(90_000)  # the phantom is made first
        page.wait("document.querySelectorAll('li[data-status=ready]').length === 3")
        page.wait("!!document.querySelector('[data-lesion=L5]')")
        with zipfile.ZipFile(page.download("follow-export", Path(folder))) as archive:
            archive.extract("follow-up.followup.json", folder)
        record = Path(folder) / "follow-up.followup.json"
        write_record(record, read_second_study(read_record(record)))
        page.page.set_input_files("[data-test=follow-load]", str(record))
        page.wait("!!document.querySelector('[data-lesion=L6]')")
        page.wait_sentence("new lesions")
        page.dismiss_all()
        page.page.click(f"[data-lesion={_SHOWN}] [data-cell='1']")
        page.page.keyboard.press("z")
        page.page.evaluate("document.querySelector('.tab.follow').scrollTop = 0")
        page.page.mouse.move(1490, 20)
        page.page.wait_for_timeout(2500)  # the last pictures have come
        page.page.screenshot(path=OUTPUT)
        page.close()


if __name__ == "__main__":
    main()
