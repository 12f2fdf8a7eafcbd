"""Slice views of the scans: a row of three views for each scan, or a grid with one view for each scan.

Views are never deleted, because VTK does not release all their memory. A new scan gets the views of a removed scan.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import slicer.util
import vtk
from trame_slicer.views import ViewLayoutDefinition, ViewProps, ViewType

from AnatomicalEmbeddingLib.shared.CtWindow import PRESETS, CtWindows, setWindow
from AnatomicalEmbeddingLib.shared.LevelTexts import levelText
from AnatomicalEmbeddingLib.shared.Signal import Signal
from AnatomicalEmbeddingLib.shared.Views import (
    FIRST_VIEW_GROUP,
    ORIENTATIONS,
    OwnViews,
    setRuler,
    volumeIn,
)
from AnatomicalEmbeddingLib.shared.VolumeNodes import huAt, isFilm

from .pictures import Painter, PictureFactory

if TYPE_CHECKING:
    from .session import Session

_ROW_LIMIT = 4  # with more scans, the grid is used by default
_FILM_PLANE, _FILM = "Coronal", "Film"  # the only view of a film, and its name on the page
_POSITIVE, _NEGATIVE = "RAS", "LPI"  # letters of the positive and negative direction of each axis


@dataclass(eq=False)
class _Row:
    """The views of one scan. views: orientation -> view. fits: orientation -> the size (pixels) and the field of view
    (mm) that the view had when the slice was last fitted to it."""

    number: int
    views: dict[str, object]
    scan: object = None
    fits: dict[str, tuple] = field(default_factory=dict)


class Views:
    """The slice views. A tag is the name of a view, such as "scan0axial".

    Sets values of the page: `rows` (scans and their shown views), `slices` (tag -> position of the slice and level of
    the spine), `pointer` (tag and HU under the mouse), `in_grid` (True in the grid layout), `orientation` (of the
    grid), `enlarged` (True if one view is shown alone), `window` (name of the CT window) and `window_values` (text with
    window and level in HU).

    Signal scrolled(tag): emitted after the user has moved a view to another slice.
    """

    def __init__(self, session: Session, server) -> None:
        self._session = session
        self._rows: list[_Row] = []
        self._mode = "auto"
        self._orientation = "Axial"
        self._window = "Soft tissue"
        self._enlarged: str | None = None
        self.painter = Painter()
        self.scrolled = Signal()
        self._own_views = OwnViews(session.scene)
        self._windows = CtWindows(session.store)
        self._cursor = session.scene.GetFirstNodeByClass("vtkMRMLCrosshairNode")
        session.app.view_manager.register_factory(
            PictureFactory(server, self.painter, self.scrolled.emit)
        )
        session.on_close(self.painter.close)
        session.scans_changed.connect(self._follow_scans)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _follow_scans(self) -> None:
        """Show each new scan in a free row of views, and empty the rows of removed scans."""
        scans = self._session.scans
        for row in self._rows:
            if row.scan is not None and row.scan not in scans:
                self._show(row, None)
        for scan in scans:
            if any(row.scan is scan for row in self._rows):
                continue
            free = next((row for row in self._rows if row.scan is None), None)
            self._show(free or self._add_row(), scan)
            if not isFilm(scan):
                # a new CT gets the window of another CT
                ct = next((ct for ct in _cts(scans) if ct is not scan), None)
                setWindow([scan], *self._window_of(ct))
        self._own_views.follow()  # at once, so that marks of a removed scan never appear on the next scan
        if self._enlarged not in self._by_tag():
            self._enlarged = None
        self._activate()

    def _add_row(self) -> _Row:
        number = len(self._rows)
        views = {}
        for orientation, colour in ORIENTATIONS:
            properties = ViewProps(
                orientation=orientation, color=colour, group=FIRST_VIEW_GROUP + number
            )
            definition = ViewLayoutDefinition(
                f"scan{number}{orientation.lower()}", ViewType.SLICE_VIEW, properties
            )
            view = self._session.app.view_manager.create_view(definition)
            views[orientation] = view
        row = _Row(number, views)
        for orientation, view in views.items():
            view.render_window().AddObserver(
                vtk.vtkCommand.WindowResizeEvent,
                lambda *_, o=orientation: self._on_resized(row, o),
                -1.0,
            )
        self._rows.append(row)
        return row

    def _show(self, row: _Row, scan) -> None:
        row.scan = scan
        for orientation, view in row.views.items():
            view.set_background_volume_id(None if scan is None else scan.GetID())
            if scan is not None:
                view.set_orientation(orientation)
                setRuler(view.get_view_node(), scan)
                self._fit(row, orientation)

    def _fit(self, row: _Row, orientation: str) -> None:
        view = row.views[orientation]
        view.fit_view_to_content()
        row.fits[orientation] = (
            view.render_window().GetSize(),
            view.get_view_node().GetFieldOfView()[:2],
        )

    def _on_resized(self, row: _Row, orientation: str) -> None:
        """Fit the scan into a view whose size has changed, but not if the user has zoomed in this view."""
        view = row.views[orientation]
        size = view.render_window().GetSize()
        fit = row.fits.get(orientation)
        if row.scan is None or fit is None or fit[0] == size:
            return
        now = view.get_view_node().GetFieldOfView()
        fitted = fit[1]
        if any(abs(n - f) < 0.01 * f for n, f in zip(now, fitted, strict=False)):
            offset = view.get_slice_value()
            self._fit(row, orientation)
            view.set_slice_value(offset)

    # -- actions of the page -----------------------------------------------------------------------------------------

    def set_mode(self, mode: str) -> None:
        """Set the layout: "rows" of three views for each scan, or a "grid" with one view for each scan."""
        if mode in ("rows", "grid"):
            self._mode = mode
            self._enlarged = None
            self._activate()

    def set_orientation(self, orientation: str) -> None:
        """Set the orientation of the views in the grid."""
        if orientation in dict(ORIENTATIONS):
            self._orientation = orientation
            self._enlarged = None
            self._activate()

    def enlarge(self, tag: str) -> None:
        """Show only the view with this tag. If one view is already shown alone, show all views again."""
        self._enlarged = None if self._enlarged or tag not in self._by_tag() else tag
        self._activate()

    def set_window(self, name: str) -> None:
        """Show all scans with the CT window (window and level) of this name in PRESETS."""
        if name in PRESETS:
            self._window = name
            setWindow(_cts(self._session.scans), *PRESETS[name])

    def set_slice(self, tag: str, value_mm: float) -> None:
        """Move a view to another slice. value_mm: position along the view's axis, mm."""
        view = self._by_tag().get(tag)
        if view is not None and isinstance(value_mm, int | float):
            low, high = view.get_slice_range()
            view.set_slice_value(min(max(float(value_mm), low), high))
            self.scrolled.emit(tag)

    def fit(self) -> None:
        """Fit every scan into its views, and show the middle slices of the scan."""
        for row in self._rows:
            if row.scan is not None:
                for orientation in row.views:
                    self._fit(row, orientation)

    # -- for other features ------------------------------------------------------------------------------------------

    def same_orientation(self, tag: str) -> tuple:
        """Return (scan, view, others) for the view with this tag; (None, None, []) if no view has this tag.

        others: for each other scan, a pair (scan, its view of the same orientation)."""
        rows = [row for row in self._rows if row.scan is not None]
        for row in rows:
            for orientation, view in row.views.items():
                if view.get_singleton_tag() == tag:
                    others = [(r.scan, r.views[orientation]) for r in rows if r is not row]
                    return row.scan, view, others
        return None, None, []

    # -- for the page ------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Copy a changed CT window to all scans, and show each scan's marks only in the scan's own views."""
        self._windows.poll(self._session.scans)
        self._own_views.follow()

    @property
    def _in_grid(self) -> bool:
        scans = self._session.scans
        suits = len(scans) > _ROW_LIMIT or (bool(scans) and not _cts(scans))
        return self._mode == "grid" or (self._mode == "auto" and suits)

    def publish(self, state) -> None:
        views = self._by_tag()
        rows = self._shown_rows()
        # the axes of such scans are those of no patient, and their values are no HU
        own_kind = any(map(self._session.store.isOwnKind, self._session.scans))
        slices = {}
        for row in rows:
            for cell in row["cells"]:
                view = views[cell["tag"]]
                cell["edges"] = {} if own_kind else _edge_letters(view)
                slices[cell["tag"]] = _slice_of(view, own_kind) | {"level": self._level_of(view)}
        state.own_kind = own_kind
        state.windows = [] if own_kind else list(PRESETS)
        state.rows = rows
        state.in_grid = self._in_grid
        state.orientation = self._orientation
        state.enlarged = self._enlarged is not None
        window = self._window_of(next(iter(_cts(self._session.scans)), None))
        state.window = next((name for name, preset in PRESETS.items() if preset == window), "")
        state.window_values = f"W {window[0]:.0f}  L {window[1]:.0f}"
        state.slices = slices
        state.pointer = self._pointer(slices)

    def _level_of(self, view) -> str:
        node = view.get_view_node()
        return levelText(volumeIn(self._session.scene, node), node, self._session.store)

    def _pointer(self, tags: Container[str]) -> dict:
        """Return the tag of the view under the mouse and the HU at the mouse; {} if no voxel is under the mouse."""
        ras = [0.0] * 3
        node = self._cursor.GetCursorPositionXYZ([0.0] * 3)
        if node is None or node.GetSingletonTag() not in tags:
            return {}
        if not self._cursor.GetCursorPositionRAS(ras):
            return {}
        volume = volumeIn(self._session.scene, node)
        value = huAt(volume, ras)
        if value is None:
            return {}
        unit = "" if isFilm(volume) or self._session.store.isOwnKind(volume) else " HU"
        return {"tag": node.GetSingletonTag(), "hu": f"{value:.0f}{unit}"}

    def _window_of(self, scan) -> tuple[float, float]:
        display = None if scan is None else scan.GetDisplayNode()
        if display is None:
            return PRESETS[self._window]
        return display.GetWindow(), display.GetLevel()

    def _shown_rows(self) -> list[dict]:
        """Return, for each scan on the page, its ID, its row number, and the tag and name of each shown view."""
        by_scan = {row.scan.GetID(): row for row in self._rows if row.scan is not None}
        rows = []
        for row in [by_scan[scan.GetID()] for scan in self._session.scans]:
            film = isFilm(row.scan)
            cells = [
                {"tag": view.get_singleton_tag(), "name": name} for name, view in row.views.items()
            ]
            if film:
                cells = [cell | {"name": _FILM} for cell in cells if cell["name"] == _FILM_PLANE]
            if self._enlarged:
                cells = [cell for cell in cells if cell["tag"] == self._enlarged]
            elif self._in_grid:
                cells = [cell for cell in cells if film or cell["name"] == self._orientation]
            if cells:
                rows.append(
                    {"scan": row.scan.GetID(), "number": row.number, "film": film, "cells": cells}
                )
        return rows

    def _by_tag(self) -> dict:
        views = [view for row in self._rows if row.scan is not None for view in row.views.values()]
        return {view.get_singleton_tag(): view for view in views}

    def _activate(self) -> None:
        """Let VTK draw only the views that the page shows."""
        tags = [cell["tag"] for row in self._shown_rows() for cell in row["cells"]]
        self._session.app.view_manager.set_current_view_ids(tags or ["none"])


def _cts(scans: list) -> list:
    return [scan for scan in scans if not isFilm(scan)]


def slice_to_ras(slice_node) -> np.ndarray:
    """Return the matrix (4, 4) from slice coordinates (to the right, up, perpendicular to the slice; mm) to RAS mm."""
    return slicer.util.arrayFromVTKMatrix(slice_node.GetSliceToRAS())


def _slice_of(view, own_kind: bool) -> dict:
    """Return the range of a view's slices and the current slice, mm along its normal, for the page's slider.

    The text of the slice states its position along the patient's axis, unless the scan is of a kind without such axes.
    """
    low, high = view.get_slice_range()
    step = view.get_slice_step()
    value = view.get_slice_value()
    number, count = (round((end - low) / max(step, 1e-6)) + 1 for end in (value, high))
    text = f"{number} / {count}"
    if not own_kind:
        matrix = slice_to_ras(view.get_view_node())
        axis = np.abs(matrix[:3, 2]).argmax()
        letters = _POSITIVE if matrix[axis, 3] >= 0 else _NEGATIVE
        text += f"  {abs(matrix[axis, 3]):.1f} mm {letters[axis]}"
    return {
        "min": round(low, 2),
        "max": round(high, 2),
        "step": step,
        "value": round(value, 2),
        "text": text,
    }


def _edge_letters(view) -> dict[str, str]:
    """Return the letter R, L, A, P, S or I of the direction at each edge of a view: "left", "right", "top", "bottom" ->
    letter. For an oblique slice, the letter of the nearest direction is returned."""
    edges = {}
    matrix = slice_to_ras(view.get_view_node())
    for column, (start, end) in enumerate((("left", "right"), ("bottom", "top"))):
        axis = np.abs(matrix[:3, column]).argmax()
        if matrix[axis, column] > 0:
            edges |= {start: _NEGATIVE[axis], end: _POSITIVE[axis]}
        else:
            edges |= {start: _POSITIVE[axis], end: _NEGATIVE[axis]}
    return edges
