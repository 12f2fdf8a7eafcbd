"""A place found in a cohort: the user opens the table, and a double click loads a scan at the place."""

import slicer
from driver.landmarks import distance, world
from driver.scans import add_patient, patient

PLACE = "carina"


def run(user):
    table = _write_places(user.folder)
    mine = add_patient(2, "Mine")
    panel = user.open("AnatomicalLandmarks")
    user.open_section(panel.ui.cohortSection)
    with user.answering(table):
        user.click(panel.ui.cohortButton)
    rows = panel.ui.cohortTable
    assert rows.rowCount == 2
    assert "2 scans show the place, 1 do not" in panel.ui.cohortLabel.text

    # a scan is loaded beside the user's own, its place is marked, and it takes part in everything
    user.views.put_everywhere(mine)
    user.click_cell(rows, 0, 0, twice=True)
    user.wait(lambda: _volume(0) is not None, 60, "the scan is loaded")
    assert panel.logic.targets == [_volume(0)]
    user.views.assert_none_is_black([mine, _volume(0)])
    marker = panel.hits.markers.of(_volume(0))
    assert distance(world(marker), patient(0).points_ras[PLACE]) < 0.1, "the place is marked"
    assert not any(
        marker.GetDisplayNode().IsDisplayableInView(view.GetID()) for view in user.views.nodes(mine)
    )
    user.picture("marked")

    # next to another scan, each hit takes the views of the one before
    for row in (0, 1):
        user.click_cell(rows, row, 0, twice=True)
        user.wait(lambda row=row: _volume(row) is not None, 60, "the scan is loaded")
        volume = _volume(row)
        place = patient(row).points_ras[PLACE]
        user.wait(
            lambda volume=volume, place=place: user.views.shows(volume, place),
            10,
            "its views go to the place",
        )
        user.views.assert_none_is_black([mine, volume])
        user.picture(f"patient-{row}")


def _write_places(folder):
    lines = ["scan,status,probability,expected_error_mm,r,a,s"]
    for number in (0, 1):
        path = folder / f"patient_{number}.nii"
        patient(number).volume.write(path)
        r, a, s = patient(number).points_ras[PLACE]
        lines.append(f"{path},matched,0.9,4.0,{r:.2f},{a:.2f},{s:.2f}")
    lines.append(f"{folder / 'head.nii'},absent,0.01,,,,")
    table = folder / "places.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def _volume(number: int):
    return slicer.mrmlScene.GetFirstNodeByName(f"patient_{number}")
