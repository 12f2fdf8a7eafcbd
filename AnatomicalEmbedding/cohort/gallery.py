"""A page with pictures of one place in many scans, all in the same orientation and scale relative to the body."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AnatomicalEmbeddingError, ShareCallback
from ..files import write_text
from ..reports.page import load_page
from ..reports.pictures import (
    AXIAL,
    CORONAL,
    CROP_MM,
    OUTSIDE_HU,
    SAGITTAL,
    Plane,
    choose_window,
    data_uri,
)
from ..scan.sources import distinct_names
from ..scan.volume import Volume
from .search import CohortAnswer

PLANES = {plane.name: plane for plane in (AXIAL, CORONAL, SAGITTAL)}
_PIXELS = 129  # a size on the page; odd, so that one pixel is centred on the place
_MOST_PICTURES = 300  # by hand, for a page that a browser opens quickly


def thumbnail(
    volume: Volume, point_ras: np.ndarray, facts: dict[str, Any], plane: Plane = AXIAL
) -> np.ndarray:
    """Return a picture (129, 129) uint8 around a point, along the axes of the body frame.

    Args:
        volume: the scan.
        point_ras: (3,) RAS mm.
        facts: facts of the scan, see `facts.make_facts`.
        plane: plane of the picture.
    """
    to_ras = np.linalg.pinv(np.asarray(facts["frame"])[:3])  # offset in the body (3,) @ to_ras
    steps = np.linspace(-CROP_MM / 2, CROP_MM / 2, _PIXELS)
    across = steps[None, :, None] * np.array(plane.right)
    down = steps[:, None, None] * np.array(plane.down)
    offsets = (across + down).reshape(-1, 3)
    points = np.asarray(point_ras) + offsets @ to_ras
    hu = volume.sample(points, OUTSIDE_HU).reshape(_PIXELS, _PIXELS)
    grey = choose_window(volume, point_ras).to_grey(hu)
    # a cross with a gap at the point
    middle = _PIXELS // 2
    for arm in (slice(middle - 9, middle - 3), slice(middle + 4, middle + 10)):
        grey[middle, arm] = grey[arm, middle] = 255
    return grey


def write_gallery(
    path: Path,
    title: str,
    answers: Sequence[CohortAnswer],
    facts: dict[int, dict[str, Any]],
    progress: ShareCallback,
) -> Path:
    """Write one HTML page with places, in their order. The first 300 places have a picture. Returns the path.

    A scan that can no longer be read is shown without a picture.

    Args:
        path: the page.
        title: its title.
        answers: the places.
        facts: facts of each scan, by row id.
        progress: called with the share of the work that is done, 0 to 1.

    Raises:
        AnatomicalEmbeddingError: pillow or jinja2 is not installed, or the page cannot be written.
    """
    style = load_page("reports/page_style.css.j2").render()
    cards = []
    names = dict(zip(answers, distinct_names([answer.row.scan for answer in answers]), strict=True))
    pictured = [answer for answer in answers if answer.point_ras is not None]
    for number, answer in enumerate(pictured):
        cards.append(
            f'<figure class="{answer.status}" title="{escape(answer.row.scan)}">{_picture(answer, facts, number)}'
            f"<p><b>{escape(names[answer])}</b><br>{answer.text}</p></figure>"
        )
        progress((number + 1) / len(pictured))
    write_text(
        path,
        _PAGE.format(
            title=escape(title),
            style=style,
            cards="".join(cards),
            absent=len(answers) - len(pictured),
        ),
    )
    return path


def _picture(answer: CohortAnswer, facts: dict[int, dict[str, Any]], number: int) -> str:
    """Return the HTML of the picture of an answer, or of the reason why there is none.

    facts: facts of the scans, by the ID of the row. number: index of the answer on the page.
    """
    if number >= _MOST_PICTURES:
        return f'<div class="none">only the first {_MOST_PICTURES} places have a picture</div>'
    try:
        volume = answer.row.source.read()
    except AnatomicalEmbeddingError:
        return '<div class="none">the scan cannot be read any more</div>'
    return (
        f'<img src="{data_uri(thumbnail(volume, answer.point_ras, facts[answer.row.id]))}" alt="">'
    )


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{style}
.all {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 10px; padding: 18px 0; }}
.all figure {{ background: var(--panel); }} .all img {{ width: 100%; display: block; }}
.all p {{ margin: 4px 8px 8px; font-size: .78rem; overflow-wrap: anywhere; }}
.uncertain {{ outline: 1px solid var(--warn); }}
</style></head><body><header><h1>{title}</h1><p class="quiet">Axial pictures, in the same orientation and
scale relative to the body. The cross marks the place. {absent} other scans do not show the place.</p></header>
<main><div class="all">{cards}</div></main></body></html>
"""
