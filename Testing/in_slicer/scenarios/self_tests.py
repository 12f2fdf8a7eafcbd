"""Slicer's "Reload and Test" passes for each module; missing packages give a sentence and no error dialog."""

import slicer
from driver.user import MODULES

RELOADS = True


def run(user):
    from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

    slicer.app.userSettings().setValue("Developer/SelfTestDisplayMessageDelay", 100)
    _reload_and_test(user)
    before = vars(Engine)["missingPackages"]
    Engine.missingPackages = staticmethod(lambda: ["torch"])
    try:
        _reload_and_test(user)
    finally:
        Engine.missingPackages = before


def _reload_and_test(user):
    for name in MODULES[:3]:  # the training module's own is played by train_weights
        user.open(name)
        user.reload_and_test(name)
        assert not user.dialogs.unexpected, user.dialogs.unexpected
