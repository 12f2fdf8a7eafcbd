"""Test the report: pictures show the right place in the right orientation; the page needs no other file."""

import base64
import io
import re

import numpy as np
import pytest
from scan_files import voxel_positions

from AnatomicalEmbedding.matching.match import Matches
from AnatomicalEmbedding.reports import pictures
from AnatomicalEmbedding.reports.matches import write_report
from AnatomicalEmbedding.reports.pictures import AXIAL, CORONAL, PLANES, SAGITTAL
from AnatomicalEmbedding.scan.geometry import rotations
from AnatomicalEmbedding.scan.points import PointList
from AnatomicalEmbedding.scan.volume import Volume

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("jinja2")

CENTRE = pictures.pixels_across() // 2
SPACING = np.array((2.0, 2.5, 3.0))
SIZE = np.array((60, 56, 50))  # i, j, k
ORIGIN = np.array((-40.0, 30.0, 500.0))
PLAIN = np.eye(3)


def volume_of(hu_at, directions: np.ndarray = PLAIN, name: str = "scan") -> Volume:
    """Sample a function of RAS mm (n,3) -> HU on a grid whose i, j, k axes run along the columns of `directions`."""
    affine = np.eye(4)
    affine[:3, :3] = directions * SPACING
    affine[:3, 3] = ORIGIN
    ras = voxel_positions(SIZE[::-1], affine).reshape(-1, 3)
    return Volume(hu_at(ras).reshape(SIZE[::-1]).astype(np.float32), affine, name=name)


def middle(volume: Volume) -> np.ndarray:
    return volume.ijk_to_ras[:3, :3] @ ((SIZE - 1) / 2) + volume.ijk_to_ras[:3, 3]


def blob(at: np.ndarray, sigma_mm: float = 6.0):
    return lambda ras: -1000 + 1200 * np.exp(-((ras - at) ** 2).sum(axis=1) / (2 * sigma_mm**2))


_X, _Y, _Z = rotations(np.radians((-25.0, 10.0, 80.0)))
HEADERS = {
    "plain": PLAIN,
    "sagittal slices": np.array([(0, 0, 1.0), (1, 0, 0), (0, 1, 0)]),
    "oblique and flipped": _Z @ _Y @ _X @ np.diag((1.0, -1.0, 1.0)),
}


@pytest.mark.parametrize("directions", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("plane", PLANES, ids=lambda plane: plane.name)
def test_the_point_is_the_centre_pixel_whatever_the_header(directions, plane):
    at = middle(volume_of(lambda ras: np.zeros(len(ras)), directions)) + np.array((3.3, -4.1, 2.7))
    hu = pictures.slice_hu(volume_of(blob(at), directions), at, plane)
    assert hu.shape == (2 * CENTRE + 1, 2 * CENTRE + 1)
    weight = np.clip(hu + 900, 0, None)
    rows, columns = np.indices(hu.shape)
    centroid = ((weight * rows).sum() / weight.sum(), (weight * columns).sum() / weight.sum())
    assert centroid == pytest.approx((CENTRE, CENTRE), abs=0.5)


@pytest.mark.parametrize("directions", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize(
    ("plane", "world_axis", "pixel_axis", "pixel_sign"),
    [
        (AXIAL, 0, 1, -1),  # the patient's right lies on the left of the picture
        (AXIAL, 1, 0, -1),  # anterior up
        (CORONAL, 0, 1, -1),
        (CORONAL, 2, 0, -1),  # superior up
        (SAGITTAL, 1, 1, -1),  # anterior on the left
        (SAGITTAL, 2, 0, -1),
    ],
)
def test_radiological_convention_and_scale(directions, plane, world_axis, pixel_axis, pixel_sign):
    at = middle(volume_of(lambda ras: np.zeros(len(ras)), directions))
    volume = volume_of(lambda ras: 10.0 * (ras - at)[:, world_axis], directions)
    hu = pictures.slice_hu(volume, at, plane)
    near = hu[CENTRE - 40 : CENTRE + 41, CENTRE - 40 : CENTRE + 41]
    assert near.min() > pictures.OUTSIDE_HU
    expected = pixel_sign * 10.0 * pictures.PIXEL_MM
    assert np.diff(near, axis=pixel_axis) == pytest.approx(expected, abs=0.05)
    assert np.diff(near, axis=1 - pixel_axis) == pytest.approx(0.0, abs=0.05)


def matches(points_ras, **known):
    fields = {"score": None, "status": None, "expected_error_mm": None, "probability": None} | known
    return Matches(np.asarray(points_ras, dtype=float), **fields)


@pytest.fixture
def page(tmp_path):
    """A template and two targets with three points; the bright dot of each scan lies at its first point."""
    template_at = np.array((10.0, 90.0, 570.0))
    target_at = template_at + np.array((5.0, -6.0, 7.0))
    template = volume_of(blob(template_at, 4.0), name="template")
    first = volume_of(blob(target_at, 4.0), HEADERS["plain"], name="first")
    second = volume_of(blob(target_at, 4.0), name="second")
    offsets = np.array([(0, 0, 0), (12.0, 8.0, -9.0), (300.0, 0, 0)])
    points = PointList(
        ("carina", "L1 <b>left</b> & right", "far"), template_at + offsets, ("", "a note", "")
    )
    found = matches(
        target_at + offsets,
        score=np.array((0.91, 0.5, 0.1)),
        status=("matched", "uncertain", "absent"),
        expected_error_mm=np.array((3.25, 9.0, np.nan)),
        probability=np.array((0.97, 0.6, 0.1)),
    )
    lost = matches(np.where(np.arange(3)[:, None] == 1, np.nan, target_at + offsets))
    path = write_report(
        tmp_path / "deep" / "report.html",
        template,
        points,
        [("a/first.nii.gz", first, found), ("b/second.nii.gz", second, lost)],
        title="Follow-up & more",
        model="ape-ct-v1",
    )
    return path, path.read_text(encoding="utf-8")


def pictures_of(html: str) -> list:
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(source))) for source in sources]


def test_page_shows_every_point_in_every_scan(page):
    _, html = page
    found = pictures_of(html)
    assert len(found) == 3 * (3 + 3 + 3) - 3  # one point has no position in the second target
    assert {picture.size for picture in found} == {(2 * CENTRE + 1, 2 * CENTRE + 1)}
    for number in (1, 2, 3):
        assert html.count(f'id="point-{number}"') == 1
        assert html.count(f'href="#point-{number}"') == 2  # the bar and the table
    assert html.count("no position in this scan") == 1
    assert "outside the scan</span>" in html  # the third point lies 300 mm off
    for text in ("a/first.nii.gz", "ape-ct-v1", "a note", "60 × 56 × 50", "97 % within 10 mm"):
        assert text in html


def test_the_dot_is_under_the_crosshair(page):
    for picture in pictures_of(page[1])[:9]:  # the first point in all three scans
        grey = np.asarray(picture, dtype=int)
        rows, columns = np.nonzero(grey >= grey.max() - 1)
        assert (rows.mean(), columns.mean()) == pytest.approx((CENTRE, CENTRE), abs=2)


def test_page_stands_alone_and_escapes_names(page):
    path, html = page
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    assert "<script" not in html
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "url(" not in html
    assert "@import" not in html
    assert "<b>left</b>" not in html
    assert "L1 &lt;b&gt;left&lt;/b&gt; &amp; right" in html
    assert "<title>Follow-up &amp; more</title>" in html
