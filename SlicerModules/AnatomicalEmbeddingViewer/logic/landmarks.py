"""Points: placed in any scan, found in all others, renamed, moved, deleted, undone; one list for each template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbeddingLib.landmarks.AnswerList import SOURCE_ROLE, VOLUME_ROLE
from AnatomicalEmbeddingLib.landmarks.ControlPoints import worldOf
from AnatomicalEmbeddingLib.landmarks.LandmarkLogic import LandmarkLogic
from AnatomicalEmbeddingLib.shared import SceneNodes
from AnatomicalEmbeddingLib.shared.maps.MapStore import FAILED, READY
from AnatomicalEmbeddingLib.shared.MatchWords import STATUS_WORDS
from AnatomicalEmbeddingLib.shared.SceneNodes import nodesOf

if TYPE_CHECKING:
    from .session import Session

_LONGEST_LABEL = 60


class Landmarks:
    """Publishes `points` (a list for the page), `points_of` (how many, by scan), `selected`, `mouse`, `can_undo` and
    `can_redo`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.logic = LandmarkLogic(session.scene, session.store)
        self.selected: str | None = None
        self._known: set[str] = set()
        self._dirty = True
        self._shown_mode = ""
        self._lists: dict[str, object] = {}
        self._mouse = session.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        self._selection = session.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        self.logic.reported.connect(session.say)
        self.logic.changed.connect(self._on_changed)
        session.scans_changed.connect(self.follow)
        session.at_end(self.logic.close)

    # -- what is worked on -------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """The session's template and scans are those of the points."""
        session = self._session
        template = session.template
        if template is not self.logic.template:
            self.logic.setPoints(None)
        self.logic.setScans(template, session.scans)
        if template is not None:
            self.logic.setPoints(self._list_of(template))
        self._drop_lists_of_gone()
        self._show_current()
        if self.mouse_mode == "place":  # in the present template's list, not in one that was made meanwhile
            self.set_mouse("move" if self.logic.points is None else "place")
        self._dirty = True

    def _list_of(self, template):
        """The template's list, made when it is first needed."""
        if template.GetID() not in self._lists:
            name = SceneNodes.freeName(self._session.scene, f"Points of {template.GetName()}")
            points = self._session.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", name)
            points.SetControlPointLabelFormat("P%d")
            points.CreateDefaultDisplayNodes()
            display = points.GetDisplayNode()
            display.SetSelectedColor(0.25, 0.7, 1.0)
            display.SetTextScale(3.5)
            display.SetGlyphScale(2.5)
            self._lists[template.GetID()] = points
        return self._lists[template.GetID()]

    def _show_current(self) -> None:
        """Only the present template's points and answers are drawn."""
        for points in self._lists.values():
            for each in (points, *self._answers_to(points)):
                if each.GetDisplayNode() is not None:
                    each.GetDisplayNode().SetVisibility(points is self.logic.points)

    def _drop_lists_of_gone(self) -> None:
        """A scan's own points, the answers to them, and the answers in it go with the scan."""
        scans = self._session.scans
        gone = [self._lists.pop(key) for key in set(self._lists) - {scan.GetID() for scan in scans}]
        answers = [each for points in gone for each in self._answers_to(points)]
        answers += [
            each
            for points in self._lists.values()
            for each in self._answers_to(points)
            if each.GetNodeReference(VOLUME_ROLE) not in scans
        ]
        for each in answers + gone:
            SceneNodes.removeNode(self._session.scene, each)

    def _answers_to(self, points) -> list:
        """Lists of answers, in any scan, to the points of a list."""
        lists = nodesOf(self._session.scene, "vtkMRMLMarkupsFiducialNode")
        return [each for each in lists if each.GetNodeReference(SOURCE_ROLE) is points]

    # -- what the user does ------------------------------------------------------------------------------------------

    def set_mouse(self, mode: str) -> None:
        """What the left button does: "place" points, change the "window", or "move" what is drawn."""
        markups, points = self._session.app.markups_logic, self.logic.points
        if mode == "place" and points is not None:
            markups.place_node(points, persistent=True)
        elif mode == "place":
            self._session.say("There is no scan yet: add one, then place points in it.")
        elif mode == "window":
            self._mouse.SetCurrentInteractionMode(self._mouse.AdjustWindowLevel)
        else:
            markups.disable_place_mode()
        self._dirty = True

    def select(self, point_id: str) -> None:
        """Show a point and its answers in all views."""
        if self._has(point_id):
            self.selected = point_id
            self.logic.jumpTo(point_id)
            self._dirty = True

    def rename(self, point_id: str, label: str) -> None:
        label = " ".join(str(label).split())[:_LONGEST_LABEL]
        if self._has(point_id) and label:
            self.logic.renamePoint(point_id, label)
        self._dirty = True

    def delete(self, point_id: str) -> None:
        if self._has(point_id):
            self.logic.deletePoint(point_id)

    def set_not_visible(self, point_id: str, scan_id: str) -> None:
        """The user says that the scan does not show the point."""
        scan = self._session.scan(scan_id)
        if self._has(point_id) and scan in self.logic.targets:
            self.logic.setNotVisible(point_id, scan)

    def match_again(self, point_id: str, scan_id: str) -> None:
        """Forget the user's own answer, and match it."""
        scan = self._session.scan(scan_id)
        if self._has(point_id) and scan in self.logic.targets:
            self.logic.matchAgain([point_id], scan, corrections=True)

    def undo(self) -> None:
        self.logic.undo()

    def redo(self) -> None:
        self.logic.redo()

    def _has(self, point_id: object) -> bool:
        points = self.logic.points
        return points is not None and isinstance(point_id, str) and worldOf(points, point_id) is not None

    # -- for the page --------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        self.logic.poll()
        mode = self.mouse_mode
        if mode != self._shown_mode:
            self._shown_mode, self._dirty = mode, True

    @property
    def mouse_mode(self) -> str:
        """A click may also place something that is no point of ours; that is "move" here."""
        now, points = self._mouse.GetCurrentInteractionMode(), self.logic.points
        if now == self._mouse.AdjustWindowLevel:
            return "window"
        ours = points is not None and self._selection.GetActivePlaceNodeID() == points.GetID()
        return "place" if now == self._mouse.Place and ours else "move"

    def publish(self, state) -> None:
        """Nothing is worked out while nothing has changed."""
        if not self._dirty:
            return
        self._dirty = False
        rows = self.logic.rows()
        there = [row.pointId for row in rows]
        come = [each for each in there if each not in self._known]
        if come or self.selected not in there:  # what has just been placed is what the views show
            self.selected = (come or there or [None])[-1]
        self._known = set(there)
        state.points = [self._row(row) for row in reversed(rows)]  # the latest first
        state.selected = self.selected
        state.points_of = {scan: points.GetNumberOfDefinedControlPoints() for scan, points in self._lists.items()}
        state.mouse = self.mouse_mode
        state.can_undo, state.can_redo = self.logic.history.canUndo, self.logic.history.canRedo

    def _row(self, row) -> dict:
        r, a, s = worldOf(self.logic.points, row.pointId)
        sides = ("R" if r >= 0 else "L", "A" if a >= 0 else "P", "S" if s >= 0 else "I")
        place = "  ".join(f"{abs(mm):.0f} {side}" for mm, side in zip((r, a, s), sides, strict=True))
        answers = [self._answer(row, scan) for scan in self.logic.targets] if row.inside else []
        return {"id": row.pointId, "label": row.label, "place": place, "inside": row.inside, "answers": answers}

    def _answer(self, row, scan) -> dict:
        answer = row.answers.get(scan.GetID())
        about = {"scan": scan.GetID(), "name": scan.GetName(), "error": "", "by_hand": False}
        if answer is None:
            states = [self._session.store.state(node).status for node in (scan, self.logic.template)]
            words = "cannot be used" if FAILED in states else "…" if states == [READY, READY] else "preparing"
            return {**about, "status": "pending", "words": words, "tip": "The answer comes when both scans are ready."}
        known = answer.errorMm is not None and not answer.byHand and answer.status != ABSENT
        error = f"± {answer.errorMm:.0f} mm" if known else ""
        return {
            **about,
            "status": answer.status,
            "words": STATUS_WORDS[answer.status] + (" (before a move)" if answer.outdated else ""),
            "error": error,
            "by_hand": answer.byHand,
            "tip": answer.text,
        }

    def _on_changed(self) -> None:
        self._dirty = True
        for each in (self.logic.answersIn(scan) for scan in self.logic.targets):
            display = None if each is None else each.node.GetDisplayNode()
            if display is not None and display.GetTextScale() != 3.5:
                display.SetTextScale(3.5)
                display.SetGlyphScale(2.5)
