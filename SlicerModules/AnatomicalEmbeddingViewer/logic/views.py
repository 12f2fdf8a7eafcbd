"""Slice views: a row of three for each scan, or one for each of many; windows, the slice shown, and one view enlarged.

Views are made once and used again for the next scan: making and dropping them costs memory that is not given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import vtk
from trame_slicer.views import ViewLayoutDefinition, ViewProps, ViewType

from AnatomicalEmbeddingLib.shared.CtWindow import PRESETS, CtWindows, setWindow
from AnatomicalEmbeddingLib.shared.Signal import Signal
from AnatomicalEmbeddingLib.shared.Views import FIRST_VIEW_GROUP, ORIENTATIONS, OwnViews
from AnatomicalEmbeddingLib.shared.VolumeNodes import huAt

from .directions import edge_letters, height_words
from .pictures import Painter, Picture, PictureFactory

if TYPE_CHECKING:
    from .session import Session

_MOST_ROWS = 4  # more scans than that are shown in a grid, one view each
_CLOSE_MM = 130.0  # what a view shows across its shorter side, close up
_SLICES_S = 0.25  # between two updates of the slices' positions, while pictures are drawn
_POINTER_S = 0.1  # between two updates of the HU under the mouse


@dataclass(eq=False)
class _Slot:
    """The views of one row. fits: how large the field of view was when the scan was last fitted into each."""

    number: int
    views: dict[str, object]
    scan: object = None
    fits: dict[str, tuple] = field(default_factory=dict)


class Views:
    """Publishes `rows`, `slices` (by view), `pointer` (the view under the mouse, and HU there), `view_mode`, `in_grid`,
    `orientation`, `enlarged`, `window`, `window_values`, `close_up`.

    scrolled(tag): the user has gone to another slice of a view.
    """

    def __init__(self, session: Session, server) -> None:
        self._session = session
        self._slots: list[_Slot] = []
        self.mode, self.orientation = "auto", "Axial"
        self.window = "Soft tissue"
        self._enlarged: str | None = None
        self._only: list | None = None  # scans that are shown, None: all
        self.close_up = False
        self._slices_sent = self._pointer_sent = 0.0
        self.painter = Painter()
        self.scrolled = Signal()
        self._own_views = OwnViews(session.scene)
        self._windows = CtWindows(lambda scans: [list(scans)])
        self._cursor = session.scene.GetFirstNodeByClass("vtkMRMLCrosshairNode")
        self._pictures = PictureFactory(server, self.painter, self.scrolled.emit)
        session.app.view_manager.register_factory(self._pictures)
        session.at_end(self.painter.close)
        session.scans_changed.connect(self.follow)

    # -- which views show what ---------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Give every scan a row, and free the rows of those that have gone."""
        scans = self._session.scans
        for slot in self._slots:
            if slot.scan is not None and slot.scan not in scans:
                self._show(slot, None)
        for scan in scans:
            if not any(slot.scan is scan for slot in self._slots):
                free = next((slot for slot in self._slots if slot.scan is None), None) or self._make()
                self._show(free, scan)
                self._apply_window(scan)
        self._own_views.follow()  # at once: nothing of a scan that has gone may be drawn over the next
        if self._enlarged not in self._tags(everything=True):
            self._enlarged = None
        self._activate()

    def poll(self) -> None:
        """Scans are shown with one window, whichever the mouse has changed; what belongs to one stays in its views."""
        self._windows.poll(self._session.scans)
        self._own_views.follow()

    def _make(self) -> _Slot:
        number, views = len(self._slots), {}
        for orientation, colour in ORIENTATIONS:
            properties = ViewProps(orientation=orientation, color=colour, group=FIRST_VIEW_GROUP + number)
            definition = ViewLayoutDefinition(f"scan{number}{orientation.lower()}", ViewType.SLICE_VIEW, properties)
            view = self._session.app.view_manager.create_view(definition)
            view.get_view_node().SetRulerType(view.get_view_node().RulerTypeThin)
            views[orientation] = view
        slot = _Slot(number, views)
        for orientation, view in views.items():
            view.render_window().AddObserver(
                vtk.vtkCommand.WindowResizeEvent, lambda *_, o=orientation: self._on_resized(slot, o), -1.0
            )
        self._slots.append(slot)
        return slot

    def _show(self, slot: _Slot, scan) -> None:
        slot.scan = scan
        for orientation, view in slot.views.items():
            view.set_background_volume_id(None if scan is None else scan.GetID())
            if scan is not None:
                view.set_orientation(orientation)
                self._fit(slot, orientation)
                if self.close_up:
                    self._look_closely(slot, orientation)

    def _fit(self, slot: _Slot, orientation: str) -> None:
        view = slot.views[orientation]
        view.fit_view_to_content()
        slot.fits[orientation] = view.render_window().GetSize(), view.get_view_node().GetFieldOfView()[:2]

    def _on_resized(self, slot: _Slot, orientation: str) -> None:
        """Fit the scan into a view of another size, unless the user has zoomed; the slice stays."""
        view = slot.views[orientation]
        size, known = view.render_window().GetSize(), slot.fits.get(orientation)
        if slot.scan is None or known is None or known[0] == size:
            return
        if self.close_up:
            self._look_closely(slot, orientation)
            return
        now, fitted = view.get_view_node().GetFieldOfView(), known[1]
        untouched = any(abs(n - f) < 0.01 * f for n, f in zip(now, fitted, strict=False))
        if untouched:
            offset = view.get_slice_value()
            self._fit(slot, orientation)
            view.set_slice_value(offset)

    def _look_closely(self, slot: _Slot, orientation: str) -> None:
        """Around where the view is."""
        view = slot.views[orientation]
        size, node = view.render_window().GetSize(), view.get_view_node()
        mm = _CLOSE_MM / max(min(size), 1)
        node.SetFieldOfView(size[0] * mm, size[1] * mm, node.GetFieldOfView()[2])
        slot.fits[orientation] = size, node.GetFieldOfView()[:2]

    def show_only(self, scans: list | None) -> None:
        """Rows for these alone, in this order; None: for all, in theirs."""
        if scans != self._only:
            self._only, self._enlarged = scans, None
            self._activate()

    # -- what the user does ------------------------------------------------------------------------------------------

    def set_close_up(self, on: bool) -> None:
        """Show less around the places that the views show, or all of the scans again; slices stay."""
        self.close_up = bool(on)
        for slot in self._slots:
            for orientation, view in slot.views.items() if slot.scan is not None else ():
                offset = view.get_slice_value()
                if self.close_up:
                    self._look_closely(slot, orientation)
                else:
                    self._fit(slot, orientation)
                view.set_slice_value(offset)

    def set_mode(self, mode: str) -> None:
        """ "auto", "rows" or "grid"."""
        if mode in ("auto", "rows", "grid"):
            self.mode, self._enlarged = mode, None
            self._activate()

    def set_orientation(self, orientation: str) -> None:
        """Of the grid's views."""
        if orientation in dict(ORIENTATIONS):
            self.orientation, self._enlarged = orientation, None
            self._activate()

    def enlarge(self, tag: str) -> None:
        """Show one view alone, or all again."""
        self._enlarged = None if self._enlarged else tag
        self._activate()

    def set_window(self, name: str) -> None:
        """One of PRESETS in all scans."""
        if name in PRESETS:
            self.window = name
            setWindow(self._session.scans, *PRESETS[name])

    def set_slice(self, tag: str, value: float) -> None:
        """mm along the view's axis, within the scan."""
        view = self._by_tag().get(tag)
        if view is not None and isinstance(value, int | float):
            low, high = view.get_slice_range()
            view.set_slice_value(min(max(float(value), low), high))
            self.scrolled.emit(tag)

    def reset(self) -> None:
        """Fit every scan into its views again, in the middle."""
        self.close_up = False
        for slot in self._slots:
            if slot.scan is not None:
                for orientation in slot.views:
                    self._fit(slot, orientation)

    def _apply_window(self, scan) -> None:
        """That of the others."""
        shown = next((each.GetDisplayNode() for each in self._session.scans if each is not scan), None)
        values = PRESETS[self.window] if shown is None else (shown.GetWindow(), shown.GetLevel())
        setWindow([scan], *values)

    # -- for other features ------------------------------------------------------------------------------------------

    def alike(self, tag: str) -> tuple:
        """The scan and the view of a tag, and of each other scan (scan, its view of the same orientation)."""
        for slot in self._slots:
            for orientation, view in slot.views.items():
                if view.get_singleton_tag() == tag and slot.scan is not None:
                    others = [(each.scan, each.views[orientation]) for each in self._slots if each is not slot]
                    return slot.scan, view, [(scan, other) for scan, other in others if scan is not None]
        return None, None, []

    def picture(self, slice_node) -> Picture:
        """What the page shows of a slice node of ours."""
        return self._pictures.picture(slice_node.GetSingletonTag())

    # -- for the page --------------------------------------------------------------------------------------------------

    @property
    def in_grid(self) -> bool:
        return self.mode == "grid" or (self.mode == "auto" and len(self._shown) > _MOST_ROWS)

    @property
    def _shown(self) -> list:
        """Scans that have rows."""
        scans = self._session.scans
        return scans if self._only is None else [scan for scan in self._only if scan in scans]

    def publish(self, state) -> None:
        views, rows = self._by_tag(), self._rows()
        for cell in (cell for row in rows for cell in row["cells"]):
            cell["edges"] = _edges(views[cell["tag"]].get_view_node())
        state.rows = rows
        state.close_up = self.close_up
        state.view_mode = self.mode
        state.in_grid = self.in_grid
        state.orientation = self.orientation
        state.enlarged = self._enlarged is not None
        display = self._session.scans[0].GetDisplayNode() if self._session.scans else None
        values = PRESETS[self.window] if display is None else (display.GetWindow(), display.GetLevel())
        state.window = next((name for name, preset in PRESETS.items() if preset == values), "")
        state.window_values = f"W {values[0]:.0f}  L {values[1]:.0f}"

    def publish_slices(self, state) -> None:
        """Where the slices are; they wait for pictures, for a while: each update renders the whole page anew."""
        now = monotonic()
        if self.painter.busy and now - self._slices_sent < _SLICES_S:
            return
        self._slices_sent = now
        shown, slices = self._tags(), {}
        for tag, view in self._by_tag().items():
            if tag in shown:
                low, high = view.get_slice_range()
                step, value = view.get_slice_step(), view.get_slice_value()
                about = {"min": round(low, 2), "max": round(high, 2), "step": step, "value": round(value, 2)}
                number, count = (round((end - low) / max(step, 1e-6)) + 1 for end in (value, high))
                slices[tag] = about | {"words": f"{number} / {count}  {_height(view.get_view_node())}"}
        state.slices = slices
        if now - self._pointer_sent >= _POINTER_S:
            self._pointer_sent = now
            state.pointer = self._pointer(shown)

    def _pointer(self, shown: list[str]) -> dict:
        """The view that the mouse was in last, and the HU there; {} where it is not over voxels."""
        xyz, ras = [0.0] * 3, [0.0] * 3
        node = self._cursor.GetCursorPositionXYZ(xyz)
        if node is None or node.GetSingletonTag() not in shown or not self._cursor.GetCursorPositionRAS(ras):
            return {}
        slot = next(slot for slot in self._slots for view in slot.views.values() if view.get_view_node() is node)
        value = None if slot.scan is None else huAt(slot.scan, ras)
        return {} if value is None else {"tag": node.GetSingletonTag(), "hu": f"{value:.0f} HU"}

    def _rows(self, everything: bool = False) -> list[dict]:
        by_scan = {slot.scan.GetID(): slot for slot in self._slots if slot.scan is not None}
        rows = []
        for scan in self._shown:
            slot = by_scan[scan.GetID()]
            cells = [{"tag": view.get_singleton_tag(), "name": o} for o, view in slot.views.items()]
            if not everything and self._enlarged:
                cells = [cell for cell in cells if cell["tag"] == self._enlarged]
            elif not everything and self.in_grid:
                cells = [cell for cell in cells if cell["name"] == self.orientation]
            if cells:
                rows.append({"scan": scan.GetID(), "slot": slot.number, "cells": cells})
        return rows

    def _tags(self, everything: bool = False) -> list[str]:
        return [cell["tag"] for row in self._rows(everything) for cell in row["cells"]]

    def _by_tag(self) -> dict:
        return {view.get_singleton_tag(): view for slot in self._slots for view in slot.views.values()}

    def _activate(self) -> None:
        """Only views that are shown are drawn."""
        self._session.app.view_manager.set_current_view_ids(self._tags() or ["none"])


def _edges(slice_node) -> dict[str, str]:
    return edge_letters(_rows_of(slice_node))


def _height(slice_node) -> str:
    return height_words(_rows_of(slice_node))


def _rows_of(slice_node) -> list[list[float]]:
    matrix = slice_node.GetSliceToRAS()
    return [[matrix.GetElement(row, column) for column in range(4)] for row in range(4)]
