"""The zip file of `make package` is installed; after a restart of 3D Slicer, the four modules work."""

import os

FROM_PACKAGE = True
NEEDS_PACKAGES = False


def run(user):
    import slicer

    slicer.app.extensionsInstallPath = str(user.folder / "extensions")
    model = slicer.app.extensionsManagerModel()
    package = os.environ["ANATEMB_PACKAGE"]
    assert model.installExtension(package, False, True), f"{package} was not installed"
    assert model.isExtensionInstalled("AnatomicalEmbedding")
    user.picture("installed")


def run_after_restart(user):
    import slicer
    from driver.user import MODULES

    assert slicer.app.extensionsManagerModel().isExtensionInstalled("AnatomicalEmbedding")
    for name in MODULES:
        assert hasattr(slicer.modules, name.lower()), f"{name} is not there after the restart"
        assert str(user.folder) in slicer.util.modulePath(name), f"{name} comes from elsewhere"
        user.open(name)
        user.picture(name)
    user.load_sample("Phantom pair")
    panel = user.open("AnatomicalLandmarks")
    assert [volume.GetName() for volume in panel.logic.targets] == ["PhantomB"]
