"""Test films: readers, the working grid, the planar network, projections, and commands."""

import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch
import torch.nn.functional as F
from cli_runs import assert_refused, rows_of
from probabilities import check_probabilities
from pydicom.uid import ComputedRadiographyImageStorage, generate_uid
from scan_files import dicom_dataset, pixel_tags, voxel_positions
from small_models import small_network

from AnatomicalEmbedding.embedding.film_grid import film_on_grid
from AnatomicalEmbedding.embedding.inference import Model, load_model
from AnatomicalEmbedding.errors import VolumeError
from AnatomicalEmbedding.films.patient import ProjectedCT
from AnatomicalEmbedding.films.projection import (
    Tissue,
    cut_film,
    film_of,
    random_beam,
    straight_beam,
    vary_film,
)
from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.registration.films import FilmPair, register_films
from AnatomicalEmbedding.scan.film import film_matrix
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Film, Volume

FILM_SPEC = {
    "planar": True, "frame": "film", "spacing_mm": (2.0, 12.0, 2.0), "hu_knots": (0.0, 1000.0),
    "level_knots": (0.0, 1.0), "local_channels": 8,
}  # fmt: skip


def picture(rows: int = 160, columns: int = 200) -> np.ndarray:
    """A film without symmetry: uint8, brighter to the lower right, with a bright disc in the upper left."""
    y, x = np.mgrid[:rows, :columns]
    disc = (x - 50) ** 2 + (y - 40) ** 2 < 400
    return (40 + 0.4 * x + 0.5 * y + 60 * disc).astype(np.uint8)


def save_picture(path: Path, values: np.ndarray, colours: int = 1) -> Path:
    image = sitk.GetImageFromArray(
        values if colours == 1 else np.stack([values] * colours, axis=-1), colours > 1
    )
    sitk.WriteImage(image, str(path))
    return path


def save_dicom(path: Path, values: np.ndarray, **tags: object) -> Path:
    own = {
        "SeriesInstanceUID": generate_uid(),
        "StudyInstanceUID": generate_uid(),
        "PatientID": "P1",
    }
    pixels = pixel_tags(values.astype(np.uint16), 12)
    data = dicom_dataset(
        ComputedRadiographyImageStorage, **{**own, "Modality": "CR", **pixels, **tags}
    )
    data.save_as(path, enforce_file_format=True)
    return path


@pytest.mark.parametrize(("suffix", "colours"), [(".png", 1), (".tif", 3)])
def test_a_picture_is_a_film(tmp_path, suffix, colours):
    film = Volume.read(save_picture(tmp_path / f"a{suffix}", picture(), colours))
    assert isinstance(film, Film)
    np.testing.assert_array_equal(film.voxels[0], picture())
    np.testing.assert_allclose(film.spacing[:2], 350 / 200)
    assert "350 mm wide" in film.notes[0]
    # the first pixel is at the patient's right and top; the middle of the film is the origin
    corner = transform_points(film.ijk_to_ras, np.array([[0, 0, 0]]))[0]
    np.testing.assert_allclose(corner, [350 / 200 * 99.5, 0, 350 / 200 * 79.5])
    wide = film.with_width(400)
    np.testing.assert_allclose(wide.spacing[:2], 2.0)
    assert wide.notes == ("the film is 400 mm wide",)


def test_a_dicom_film_has_its_pixel_size_and_its_orientation(tmp_path):
    values = picture().astype(np.uint16) * 16
    film = Volume.read(save_dicom(tmp_path / "a.dcm", values, ImagerPixelSpacing=[1.5, 1.0]))
    np.testing.assert_array_equal(film.voxels[0], values)
    np.testing.assert_allclose(film.spacing[:2], (1.0, 1.5))
    assert film.patient_id == "P1"
    inverted = save_dicom(
        tmp_path / "b.dcm", 4095 - values, PhotometricInterpretation="MONOCHROME1"
    )
    shown = Volume.read(inverted).voxels[0]
    np.testing.assert_array_equal(shown - shown.min(), values - values.min())
    mirrored = Volume.read(
        save_dicom(tmp_path / "c.dcm", values[:, ::-1].copy(), PatientOrientation=["R", "F"])
    )
    np.testing.assert_array_equal(mirrored.voxels[0], values)


def test_bad_films_are_refused(tmp_path):
    coloured = np.stack([picture(), picture() // 2, picture()], axis=-1)
    sitk.WriteImage(sitk.GetImageFromArray(coloured, True), str(tmp_path / "colour.png"))
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    save_picture(tmp_path / "tiny.png", picture(20, 20))
    save_dicom(tmp_path / "side.dcm", picture(), ViewPosition="LL")
    for name, words in {"colour.png": "in colour", "damaged.png": "damaged", "tiny.png": "20 x 20 pixels",
                        "side.dcm": "from the side"}.items():  # fmt: skip
        with pytest.raises(VolumeError, match=words) as error:
            Volume.read(tmp_path / name)
        assert name in str(error.value)
    with pytest.raises(VolumeError, match="impossible"):
        Volume.read(save_picture(tmp_path / "a.png", picture())).with_width(20.0)


def film_like(values: np.ndarray, pixel_mm: float = 1.5) -> Film:
    return Film(
        values[None].astype(np.float32), film_matrix(values.shape, (pixel_mm, pixel_mm)), "film"
    )


def test_the_working_grid_does_not_depend_on_exposure_or_pixel_size():
    values = picture(240, 300).astype(np.float32)
    spacing = (3.0, 12.0, 3.0)
    plain, exposed = film_on_grid(film_like(values), spacing, 32, 4)
    brighter, _ = film_on_grid(film_like(values * 7 + 300), spacing, 32, 4)
    torch.testing.assert_close(plain.hu, brighter.hu, atol=0.5, rtol=0)
    finer, _ = film_on_grid(film_like(values.repeat(2, 0).repeat(2, 1), 0.75), spacing, 32, 4)
    inside = torch.from_numpy(exposed)
    assert float((plain.hu - finer.hu)[inside].abs().quantile(0.95)) < 25
    assert (plain.hu == plain.hu[:, :1]).all()
    assert plain.hu.shape[1] == 4


def test_the_collimator_is_not_part_of_the_film():
    values = picture(240, 300)
    values[:40], values[200:], values[:, :60] = 0, 0, 0
    grid, exposed = film_on_grid(film_like(values), (3.0, 12.0, 3.0), 32, 4)
    k, _, i = np.nonzero(exposed)
    z, x = (grid.origin_ras[axis] + 3.0 * places for axis, places in ((2, k), (0, i)))
    # rows 40 to 199 are 120 to -120 mm high (middle of 240 rows: 119.5); columns 60 to 299 are at 134 to -224 mm
    np.testing.assert_allclose([z.min(), z.max()], [-120, 120], atol=3)
    np.testing.assert_allclose([x.min(), x.max()], [-225, 135], atol=3)
    with pytest.raises(VolumeError, match="shows nothing"):
        film_on_grid(film_like(np.full((100, 100), 7)), (3.0, 12.0, 3.0), 32, 4)


def test_weights_for_films_refuse_a_ct(phantom_pair):
    model = Model(small_network(**FILM_SPEC), "small", "0" * 64)
    with pytest.raises(VolumeError, match="is a CT, but the weights small are for films"):
        model.embed(phantom_pair[0].volume)
    with pytest.raises(VolumeError, match="is a film, but the weights small are for CTs"):
        Model(small_network(), "small", "0" * 64).embed(film_like(picture()))


def ball_ct(centre_ras: np.ndarray) -> Volume:
    """A torso of water, elliptic, with a ball of bone."""
    matrix = np.diag([3.0, 3.0, 3.0, 1.0])
    matrix[:3, 3] = -150.0, -120.0, -150.0
    ras = voxel_positions((100, 80, 100), matrix)
    apart = (ras[..., 0] / 130) ** 2 + (ras[..., 1] / 90) ** 2
    hu = np.where(apart < 1, 0, -1000)
    ball = np.linalg.norm(ras - centre_ras, axis=-1) < 15
    fat = apart > 0.9
    return Volume(
        np.where(ball, 1200, np.where(fat & (hu == 0), -100, hu)).astype(np.int16), matrix, "ball"
    )


@pytest.mark.parametrize("seed", [None, 3])
def test_a_ball_lies_in_the_film_where_its_centre_is_projected(seed):
    centre = np.array([40.0, -20.0, 30.0])
    ct = ball_ct(centre)
    tissue = Tissue.of(ct)
    beam = (
        straight_beam(tissue) if seed is None else random_beam(tissue, np.random.default_rng(seed))
    )
    film = film_of(tissue, beam, "film")
    wanted = beam.to_film(centre[None])
    pixel = transform_points(film.ras_to_ijk, wanted)[0]
    y, x = np.indices(film.shape[1:])
    # bone stands out from its surroundings: compare with the film of the same torso without the ball
    plain = film_of(Tissue.of(ball_ct(np.array([900.0, 0, 0]))), beam, "plain")
    weight = np.clip(film.voxels[0].astype(float) - plain.voxels[0], 300, None) - 300
    near = np.hypot(x - pixel[0], y - pixel[1]) < 40
    found = [np.average(of[near], weights=weight[near]) for of in (x, y)]
    np.testing.assert_allclose(found, pixel[:2], atol=1.5)


def test_a_varied_film_shows_the_same_places():
    tissue = Tissue.of(ball_ct(np.array([40.0, -20.0, 30.0])))
    film = film_of(tissue, straight_beam(tissue), "film")
    cut = cut_film(film, np.random.default_rng(0))
    y, x = np.nonzero(cut.voxels[0])
    ras = transform_points(cut.ijk_to_ras, np.column_stack([x, y, np.zeros(len(x))]))
    i, j, _ = np.rint(transform_points(film.ras_to_ijk, ras)).astype(int).T
    np.testing.assert_array_equal(film.voxels[0, j, i], cut.voxels[0, y, x])
    assert len(x) < (film.voxels > 0).sum()
    # the same random numbers cut the same part
    shown, pasted = vary_film(film, np.random.default_rng(0))
    np.testing.assert_array_equal(shown.ijk_to_ras, cut.ijk_to_ras)
    np.testing.assert_array_equal(shown.voxels > 0, cut.voxels > 0)
    np.testing.assert_array_equal(pasted.voxels[shown.voxels > 0], shown.voxels[shown.voxels > 0])


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("film-open", "cpu")


@pytest.fixture(scope="module")
def chest() -> ProjectedCT:
    """The chest of a synthetic patient, and its film."""
    return ProjectedCT.of(make_phantom(90_010, (4.0, 4.0, 4.0), (330, 600)).volume)


@pytest.fixture(scope="module")
def places(chest) -> np.ndarray:
    """Places of the film, (5, 3) RAS mm, that show the chest."""
    low, high = chest.tissue.box_ras
    middle = (low + high) / 2
    return chest.beam.to_film(
        middle + np.array([[0, 0, 0], [60, 0, 20], [-60, 0, 40], [30, 0, -50], [-40, 0, -30]])
    )


def test_a_moved_film_shows_the_same_places(model, chest, places):
    film = chest.film
    shift = np.array([64.0, 0, -64.0])  # whole cells
    matrix = film.ijk_to_ras.copy()
    matrix[:3, 3] += shift
    target = model.embed(Film(film.voxels, matrix, "moved"))
    pair = FilmPair(model.embed(film), target)
    pair.prepare()
    for direction in (pair, pair.inverse()):
        assert "transform" in vars(direction)  # registered before the first point
    found = pair.points(places)
    np.testing.assert_allclose(found.points_ras, places + shift, atol=1.0)


def test_edges_show_where_a_bent_film_shows_each_place(model, chest):
    """A film is bent by a known displacement of up to 8 mm. Its edges show the displacement to a pixel."""
    film = chest.film
    pixel_mm = 1.5
    row, column = np.indices(film.shape[1:], dtype=np.float64)
    bend_px = 8.0 / pixel_mm * np.sin(2 * np.pi * (row + column) / 100)
    source = torch.from_numpy(np.stack([column - bend_px, row - bend_px], axis=-1) + 0.5)
    source = source * 2 / torch.tensor(film.shape[:0:-1]) - 1
    voxels = F.grid_sample(
        torch.from_numpy(film.voxels)[None].double(), source[None], align_corners=False
    )[0]
    bent = Film(voxels.float().numpy(), film.ijk_to_ras, "bent")
    pixels = np.column_stack([column.ravel(), row.ravel(), np.zeros(row.size)])
    # where the film shows the pixels of the bent film
    moved = pixels - np.outer(bend_px.ravel(), [1, 1, 0])
    y, x = np.gradient(bent.voxels[0])
    edges = np.hypot(x, y).ravel() > 60
    inside = edges & (np.abs(pixels[:, :2] / film.shape[:0:-1] - 0.5) < 0.35).all(axis=1)
    there = register_films(model.embed(bent), model.embed(film))
    found = there.transform_points(transform_points(film.ijk_to_ras, pixels[inside]))
    error = np.linalg.norm(found - transform_points(film.ijk_to_ras, moved[inside]), axis=1)
    assert np.median(error) < pixel_mm


def test_points_below_a_cut_film_are_absent(model, chest):
    """Which places lie outside of the target is known, except within 5 mm of its lower border."""
    film = chest.film
    rows = film.shape[1] * 2 // 3
    cut = Film(film.voxels[:, :rows].copy(), film.ijk_to_ras, "cut")
    low, high = chest.tissue.box_ras
    across, along = np.meshgrid(np.linspace(-80, 80, 5), np.linspace(low[2] + 20, high[2] - 20, 16))
    middle = (low + high) / 2
    places = chest.beam.to_film(
        np.column_stack([across.ravel(), np.full(across.size, middle[1]), along.ravel()])
    )
    border = transform_points(film.ijk_to_ras, np.array([[0, rows, 0]]))[0, 2]
    below = places[:, 2] < border - 5
    above = places[:, 2] > border + 5
    found = FilmPair(model.embed(film), model.embed(cut)).points(places)
    check_probabilities(found)
    absent = found.status == ABSENT
    assert min(below.sum(), above.sum()) >= 15
    assert absent[below].mean() > 0.9
    assert absent[above].mean() < 0.1


def test_another_exposure_shows_the_same_places(model, chest, places):
    turned = random_beam(chest.tissue, np.random.default_rng(5))
    film = film_of(chest.tissue, turned, "another", np.random.default_rng(5))
    middle = chest.beam.at_depth(places, np.zeros(len(places)))
    found = FilmPair(model.embed(chest.film), model.embed(film)).points(places)
    assert np.linalg.norm(found.points_ras - turned.to_film(middle), axis=1).mean() < 8.0


def write_film(path: Path, film: Film) -> Path:
    return save_picture(path, np.rint(film.voxels[0] / 16).astype(np.uint8))


def test_the_command_matches_films(tmp_path, chest, places, anatemb):
    template, target = (write_film(tmp_path / name, chest.film) for name in ("a.png", "b.png"))
    pixels = transform_points(chest.film.ras_to_ijk, places)[:, :2]
    points = tmp_path / "points.csv"
    points.write_text("label,x,y\n" + "".join(f"{n},{x},{y}\n" for n, (x, y) in enumerate(pixels)))
    width = chest.film.shape[2] * 1.5
    outcome = anatemb(
        "match",
        template,
        points,
        target,
        "-o",
        tmp_path / "out",
        "--film-width-mm",
        width,
        "--no-cache",
    )
    assert outcome.code == 0, outcome.err
    rows = rows_of(tmp_path / "out" / "matches.csv")
    found = np.array([[float(row["x"]), float(row["y"])] for row in rows])
    np.testing.assert_allclose(found, pixels, atol=1.0)
    np.testing.assert_allclose([float(row["r"]) for row in rows], places[:, 0], atol=1.5)
    report = (tmp_path / "out" / "report.html").read_text()
    assert "350 mm wide" not in report
    assert f"the film is {width:g} mm wide" in report


def test_the_command_matches_a_ct_and_a_film(tmp_path, chest, anatemb):
    low, high = chest.tissue.box_ras
    point = (low + high) / 2 + np.array([50.0, 10, 20])
    chest.volume.write(tmp_path / "ct.nii.gz")
    film = write_film(tmp_path / "film.png", chest.film)
    options = ("--film-width-mm", chest.film.shape[2] * 1.5, "--no-cache", "--no-report")
    text = ",".join(map(str, point))
    outcome = anatemb(
        "match", tmp_path / "ct.nii.gz", f"--point={text}", film, "-o", tmp_path / "a", *options
    )
    assert outcome.code == 0, outcome.err
    row = rows_of(tmp_path / "a" / "matches.csv")[0]
    place = chest.beam.to_film(point[None])[0]
    assert np.hypot(float(row["r"]) - place[0], float(row["s"]) - place[2]) < 2.0
    x, y = transform_points(chest.film.ras_to_ijk, place[None])[0, :2]
    (tmp_path / "p.csv").write_text(f"label,x,y\nhilum,{x},{y}\n")
    outcome = anatemb(
        "match", film, tmp_path / "p.csv", tmp_path / "ct.nii.gz", "-o", tmp_path / "b", *options
    )
    assert outcome.code == 0, outcome.err
    (line,) = json.loads((tmp_path / "b" / "ct.lines.mrk.json").read_text())["markups"]
    back, front = (np.array(end["position"]) * (-1, -1, 1) for end in line["controlPoints"])
    along = (front - back) / np.linalg.norm(front - back)
    assert np.linalg.norm(np.cross(point - back, along)) < 2.0


def test_a_radiograph_of_a_chest_is_a_film_and_changed_ones_are_not(anatemb, real_data, tmp_path):
    """Films of JSRT: as they are, upside down, turned by 90 degrees and inverted."""
    images = np.load(real_data / "xray" / "jsrt170.npz")["images"][:5]
    kinds = {
        "good": lambda of: of,
        "over": lambda of: of[::-1, ::-1],
        "side": np.rot90,
        "inverted": lambda of: 255 - of,
    }
    paths = {
        kind: [tmp_path / f"{kind}{number}.png" for number in range(len(images))] for kind in kinds
    }
    for kind, change in kinds.items():
        for path, image in zip(paths[kind], images, strict=True):
            sitk.WriteImage(sitk.GetImageFromArray(np.ascontiguousarray(change(image))), str(path))
    (tmp_path / "points.csv").write_text("label,x,y\ncarina,120,80\n")
    template, *targets = (path for of_kind in paths.values() for path in of_kind)
    outcome = anatemb(
        "match", template, tmp_path / "points.csv", *targets, "-o", tmp_path / "out", "--no-report"
    )
    for kind, hint in (("over", "upside down"), ("side", ""), ("inverted", "inverted")):
        for path in paths[kind]:
            assert f"{path.name}: does not look like a chest film" in outcome.err
            assert not hint or f"it is more like one if it is {hint}" in outcome.err
    assert not any(f"{path.name}: does not" in outcome.err for path in paths["good"])


def test_pixels_of_a_ct_are_refused(tmp_path, place, anatemb):
    (tmp_path / "p.csv").write_text("label,x,y\na,1,2\n")
    outcome = anatemb(
        "match",
        place.template,
        tmp_path / "p.csv",
        place.target,
        "-o",
        tmp_path / "o",
        *place.model,
    )
    assert_refused(outcome, "p.csv", "the template is no film")
