"""Each module is opened five times, the scene is closed in between, a module is reloaded: no objects are left."""

from driver import leaks
from driver.scans import add_patient
from driver.user import MODULES
from driver.waiting import pause

RELOADS = True


def run(user):
    counts = []
    for _ in range(5):
        add_patient(0, "Prior")
        add_patient(1, "Current")
        for name in MODULES:
            user.open(name)
            pause(0.2)
        user.open("Data")
        user.close_scene()
        pause(1.5)
        counts.append(leaks.measure())
    for later in counts[1:]:
        assert not leaks.growth(counts[0], later), leaks.growth(counts[0], later)

    # a check box of one module changes nothing in another
    add_patient(0, "Prior")
    add_patient(1, "Current")
    roi = user.open("AnatomicalROI")
    landmarks = user.open("AnatomicalLandmarks")
    user.tick(landmarks.ui.allTargetsCheckBox, False)
    user.open("AnatomicalROI")
    assert roi.ui.allTargetsCheckBox.checked
    for name in MODULES:
        user.open(name)
        user.reload(name)
        user.open(name)
        user.picture(f"reloaded-{name}")
