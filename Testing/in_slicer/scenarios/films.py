"""Two chest films from pictures: a click in one marks the place in the other; then points of a CT in its film."""

import sys
from pathlib import Path

from driver.landmarks import answer, answer_place, distance, new_list, place_point

sys.path.append(str(Path(__file__).resolve().parents[2]))

NEAR = 20.0  # pixels
POINT = 1


def run(user):
    films = [_load_picture(user, number, name) for number, name in enumerate(("prior", "current"))]
    panel = user.open("AnatomicalLandmarks")
    assert panel.logic.template is films[0]
    assert panel.logic.targets == films[1:]
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    assert user.views.count() == len(films), "a film has one view"
    user.views.assert_none_is_black(films)
    before = [user.views.middle(film) for film in films]
    assert {node.GetRulerType() for film in films for node in user.views.nodes(film)} == {0}, (
        "no ruler without mm"
    )
    _click_and_check(user, panel, films, 0)
    assert [list(user.views.middle(film)) for film in films] == list(map(list, before)), (
        "films stay in their views"
    )
    user.picture("two-films")


def run_ct_and_film(user):
    import slicer
    from film_nodes import filmed

    made = filmed()
    chest = slicer.util.addVolumeFromArray(made.ct.voxels, made.ct.ijk_to_ras, name="CT")
    chest.CreateDefaultDisplayNodes()
    film = _load_picture(user, 1, "film")
    panel = user.open("AnatomicalLandmarks")
    assert panel.logic.template is chest
    assert panel.logic.targets == [], "a film is no target of a CT until it is ticked"
    user.tick(panel.ui.allTargetsCheckBox, False)
    panel.ui.targetSelector.setCheckState(film, 2)
    user.wait(lambda: panel.logic.targets == [film], 5)
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    user.views.assert_none_is_black([chest])
    _click_and_check(user, panel, [chest, film], 1)
    user.picture("ct-and-film")


def _load_picture(user, number: int, name: str):
    """A film of the patient as a PNG file, as Slicer loads it: without the size of its pixels."""
    import numpy as np
    import SimpleITK as sitk
    from film_nodes import filmed

    path = user.folder / f"{name}.png"
    grey = np.rint(filmed().films[number].voxels[0] / 16).astype(np.uint8)
    sitk.WriteImage(sitk.GetImageFromArray(grey), str(path))
    return user.load_file(path)


def _click_and_check(user, panel, scans, number: int) -> None:
    """Click a point of the patient in the first scan; its answer in the second, film `number`, is near the truth."""
    from film_nodes import filmed, places_in

    place = places_in(scans[0], 0)[POINT] if number == 0 else filmed().points_ras[POINT]
    new_list(panel)
    place_point(user, panel, scans[0], place)
    user.wait(lambda: answer(panel, scans[1]) is not None, 120, "the other scan has an answer")
    user.wait(lambda: not panel.session.relations.busy, 300, "the correspondence is found")
    true = places_in(scans[1], 1)[POINT]
    found = answer_place(panel, scans[1])
    assert distance(found, true) < NEAR, f"{found}, but the truth is {true}"
