"""Points that the user places in a template. All other scans show the same places. Each template has its own points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from slicer.util import NodeModify

from AnatomicalEmbedding.landmarks.landmark_set import SUFFIX
from AnatomicalEmbedding.matching.status import ABSENT, decimals
from AnatomicalEmbedding.resources import resource
from AnatomicalEmbeddingLib.landmarks.AnswerList import SOURCE_ROLE, VOLUME_ROLE
from AnatomicalEmbeddingLib.landmarks.ControlPoints import worldOf
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.landmarks.SetScans import openSet
from AnatomicalEmbeddingLib.shared import SceneNodes
from AnatomicalEmbeddingLib.shared.Colours import STATUS_WORDS, mmText
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED, READY

if TYPE_CHECKING:
    from .session import Session

_LABEL_LIMIT = 60  # largest number of characters in a label
_TEXT_SCALE, _GLYPH_SCALE = 3.5, 2.5  # sizes of labels and points in the views
_POINT_COLOUR = (0.25, 0.7, 1.0)  # by eye


class Landmarks:
    """Places and matches points. Sets values of the page: `points` (the table), `point_counts` (number of points by
    template ID), `selected` (point ID), `mouse` (mode of the left button), `landmark_sets` (names), `can_undo` and
    `can_redo`.

    own_set: path of a landmark set of the user, or None.
    """

    def __init__(self, session: Session, own_set: Path | None) -> None:
        self._session = session
        usual = session.check is None  # the shipped sets were made with the usual weights
        shipped = ("trunk", "pelvis") if usual else ()
        paths = [resource(f"Landmarks/{name}{SUFFIX}") for name in shipped]
        paths += [own_set] if own_set else []
        self._sets = {path.name.removesuffix(SUFFIX): str(path) for path in paths}
        self.logic = LandmarkLogic(session.scene, session.relations)
        self._selected: str | None = None
        self._known: set[str] = set()
        self._changed = True
        self._published_mode = ""
        self._lists: dict[str, object] = {}  # point lists by ID of their template
        self._mouse = session.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        self._selection = session.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        self.logic.reported.connect(session.report)
        self.logic.changed.connect(self._on_changed)
        session.scans_changed.connect(self._follow_scans)
        session.on_close(self.logic.close)

    # -- templates and lists -----------------------------------------------------------------------------------------

    def _follow_scans(self) -> None:
        logic = self.logic
        template = self._session.template
        if template is not logic.template:
            logic.setPoints(None)
        logic.setScans(template, self._session.scans)
        if template is not None:
            logic.setPoints(self._list_of(template))
        self._remove_lists()
        for points in self._lists.values():  # draw only the current template's points and answers
            for node in (points, *self._answers_to(points)):
                if node.GetDisplayNode() is not None:
                    node.GetDisplayNode().SetVisibility(points is logic.points)
        if self._mouse_mode == "place":  # so that clicks add points to the current template's list
            self.set_mouse("move" if logic.points is None else "place")
        self._changed = True

    def _list_of(self, template):
        """Return the list node with the template's points. If the template has no list node, create a list node."""
        if template.GetID() not in self._lists:
            name = SceneNodes.freeName(self._session.scene, f"Points of {template.GetName()}")
            points = self._session.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", name)
            points.SetControlPointLabelFormat("P%d")
            points.CreateDefaultDisplayNodes()
            points.GetDisplayNode().SetSelectedColor(*_POINT_COLOUR)
            _set_scale(points.GetDisplayNode())
            self._lists[template.GetID()] = points
        return self._lists[template.GetID()]

    def _remove_lists(self) -> None:
        """Remove the points of removed scans, the answers to these points, and the answers in removed scans."""
        scans = self._session.scans
        present = {scan.GetID() for scan in scans}
        removed = [self._lists.pop(key) for key in set(self._lists) - present]
        answers = [node for points in removed for node in self._answers_to(points)]
        for points in self._lists.values():
            answers += [
                node
                for node in self._answers_to(points)
                if node.GetNodeReference(VOLUME_ROLE) not in scans
            ]
        for node in answers + removed:
            SceneNodes.removeNode(self._session.scene, node)

    def _answers_to(self, points) -> list:
        """Return all lists of answers to the points of the list `points`; each scan has its own list."""
        lists = SceneNodes.nodesOf(self._session.scene, "vtkMRMLMarkupsFiducialNode")
        return [node for node in lists if node.GetNodeReference(SOURCE_ROLE) is points]

    # -- actions of the page -----------------------------------------------------------------------------------------

    def set_mouse(self, mode: str) -> None:
        """Set the action of the left mouse button: "place" points, change the CT "window", or "move" points."""
        markups = self._session.app.markups_logic
        points = self.logic.points
        if mode == "place" and points is not None:
            markups.place_node(points, persistent=True)
        elif mode == "place":
            self._session.report("There is no scan yet; add a scan, then place points in it.")
        elif mode == "window":
            self._mouse.SetCurrentInteractionMode(self._mouse.AdjustWindowLevel)
        else:
            markups.disable_place_mode()
        self._changed = True

    def place_set(self, name: str) -> None:
        """Place the landmarks of a set in the template; all its examples find them in the other scans."""
        points = self.logic.points
        if points is None or name not in self._sets:
            self._session.report("There is no scan yet; add a scan, then choose a landmark set.")
            return
        with NodeModify(points):  # one step for undo
            _nodes, sentence = openSet(
                self._session.scene,
                self._session.store,
                self._sets[name],
                self.logic.template,
                points,
            )
        self._session.report(sentence)

    def select(self, point_id: str) -> None:
        """Move the views of all scans to a point and its answers."""
        if self._has_point(point_id):
            self._selected = point_id
            self.logic.jumpTo(point_id)
            self._changed = True

    def rename(self, point_id: str, label: str) -> None:
        label = " ".join(str(label).split())[:_LABEL_LIMIT]
        if self._has_point(point_id) and label:
            self.logic.renamePoint(point_id, label)
        self._changed = True

    def delete(self, point_id: str) -> None:
        if self._has_point(point_id):
            self.logic.deletePoint(point_id)

    def set_not_visible(self, point_id: str, scan_id: str) -> None:
        """Replace an answer with the user's statement that the scan does not show the point."""
        scan = self._session.scan(scan_id)
        if self._has_point(point_id) and scan in self.logic.targets:
            self.logic.setNotVisible(point_id, scan)

    def match_again(self, point_id: str, scan_id: str) -> None:
        """Match a point again in a scan. The new match also replaces an answer that the user has set."""
        scan = self._session.scan(scan_id)
        if self._has_point(point_id) and scan in self.logic.targets:
            self.logic.matchAgain([point_id], scan, corrections=True)

    def _has_point(self, point_id: object) -> bool:
        points = self.logic.points
        if points is None or not isinstance(point_id, str):
            return False
        return worldOf(points, point_id) is not None

    # -- for the page ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        self.logic.poll()
        self._changed = self._changed or self._mouse_mode != self._published_mode

    @property
    def _mouse_mode(self) -> str:
        now = self._mouse.GetCurrentInteractionMode()
        points = self.logic.points
        if now == self._mouse.AdjustWindowLevel:
            return "window"
        is_ours = points is not None and self._selection.GetActivePlaceNodeID() == points.GetID()
        return "place" if now == self._mouse.Place and is_ours else "move"

    def publish(self, state) -> None:
        if not self._changed:
            return
        self._changed = False
        rows = self.logic.rows()
        present = [row.pointId for row in rows]
        new = [point_id for point_id in present if point_id not in self._known]
        if new:  # select the point that was placed last
            self._selected = new[-1]
        elif self._selected not in present:
            self._selected = present[-1] if present else None
        self._known = set(present)
        state.points = [self._row(row) for row in reversed(rows)]  # the newest point first
        state.selected = self._selected
        state.point_counts = {
            scan: points.GetNumberOfDefinedControlPoints() for scan, points in self._lists.items()
        }
        self._published_mode = self._mouse_mode
        state.mouse = self._published_mode
        state.landmark_sets = list(self._sets)
        state.can_undo = self.logic.history.canUndo
        state.can_redo = self.logic.history.canRedo

    def _row(self, row) -> dict:
        point = worldOf(self.logic.points, row.pointId)
        embedding = self._session.store.map(self.logic.template)
        if embedding is not None and embedding.is_own_kind:
            digits = decimals(embedding.unit_mm)
            texts = [f"{round(mm, digits) + 0.0:.{digits}f}" for mm in point]
        else:
            texts = [
                f"{abs(mm):.0f} {sides[0] if mm >= 0 else sides[1]}"
                for mm, sides in zip(point, ("RL", "AP", "SI"), strict=True)
            ]
        answers = [self._answer(row, scan) for scan in self.logic.targets] if row.inside else []
        return {
            "id": row.pointId,
            "label": row.label,
            "place": "  ".join(texts),
            "inside": row.inside,
            "answers": answers,
        }

    def _answer(self, row, scan) -> dict:
        answer = row.answers.get(scan.GetID())
        shown = {"scan": scan.GetID(), "name": scan.GetName(), "error": "", "by_hand": False}
        if answer is None:
            store = self._session.store
            states = [store.state(node).status for node in (scan, self.logic.template)]
            text = "…" if states == [READY, READY] else "preparing"
            if FAILED in states:
                text = "cannot be used"
            tip = "The answer appears when both scans are ready."
            return shown | {"status": "pending", "text": text, "tip": tip}
        text = STATUS_WORDS[answer.status]
        if answer.errorMm is not None and not answer.byHand and answer.status != ABSENT:
            shown["error"] = f"± {mmText(answer.errorMm, answer.unitMm, 0)}"
            if answer.doubt:
                text += f": {answer.doubt.partition(':')[0]}"
        if answer.outdated:
            text = f"{STATUS_WORDS[answer.status]} (before the move)"
        return shown | {
            "status": answer.status,
            "text": text,
            "by_hand": answer.byHand,
            "tip": answer.text,
        }

    def _on_changed(self) -> None:
        self._changed = True
        for scan in self.logic.targets:
            answers = self.logic.answersIn(scan)
            display = None if answers is None else answers.node.GetDisplayNode()
            if display is not None and display.GetTextScale() != _TEXT_SCALE:
                _set_scale(display)


def _set_scale(display) -> None:
    display.SetTextScale(_TEXT_SCALE)
    display.SetGlyphScale(_GLYPH_SCALE)
