"""Test the page: pictures show the place, drawings are to scale, unconfirmed entries are marked, one file."""

import base64
import io
import re

import numpy as np
import pytest
from record_steps import STUDIES

from AnatomicalEmbedding.followup.lesions import PROPOSED, Finding, Guess, Measurement
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.report_page import write_page
from AnatomicalEmbedding.scan.volume import Volume

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("jinja2")

PLACE = (12.0, -7.0, 33.0)
GUESS = Guess("uncertain", "a", 9.5, 0.62)


def scan(at=PLACE) -> Volume:
    """Soft tissue, and a bright spot."""
    affine = np.diag((2.0, 2.0, 2.0, 1.0))
    affine[:3, 3] = (-70, -80, -20)
    k, j, i = np.indices((60, 80, 80))
    ras = np.stack((i, j, k), axis=-1) * 2.0 + affine[:3, 3]
    spot = np.exp(-((ras - at) ** 2).sum(axis=-1) / (2 * 4.0**2))
    return Volume((-100 + 300 * spot).astype(np.float32), affine, name="spot")


def across(mm: float, at=PLACE):
    x, y, z = at
    return (x - mm / 2, y, z), (x + mm / 2, y, z)


def upright(mm: float, at=PLACE):
    x, y, z = at
    return (x, y - mm / 2, z), (x, y + mm / 2, z)


@pytest.fixture
def record(empty: FollowUp) -> FollowUp:
    """Measured in a, proposed in b, nothing in c."""
    record = empty.mark("a", PLACE).measure("L1", "a", across(24), upright(16))
    return record.propose(
        "b", {"L1": Finding(PROPOSED, PLACE, GUESS, Measurement(across(24), upright(16)))}
    )


@pytest.fixture
def written(tmp_path):
    """The page's text, its pictures as arrays, and its cells' text by study."""

    def write(record: FollowUp, volumes=None) -> str:
        return write_page(tmp_path / "page.html", record, volumes).read_text(encoding="utf-8")

    return write


def pictures_of(html: str) -> list[np.ndarray]:
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)
    return [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(source)))).astype(float)
        for source in sources
    ]


def cells_of(html: str) -> list[str]:
    """The part of the page about each study of each lesion."""
    return re.findall(
        r'<div class="cell">(.*?)</div>\s*(?=<div class="cell">|</div>\s*</section>)',
        html,
        re.DOTALL,
    )


def test_the_place_is_in_the_middle_of_its_picture(record, written):
    html = written(record, {"a": scan(), "b": scan((17.0, -7.0, 33.0))})
    one, other = pictures_of(html)
    size = one.shape[0]
    mm = float(re.search(r'viewBox="(-[\d.]+)', html)[1]) * -2 / size
    # 5 mm to the patient's right is left in the picture
    for picture, right_of in (one, 0.0), (other, -5.0):
        weight = np.clip(picture - picture.min() - 60, 0, None)
        rows, columns = np.indices(picture.shape)
        middle = np.array([(weight * rows).sum(), (weight * columns).sum()]) / weight.sum()
        assert (middle - size // 2) * mm == pytest.approx((0.0, right_of), abs=0.5)


def test_a_proposal_is_marked_and_its_error_drawn_to_scale(record, written):
    html = written(record, {"a": scan(), "b": scan()})
    seen, proposed, nothing = cells_of(html)
    assert "24.0 × 16.0 mm" in seen
    assert not re.search("UNCONFIRMED|unconfirmed|carried|expected", seen)
    assert '<figure class="unconfirmed">' in proposed
    assert '<span class="flag">UNCONFIRMED</span>' in proposed
    assert "24.0" not in proposed
    assert re.search(r'class="expected uncertain" cx="0.00" cy="-?0.00" r="9.50"', proposed)
    assert "expected error" in proposed
    assert "62 % within 10 mm" in proposed
    assert proposed.count("carried") == 2
    assert "not assessed" in nothing
    assert "1 place was proposed by the software and not reviewed" in html


def test_the_page_says_what_it_is_and_holds_everything(record, written):
    html = written(record, {"a": scan()})
    assert html.count("Research software, not a medical device") == 2
    assert "<script" not in html
    assert not re.search(r'(?:src|href)="(?!data:|#)', html)
    assert "url(" not in html
    assert "<svg" in html


def test_names_are_escaped(record, written):
    evil = "<script>alert(1)</script>\"'&"
    studies = [type(s)(s.key, evil, s.date) for s in STUDIES]
    html = written(record.describe("L1", name=evil, site=evil).with_studies(studies), {"a": scan()})
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 6
