"""Test the gallery of a cohort: one place in all scans, sorting, filters, and opening a scan at the place."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

_SEEDS = range(3)


def _phantom(seed: int, heights: tuple[float, float] = (190.0, 330.0)):
    from AnatomicalEmbedding.phantom import make_phantom

    return make_phantom(seed, spacing=(4.0, 4.0, 5.0), coverage_mm=heights)


@pytest.fixture(scope="module")
def torsos(tmp_path_factory):
    """Three upper abdomens, one of them stored upside down, and a head; by file name."""
    folder = tmp_path_factory.mktemp("in")
    made = {f"torso_{seed}.nii.gz": _phantom(seed) for seed in _SEEDS} | {
        "head.nii.gz": _phantom(4, (640.0, 810.0))
    }
    for name, phantom in made.items():
        phantom.volume.write(folder / name)
    volume = _phantom(5).volume
    flipped = np.ascontiguousarray(np.flip(volume.voxels, 0))
    replace(volume, voxels=flipped).write(folder / "upside_down.nii.gz")
    return folder, made


@pytest.fixture(scope="module")
def store(torsos, tmp_path_factory):
    from AnatomicalEmbedding.cohort.engine import choose_weights
    from AnatomicalEmbedding.cohort.store import Store
    from AnatomicalEmbedding.cohort.work import Plan, embed_scan

    folder = tmp_path_factory.mktemp("cohort") / "lungs"
    with Store(folder, create=True) as opened:
        opened.add([torsos[0]])
        plan = choose_weights(opened, Plan(device="cpu"))
        for row in map(opened.manifest.row, opened.manifest.due()):
            found = embed_scan(str(folder), row, plan, opened.manifest.weights_hash)
            opened.manifest.finish(row.id, found.pop("state"), found.pop("reason", ""), **found)
    return folder


@pytest.fixture(scope="module")
def gallery(browser, store, tmp_path_factory):
    from browsing import Page, Running

    with Running(tmp_path_factory.mktemp("run"), "--cohort", str(store)) as running:
        page = Page(browser, running)
        page.wait("document.querySelectorAll('figure').length === 5")
        yield page
        page.close()
        assert page.faults == []
        assert running.errors() == []


def _names(page) -> list[str]:
    return page.page.eval_on_selector_all("figure", "all => all.map((each) => each.dataset.scan)")


def _find(page, words: str, count: int) -> None:
    page.page.fill("#words", words)
    page.press("find")
    page.wait(f"window.gallery.searched && document.querySelectorAll('figure').length === {count}")


def test_it_opens_with_every_scan_and_names_the_odd_ones(gallery):
    assert gallery.page.title() == "lungs"
    gallery.page.check("#odd")
    assert _names(gallery) == ["upside_down"]
    assert gallery.page.inner_text("figure .oddity")
    gallery.page.uncheck("#odd")
    gallery.page.select_option("#level", label="shows the skull base")
    assert _names(gallery) == ["head"]
    gallery.page.select_option("#level", label="any part of the body")


def test_a_place_by_words(gallery, pictures):
    _find(gallery, "left kidney", 4)
    assert "head" not in _names(gallery)
    gallery.wait("[...document.images].every((each) => each.complete && each.naturalWidth > 100)")
    gallery.page.screenshot(path=pictures / "cohort.png")
    gallery.page.select_option("#order", "name")
    assert _names(gallery) == sorted(_names(gallery))
    gallery.page.fill("#words", "bicycle")
    gallery.press("find")
    gallery.page.wait_for_selector("#sentence:has-text('names no place')")


def test_all_like_this_and_open_at_the_place(gallery, torsos):
    _find(gallery, "left kidney", 4)
    gallery.page.click("figure[data-scan='torso_0'] .like")
    gallery.wait("document.getElementById('sentence').hidden")
    gallery.wait("window.gallery.places.some((each) => each.similarity !== null)")
    assert {f"torso_{seed}" for seed in _SEEDS} <= set(_names(gallery))
    place = gallery.page.evaluate(
        "window.gallery.places.find((each) => each.name === 'torso_1').place"
    )
    gallery.page.click("figure[data-scan='torso_1'] button")
    gallery.wait_ready(1)
    slices = gallery.page.eval_on_selector_all(
        ".cell input[type=range]", "all => all.map((each) => Number(each.value))"
    )
    assert any(abs(value - place[2]) < 3 for value in slices)
    gallery.page.click("[data-test=gallery]")
    gallery.wait("document.querySelectorAll('figure').length === 5")
