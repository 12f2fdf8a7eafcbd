"""The section "Align volumes": lets the user choose two scans, align them, check the result, and undo."""

from collections.abc import Sequence
from html import escape

from slicer.i18n import tr as _

from AnatomicalEmbedding.registration import DEFORMABLE, KINDS

from ..shared.panels.Session import Session
from ..shared.panels.Widgets import BAD, coloured, showProgress, showText
from ..shared.Signal import Listener, Signal
from ..shared.Views import fit, viewsOf
from .AlignmentLogic import AlignmentLogic
from .AlignmentNodes import alignmentOf, areLaidOver, layOver, takeAway


class AlignPanel(Listener):
    """Controls an AlignmentLogic. Signal kindChosen(kind): the user has chosen another kind of transform.

    ui: the widgets of the module. The names of this panel's widgets begin with "align"; the scene stores their values.
    """

    def __init__(self, ui, logic: AlignmentLogic, session: Session) -> None:
        self.ui = ui
        self.logic = logic
        self._session = session
        self.kindChosen = Signal()
        self.clear()
        ui.alignKindComboBox.connect("currentIndexChanged(int)", self._onKind)
        ui.alignButton.connect("clicked(bool)", self.onAlign)
        ui.alignShowButton.connect("clicked(bool)", self.onShow)
        ui.alignColoursCheckBox.connect("toggled(bool)", self._onColours)
        ui.alignUndoButton.connect("clicked(bool)", self.onUndo)
        self.listen(logic.reported, self._showError)
        self.atEnd(session.addWork(lambda: self.logic.busy))
        self.listen(session.ticked, self._onTick)
        self.update()

    def show(self, kind: str, template, targets: Sequence) -> None:
        """Select a kind of transform, and the default scans.

        Args:
            kind: the kind of transform.
            template: the fixed volume node.
            targets: volume nodes; the first is the moving one.
        """
        self.ui.alignKindComboBox.currentIndex = KINDS.index(kind if kind in KINDS else DEFORMABLE)
        self._template = template
        self._targets = list(targets)
        _nameDefault(self.ui.alignFixedSelector, _("Template"), template)
        _nameDefault(self.ui.alignMovingSelector, _("First other scan"), self._otherScan)
        self.update()

    def clear(self) -> None:
        """Cancel the alignment and stop using the scans. Call this when the scene closes."""
        self.logic.cancel()
        self._template = None
        self._targets = []
        self._error = ""

    @property
    def fixed(self):
        """The volume that stays in place: the user's choice, or by default the template."""
        return self.ui.alignFixedSelector.currentNode() or self._template

    @property
    def moving(self):
        """The volume that is moved: the user's choice, or by default the first scan that is not the fixed volume."""
        return self.ui.alignMovingSelector.currentNode() or self._otherScan

    @property
    def _otherScan(self):
        others = [scan for scan in (self._template, *self._targets) if scan is not self.fixed]
        return others[0] if others else None

    # -- actions of the user

    def onAlign(self) -> None:
        """Start to align the volumes; if an alignment already runs, cancel it."""
        self._error = ""
        if self.logic.busy:
            self.logic.cancel()
        else:
            self.logic.align(
                self.fixed, self.moving, self._kind, self.ui.alignResampleCheckBox.checked
            )
        self.update()

    def onShow(self) -> None:
        """Show the moving volume over the fixed volume; if the views already show this, hide the moving volume."""
        scene = self._session.scene
        fixed = self.fixed
        moving = self.moving
        if areLaidOver(scene, fixed, moving):
            takeAway(scene, fixed, moving)
        else:
            hasViews = bool(viewsOf(scene, fixed))
            if not layOver(scene, fixed, moving, self.ui.alignColoursCheckBox.checked):
                self._showError(_("This window has no slice views."))
            elif not hasViews:
                fit(scene, fixed)
        self.update()

    def _onColours(self, on: bool) -> None:
        if areLaidOver(self._session.scene, self.fixed, self.moving):
            layOver(self._session.scene, self.fixed, self.moving, on)

    def onUndo(self) -> None:
        self._error = ""
        self.logic.undo(self.moving)
        self.update()

    def _onKind(self, index: int) -> None:
        self._error = ""
        self.kindChosen.emit(self._kind)

    @property
    def _kind(self) -> str:
        return KINDS[self.ui.alignKindComboBox.currentIndex]

    # -- showing

    def _onTick(self) -> None:
        self.logic.poll()
        self.update()

    def _showError(self, sentence: str) -> None:
        self._error = sentence

    def update(self) -> None:
        """Show the state of the alignment: buttons, their tool tips, progress, and the result or an error."""
        ui = self.ui
        for widget in (
            ui.alignKindComboBox,
            ui.alignFixedSelector,
            ui.alignMovingSelector,
            ui.alignResampleCheckBox,
        ):
            widget.enabled = not self.logic.busy
        fixed = self.fixed
        moving = self.moving
        problem = self.logic.problem(fixed, moving)
        # a tip that names a scan is shown only if there is one
        names = {"fixed": fixed and fixed.GetName(), "moving": moving and moving.GetName()}
        self._showAlignButton(problem, names)
        self._showShowButton(problem, names)
        alignment = alignmentOf(moving)
        undoTip = _("The moving scan is not aligned.")
        if alignment is not None:
            undoTip = _(
                "Move {moving} back to its place before the alignment. The transform stays in the scene."
            ).format(**names)
        ui.alignUndoButton.enabled = alignment is not None and not self.logic.busy
        ui.alignUndoButton.toolTip = undoTip
        showProgress(ui.alignProgressBar, self.logic)
        result = "" if alignment is None else alignment.GetDescription() or ""
        showText(ui.alignLabel, coloured(self._error, BAD) if self._error else escape(result))

    def _showAlignButton(self, problem: str, names: dict[str, str]) -> None:
        """Update the button that starts or cancels the alignment. problem: why it cannot start. names: of the scans."""
        button = self.ui.alignButton
        if self.logic.busy:
            button.text = _("Cancel")
            button.toolTip = _("Stop the alignment. The scene does not change.")
        else:
            tip = _("Align {moving} with {fixed}. Both scans are prepared first.")
            button.text = _("Align")
            button.toolTip = problem or tip.format(**names)
        button.enabled = self.logic.busy or not problem

    def _showShowButton(self, problem: str, names: dict[str, str]) -> None:
        """Update the button that shows both scans, or the fixed scan alone. names: of the scans."""
        button = self.ui.alignShowButton
        button.text = _("Show both")
        tip = _(
            "Show {moving} half transparent over {fixed}. The slider of a slice view changes the mixture."
        )
        if problem:
            tip = _("Choose two scans first.")
        elif areLaidOver(self._session.scene, self.fixed, self.moving):
            button.text = _("Show fixed alone")
            tip = _("Show only {fixed} in the views.")
        button.enabled = not problem
        button.toolTip = tip.format(**names)


def _nameDefault(selector, title: str, node) -> None:
    """Set the text of a selector without a chosen scan: `title`, then the name of the default scan `node`."""
    text = title if node is None else _("{title} ({name})").format(title=title, name=node.GetName())
    if selector.noneDisplay != text:
        chosen = selector.currentNode()
        blocked = selector.blockSignals(True)
        selector.noneDisplay = text
        # otherwise an empty selector would now choose its first node
        selector.setCurrentNode(chosen)
        selector.blockSignals(blocked)
