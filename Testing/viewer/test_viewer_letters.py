"""The letters at the edges of the views, against a scan whose sides are told apart by how bright they are."""

import base64
import io

import numpy as np
import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from AnatomicalEmbeddingViewer.logic.directions import edge_letters
from browsing import Page, Running
from PIL import Image

SIDES = {"R": -100, "L": -60, "A": -20, "P": 20, "S": 60, "I": 100}  # HU of the outermost fifth; 200 inside
EXPECTED = {
    "axial": {"left": "R", "right": "L", "top": "A", "bottom": "P"},
    "sagittal": {"left": "A", "right": "P", "top": "S", "bottom": "I"},
    "coronal": {"left": "R", "right": "L", "top": "S", "bottom": "I"},
}
_CELLS, _MM = 40, 5.0


def told_apart(columns: np.ndarray):
    """A cube with its sides marked; columns: (3,3) directions of i, j and k in RAS."""
    from AnatomicalEmbedding import Volume

    matrix = np.eye(4)
    matrix[:3, :3] = columns * _MM
    matrix[:3, 3] = -matrix[:3, :3] @ np.full(3, (_CELLS - 1) / 2)
    k, j, i = np.indices((_CELLS,) * 3)
    ras = np.stack([i, j, k], -1) @ matrix[:3, :3].T + matrix[:3, 3]
    axis, outside = np.abs(ras).argmax(-1), np.abs(ras).max(-1) > 0.6 * _CELLS * _MM / 2
    ahead = np.take_along_axis(ras, axis[..., None], -1)[..., 0] > 0
    values = np.array([[SIDES[letter] for letter in pair] for pair in ("LR", "PA", "IS")])
    return Volume(np.where(outside, values[axis, ahead.astype(int)], 200).astype(np.int16), matrix)


@pytest.fixture(scope="module")
def marked(browser, tmp_path_factory):
    """The page with the cube twice: as DICOM has its axes, and as one that was scanned in sagittal slices."""
    folder = tmp_path_factory.mktemp("letters")
    paths = [folder / "usual.nii.gz", folder / "sagittal.nii.gz"]
    told_apart(np.diag([-1.0, -1.0, 1.0])).write(paths[0])
    told_apart(np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])).write(paths[1])
    with Running(folder, *map(str, paths)) as program:
        page = Page(browser, program)
        page.wait("document.querySelectorAll('.row .cell img').length === 6")
        page.page.click("text=Soft tissue")
        page.page.mouse.move(1300, 700)
        yield page
        page.close()
        assert page.faults == []


def written(page, view: str) -> dict[str, str]:
    """The letters that can be seen on a view, by the edge in whose middle they are."""
    cell = page.page.locator(f"[data-view={view}]")
    box = cell.bounding_box()
    found = {}
    for letter in cell.locator(".edge").all():
        assert letter.is_visible()
        at = letter.bounding_box()
        across = (at["x"] + at["width"] / 2 - box["x"]) / box["width"]
        down = (at["y"] + at["height"] / 2 - box["y"]) / box["height"]
        distances = {"left": across, "right": 1 - across, "top": down, "bottom": 1 - down}
        edge = min(distances, key=distances.get)
        assert distances[edge] < 0.2
        assert abs((down if edge in ("left", "right") else across) - 0.5) < 0.02
        found[edge] = letter.inner_text()
    return found


def seen(page, view: str) -> dict[str, str]:
    """The side of the cube that lies towards each edge of the picture, by its brightness."""
    picture = page.page.evaluate(
        """async (view) => {
            const shown = document.querySelector(`[data-view=${view}] img`);
            for (let left = 50; left; left--) {  // another picture may come meanwhile
                try { await shown.decode(); break; } catch { await new Promise((go) => setTimeout(go, 100)); }
            }
            const canvas = Object.assign(document.createElement('canvas'),
                {width: shown.naturalWidth, height: shown.naturalHeight});
            canvas.getContext('2d').drawImage(shown, 0, 0);
            return canvas.toDataURL('image/png');
        }""",
        view,
    )
    grey = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.split(",")[1]))).convert("L"), dtype=float)
    filled = grey > 15  # outside of the cube there is nothing but the ruler
    rows, columns = (np.flatnonzero(filled.sum(axis) > filled.sum(axis).max() / 2) for axis in (1, 0))
    low, high = np.array([rows.min(), columns.min()]), np.array([rows.max(), columns.max()])
    (down, across), (high_down, high_across) = (low + high) // 2, (low + 0.9 * (high - low)).astype(int)
    low_down, low_across = (low + 0.1 * (high - low)).astype(int)
    places = {
        "left": (down, low_across), "right": (down, high_across), "top": (low_down, across),
        "bottom": (high_down, across),
    }  # fmt: skip
    found = {}
    for edge, (row, column) in places.items():
        value = np.median(grey[row - 2 : row + 3, column - 2 : column + 3]) / 255 * 400 - 160  # window 400, level 40
        found[edge] = min(SIDES, key=lambda letter: abs(SIDES[letter] - value))
        assert abs(SIDES[found[edge]] - value) < 12
    return found


@pytest.mark.parametrize("scan", [0, 1])
@pytest.mark.parametrize("view", EXPECTED)
def test_letters_in_rows_are_those_of_the_picture(marked, scan, view):
    tag = f"scan{scan}{view}"
    assert written(marked, tag) == seen(marked, tag) == EXPECTED[view]
    assert marked.page.locator(f"[data-view={tag}] .corner").inner_text() == view.capitalize()


def test_letters_in_the_grid_follow_its_orientation(marked, pictures):
    marked.page.screenshot(path=pictures / "letters-rows.png")
    marked.press("grid")
    marked.wait("document.querySelectorAll('.cell').length === 2")
    for view, letters in EXPECTED.items():
        marked.page.get_by_label("Orientation").select_option(view.capitalize())
        for scan in (0, 1):  # drawn anew in another size
            marked.wait(
                f"(() => {{ const cell = document.querySelector('[data-view=scan{scan}{view}]'), "
                "img = cell?.querySelector('img'), box = cell?.getBoundingClientRect(); "
                "return img && Math.hypot(img.naturalWidth - box.width, img.naturalHeight - box.height) < 3; })()"
            )
        marked.page.wait_for_timeout(600)
        for scan in (0, 1):
            tag = f"scan{scan}{view}"
            assert written(marked, tag) == seen(marked, tag) == letters
        marked.page.screenshot(path=pictures / f"letters-grid-{view}.png")
    marked.press("rows")
    marked.wait("document.querySelectorAll('.cell').length === 6")


def test_letters_are_not_in_the_way_of_the_mouse(marked):
    under = marked.page.eval_on_selector_all(
        ".edge",
        """all => all.map((each) => {
            const box = each.getBoundingClientRect();
            const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            return hit.closest('.cell') === each.closest('.cell') && !hit.classList.contains('edge');
        })""",
    )
    assert len(under) == 24
    assert all(under)


def test_an_oblique_slice_has_the_nearest_directions():
    turned = np.radians(30)
    matrix = np.eye(4)
    matrix[:3, 0] = [-np.cos(turned), 0.0, np.sin(turned)]
    matrix[:3, 1] = [0.0, -1.0, 0.0]
    assert edge_letters(matrix) == {"left": "R", "right": "L", "top": "P", "bottom": "A"}
