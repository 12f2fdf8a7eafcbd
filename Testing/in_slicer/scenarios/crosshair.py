"""The anatomical crosshair: all scans follow the mouse from any scan; after switching off, nothing of it is left."""

from driver.landmarks import distance, world
from driver.scans import add_patient, patient
from driver.waiting import pause

NAMES = ("carina", "heart_apex", "liver_dome")


def run(user):
    volumes = [add_patient(n, f"Scan {n + 1}") for n in range(3)]
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    user.views.assert_none_is_black(volumes)
    user.press("Ctrl+Shift+X")
    assert panel.ui.crosshairCheckBox.checked
    for source, volume in enumerate(volumes):
        for name in NAMES:
            user.views.hover(volume, patient(source).points_ras[name])
            pause(0.3)
            for target, other in enumerate(volumes):
                if other is not volume:
                    marker = panel.crosshair.markers.of(other)
                    assert marker is not None, f"{other.GetName()} has no marker"
                    assert distance(world(marker), patient(target).points_ras[name]) < 20
                    assert user.views.shows(other, world(marker), 3.0), (
                        f"{other.GetName()} does not follow"
                    )
    user.picture("crosshair")
    user.open("AnatomicalROI")
    assert not panel.ui.crosshairCheckBox.checked, "leaving the module switches it off"
    assert all(panel.crosshair.markers.of(volume) is None for volume in volumes)
