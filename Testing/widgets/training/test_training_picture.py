"""The small picture of a run's curves: lines where the numbers are, in the widget's colours."""

import numpy as np
import pytest

from AnatomicalEmbeddingLib.scene.training.TrainingCurves import COLOURS
from AnatomicalEmbeddingLib.scene.training.TrainingLog import LossCurve, Validations

WIDTH = 480
NOTHING = Validations(np.array([], dtype=int), {})


@pytest.fixture
def drawn(kit):
    """Draw curves; returns the picture as (row, column, rgb) and its background."""
    import qt

    from AnatomicalEmbeddingLib.panels.training.TrainingPicture import draw

    def draw_it(losses=None, validations=NOTHING, background="#ffffff", ratio=1.0):
        palette = qt.QPalette()
        palette.setColor(qt.QPalette.Base, qt.QColor(background))
        palette.setColor(qt.QPalette.Text, qt.QColor("#808080"))
        pixmap = draw(WIDTH, palette, losses or LossCurve(), validations, ratio)
        assert pixmap.width() / pixmap.devicePixelRatio() == WIDTH
        image = pixmap.toImage()
        size = image.height(), image.width()
        return np.array(
            [[image.pixelColor(x, y).getRgb()[:3] for x in range(size[1])] for y in range(size[0])], dtype=int
        )

    return draw_it


def of_colour(picture, number):
    """(n, 2) rows and columns of the pixels of a curve's colour."""
    wanted = np.round(255 * np.array(COLOURS[number]))
    return np.argwhere(np.abs(picture - wanted).max(-1) < 60)


def loss_pixels(picture):
    """Those of the loss curve itself: left of the validation plot and below the title line."""
    pixels = of_colour(picture, 0)
    return pixels[(pixels[:, 0] > 20) & (pixels[:, 1] < 0.42 * WIDTH)]


def test_a_falling_loss_falls_in_the_picture(drawn):
    pixels = loss_pixels(drawn(LossCurve([1, 2, 3, 4], [4.0, 3.0, 2.0, 1.0])))
    left, right = pixels[pixels[:, 1].argmin()], pixels[pixels[:, 1].argmax()]
    assert right[1] - left[1] > 60
    assert right[0] - left[0] > 60


def test_a_screen_with_finer_pixels_gets_all_of_them(drawn):
    losses = LossCurve([1, 2, 3, 4], [4.0, 3.0, 2.0, 1.0])
    coarse, fine = drawn(losses), drawn(losses, ratio=2.0)
    assert fine.shape[0] == 2 * coarse.shape[0]
    ends = [of_colour(picture, 0)[:, 1].max() for picture in (coarse, fine)]
    assert abs(ends[1] - 2 * ends[0]) <= 4
    doubled = coarse.repeat(2, axis=0).repeat(2, axis=1)
    assert np.abs(fine - doubled).max() > 50, "no more than enlarged"


def test_a_constant_loss_is_a_level_line(drawn):
    pixels = loss_pixels(drawn(LossCurve([1, 2, 3], [2.0, 2.0, 2.0])))
    assert np.ptp(pixels[:, 0]) <= 3
    assert np.ptp(pixels[:, 1]) > 60


@pytest.mark.parametrize("losses", [LossCurve([1], [0.5]), LossCurve([1], [0.0]), LossCurve([5], [-2.0])])
def test_a_single_step_is_a_dot(drawn, losses):
    pixels = loss_pixels(drawn(losses))
    assert 4 <= len(pixels) <= 60


def test_larger_errors_are_drawn_higher(drawn):
    errors = {"phantom": np.array([9.0, 9.0]), "centre": np.array([3.0, np.nan])}
    picture = drawn(validations=Validations(np.array([100, 200]), errors))
    assert of_colour(picture, 0)[:, 0].mean() < of_colour(picture, 1)[:, 0].mean() - 20


def test_nothing_and_what_cannot_be_drawn_leave_the_plots_empty(drawn):
    unknown = Validations(np.array([1]), {"phantom": np.array([np.nan])})
    np.testing.assert_array_equal(drawn(), drawn(LossCurve([1], [float("nan")]), unknown))
    assert len(of_colour(drawn(), 0)) == 0


def test_background_is_that_of_the_widget(drawn):
    assert drawn(background="#102030")[0, 0].tolist() == [0x10, 0x20, 0x30]
