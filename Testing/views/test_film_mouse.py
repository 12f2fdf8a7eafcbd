"""Test a click in a film, in Slicer's own slice view: pictures as Slicer loads them, in the axial plane."""

import numpy as np
import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from film_nodes import add_film, places_in
from mouse_views import MouseView
from scans import add_points, finish, make_store, relate

from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared.maps.SceneRelations import SceneRelations


@pytest.mark.parametrize("colours", [1, 3])
def test_a_click_in_a_film_marks_the_place_in_the_other_film(
    application, scene, map_folder, pictures, colours
):
    films = [add_film(number, name, colours) for number, name in enumerate(("Prior", "Current"))]
    for film in films:
        film.CreateDefaultDisplayNodes()
    views = [MouseView(application, f"Film{n}-{colours}", film) for n, film in enumerate(films)]
    store = make_store(scene, map_folder)
    relations = SceneRelations(scene, store)
    logic = LandmarkLogic(scene, relations)
    logic.setScans(films[0], films[1:])
    logic.prepare()
    finish(store)
    points = add_points(scene, {})
    logic.setPoints(points)
    application.markups_logic.place_node(points, persistent=False)
    views[0].click(places_in(films[0], 0)[1])
    (row,) = logic.rows()
    assert row.inside
    relate(relations, 300.0)
    answers = logic.answersIn(films[1])
    found = answers.worldOf(answers.answers[row.pointId])
    assert np.linalg.norm(found - places_in(films[1], 1)[1]) < 12.0
    logic.jumpTo(row.pointId)
    for number, view in enumerate(views):
        view.picture(pictures / f"film-{colours}-{number}.png")
    logic.close()
    relations.close()
    store.close()
