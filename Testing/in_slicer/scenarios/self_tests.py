"""Reload and Test of each module passes; without the packages it says so in a sentence, and in no error box."""

import slicer
from driver.user import MODULES
from driver.waiting import pause


def run(user):
    from AnatomicalEmbeddingLib.Maps.Engine import Engine

    for name in MODULES[:3]:  # the training module's own is the scenario "training"
        user.open(name)
        slicer.util.reloadScriptedModule(name)
        _test_of(name).runTest()
        pause(0.5)
        assert not user.dialogs.unexpected, user.dialogs.unexpected

    before = vars(Engine)["missingPackages"]
    Engine.missingPackages = staticmethod(lambda: ["torch"])
    try:
        for name in MODULES[:3]:
            user.open(name)
            # what the button "Reload and Test" of the panel calls; it shows an error box for any exception
            slicer.util.getModuleWidget(name).onReloadAndTest()
            pause(0.5)
            assert not user.dialogs.unexpected, user.dialogs.unexpected
    finally:
        Engine.missingPackages = before


def _test_of(name):
    import sys

    return getattr(sys.modules[name], f"{name}Test")()
