"""The set-up section at the top of the modules: packages, weights, device and the maps on disk.

The section opens if packages or weights are missing; otherwise it is closed. Errors are shown in the section. Only an
installation opens a dialog.
"""

from functools import partial
from pathlib import Path

import qt
import slicer.util
from slicer.i18n import tr as _

from AnatomicalEmbedding.embedding.cache import MapCache, default_folder

from ... import moduleResource
from ..maps.Engine import DEVICES
from ..Signal import Listener
from .FileForm import askForFile
from .ModuleSettings import (
    CACHE_FOLDER,
    CACHE_LIMIT,
    DEVICE,
    WEIGHTS,
    WHEEL_FOLDER,
    choice,
    setValue,
    value,
)
from .PackageSetup import InstallError, install, installedVersion
from .Session import Session
from .Widgets import BAD, GOOD, coloured, connectPath, fillComboBox, letShrink, showText


class SetupPanel(Listener):
    """Shows and changes `ModuleSettings`. A change of a setting is shown in the panels of all modules."""

    def __init__(self, parentLayout, session: Session) -> None:
        self.session = session
        self.widget = slicer.util.loadUI(str(moduleResource("UI/AnatomicalEmbeddingSetup.ui")))
        self.ui = slicer.util.childWidgetVariables(self.widget)
        letShrink(self.widget)
        parentLayout.addWidget(self.widget)
        self._ready: bool | None = None
        self._connect()
        self.refresh()

    def refresh(self) -> None:
        """Update the section. Called when the module is opened, and after each change of a setting."""
        self._showPackages()
        self._showWeights()
        self.ui.deviceSelector.setCurrentIndex(DEVICES.index(choice().device))
        self._showCache()
        ready = not self._missing() and self.session.store.engine.problem() is None
        # only if `ready` changes, so that a section opened by the user stays open
        if ready != self._ready:
            self._ready = ready
            self.widget.collapsed = ready
        self.widget.text = _("Set-up") if ready else _("Set-up: something is missing")

    def _connect(self) -> None:
        ui = self.ui
        ui.installButton.connect("clicked(bool)", self._onInstall)
        connectPath(ui.wheelFolderEdit, partial(setValue, WHEEL_FOLDER))
        ui.weightsSelector.connect(
            "activated(int)", lambda index: setValue(WEIGHTS, ui.weightsSelector.itemData(index))
        )
        ui.chooseWeightsButton.connect("clicked(bool)", self._onChooseWeights)
        ui.deviceSelector.connect("activated(int)", lambda index: setValue(DEVICE, DEVICES[index]))
        ui.chooseCacheButton.connect("clicked(bool)", self._onChooseCache)
        ui.clearCacheButton.connect("clicked(bool)", self._onClearCache)
        ui.cacheLimitSpinBox.connect("valueChanged(int)", partial(setValue, CACHE_LIMIT))
        self.widget.connect(
            "contentsCollapsed(bool)", lambda isCollapsed: isCollapsed or self.refresh()
        )
        self.listen(self.session.chosen, lambda _key: self.refresh())

    # -- packages ----------------------------------------------------------------------------------------------------

    def _missing(self) -> list[str]:
        return self.session.store.engine.missingPackages()

    def _showPackages(self, message: str = "") -> None:
        """Show which packages are installed. message: shown instead of the problem of the engine."""
        ui = self.ui
        missing = self._missing()
        text = coloured(_("Not installed"), BAD)
        if "torch" not in missing:
            installed = _("Installed: {version}").format(version=installedVersion("torch"))
            text = coloured(installed, GOOD)
        ui.torchStatus.text = text
        names = ", ".join(name for name in missing if name != "torch")
        if names:
            text = coloured(_("Not installed: {names}").format(names=names), BAD)
        else:
            version = installedVersion("safetensors")
            text = coloured(_("Installed: safetensors {version}").format(version=version), GOOD)
        ui.packagesStatus.text = text
        ui.installButton.enabled = bool(missing)
        folder = value(WHEEL_FOLDER, "")
        if ui.wheelFolderEdit.currentPath != folder:
            ui.wheelFolderEdit.currentPath = folder
        problem = message or (self.session.store.engine.problem() if missing else None)
        showText(ui.messageLabel, coloured(problem, BAD) if problem else "")

    def _onInstall(self) -> None:
        """Install the missing packages, and show what is still missing or must be done."""
        try:
            message = install(self._missing())
        except InstallError as error:
            message = str(error)
        missing = self._missing()
        if missing and not message:
            message = _("{names}: still missing; restart Slicer and try again.").format(
                names=", ".join(missing)
            )
        self.refresh()
        self._showPackages(message)

    # -- weights -----------------------------------------------------------------------------------------------------

    def _showWeights(self) -> None:
        """Fill the list of weights, and state whether the chosen file exists, its size, card and terms."""
        from AnatomicalEmbedding.resources import default_weights, list_weights, terms_of

        ui = self.ui
        chosen = choice().weights
        entries = [("auto", _("Automatic ({name})").format(name=default_weights()))]
        entries += [(name, name) for name in list_weights()]
        if chosen not in [weights for weights, _text in entries]:
            entries.append((chosen, Path(chosen).name))
        fillComboBox(ui.weightsSelector, entries, chosen)
        path = self.session.store.engine.weightsPath()
        ui.weightsSelector.toolTip = str(path)
        if not path.is_file():
            missing = _("Missing: {path}. Choose other weights.").format(path=path)
            ui.weightsStatus.text = coloured(missing, BAD)
            return
        size = _sizeText(path.stat().st_size)
        text = coloured(_("Found: {name} ({size})").format(name=path.name, size=size), GOOD)
        card = path.with_suffix(".md")
        if card.is_file():
            text += f' &nbsp;<a href="{card.as_uri()}">{_("data and licence")}</a>'
        terms = terms_of(path)
        if terms:
            text += f"<br>{terms}"
        ui.weightsStatus.text = text

    def _onChooseWeights(self) -> None:
        path = askForFile(self.widget, _("Weights"), _("Weights (*.safetensors)"), "weightsFolder")
        if path:
            setValue(WEIGHTS, path)

    # -- maps on disk ------------------------------------------------------------------------------------------------

    def _maps(self) -> MapCache:
        return MapCache(Path(value(CACHE_FOLDER, "") or default_folder()))

    def _showCache(self) -> None:
        """Show the number and the size of the maps on disk, and their limit."""
        ui = self.ui
        maps = self._maps()
        count = maps.count()
        ui.cacheStatus.text = _("{count} maps, {size}").format(
            count=count, size=_sizeText(maps.size_bytes())
        )
        ui.cacheStatus.toolTip = str(maps.folder)
        ui.clearCacheButton.enabled = count > 0
        blocked = ui.cacheLimitSpinBox.blockSignals(True)
        ui.cacheLimitSpinBox.value = choice().cacheLimitMb
        ui.cacheLimitSpinBox.blockSignals(blocked)

    def _onChooseCache(self) -> None:
        folder = qt.QFileDialog.getExistingDirectory(
            self.widget, _("Folder of maps"), str(self._maps().folder)
        )
        if folder:
            setValue(CACHE_FOLDER, folder)

    def _onClearCache(self) -> None:
        self._maps().shrink(0)
        self._showCache()


def _sizeText(size: int) -> str:
    return f"{size / 10**9:.1f} GB" if size >= 10**9 else f"{size / 10**6:.0f} MB"
