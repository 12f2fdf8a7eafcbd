"""Slice views: a row of three for each scan, or one for each of many; windows, the slice shown, and one view enlarged.

Views are made once and used again for the next scan: making and dropping them costs memory that is not given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import vtk
from trame_slicer.views import ViewLayoutDefinition, ViewProps, ViewType

from AnatomicalEmbeddingLib.scene.CtWindow import PRESETS
from AnatomicalEmbeddingLib.scene.Views import FIRST_VIEW_GROUP, ORIENTATIONS

from .directions import edge_letters
from .pictures import Painter, Picture, PictureFactory

if TYPE_CHECKING:
    from .session import Session

_MOST_ROWS = 4  # more scans than that are shown in a grid, one view each
_CLOSE_MM = 130.0  # what a view shows across its shorter side, close up
_SLICES_S = 0.25  # between two updates of the slices' positions, while pictures are drawn


@dataclass(eq=False)
class _Slot:
    """The views of one row. fits: how large the field of view was when the scan was last fitted into each."""

    number: int
    views: dict[str, object]
    scan: object = None
    fits: dict[str, tuple] = field(default_factory=dict)


class Views:
    """Publishes `rows`, `slices` (by view), `view_mode`, `in_grid`, `orientation`, `enlarged`, `window`, `close_up`."""

    def __init__(self, session: Session, server) -> None:
        self._session = session
        self._slots: list[_Slot] = []
        self.mode, self.orientation = "auto", "Axial"
        self.window = "Soft tissue"
        self._enlarged: str | None = None
        self._only: list | None = None  # scans that are shown, None: all
        self.close_up = False
        self._slices_sent = 0.0
        self.painter = Painter()
        self._pictures = PictureFactory(server, self.painter)
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
        if self._enlarged not in self._tags(everything=True):
            self._enlarged = None
        self._activate()

    def _make(self) -> _Slot:
        number, views = len(self._slots), {}
        for orientation, colour in ORIENTATIONS:
            properties = ViewProps(orientation=orientation, color=colour, group=FIRST_VIEW_GROUP + number)
            definition = ViewLayoutDefinition(f"scan{number}{orientation.lower()}", ViewType.SLICE_VIEW, properties)
            view = self._session.app.view_manager.create_view(definition)
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
            for scan in self._session.scans:
                self._apply_window(scan)

    def set_slice(self, tag: str, value: float) -> None:
        """mm along the view's axis, within the scan."""
        view = self._by_tag().get(tag)
        if view is not None and isinstance(value, int | float):
            low, high = view.get_slice_range()
            view.set_slice_value(min(max(float(value), low), high))

    def reset(self) -> None:
        """Fit every scan into its views again, in the middle."""
        self.close_up = False
        for slot in self._slots:
            if slot.scan is not None:
                for orientation in slot.views:
                    self._fit(slot, orientation)

    def _apply_window(self, scan) -> None:
        scan.GetDisplayNode().SetWindowLevel(*PRESETS[self.window])

    # -- for other features ------------------------------------------------------------------------------------------

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
        displays = [scan.GetDisplayNode() for scan in self._session.scans]
        chosen = PRESETS[self.window]
        state.window = self.window if all((d.GetWindow(), d.GetLevel()) == chosen for d in displays) else ""

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
                slices[tag] = {"min": round(low, 2), "max": round(high, 2), "step": step, "value": round(value, 2)}
        state.slices = slices

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
    matrix = slice_node.GetSliceToRAS()
    return edge_letters([[matrix.GetElement(row, column) for column in range(4)] for row in range(4)])
