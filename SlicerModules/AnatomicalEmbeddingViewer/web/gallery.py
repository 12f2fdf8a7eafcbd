"""Addresses of the gallery of a cohort: its page, searches, pictures, and a scan opened in the viewer."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

from aiohttp import web

from ..logic.gallery import Gallery
from .routes import refusing

GALLERY_PAGE = "/gallery.html"
_FILE = Path(__file__).resolve().parents[1] / "static" / "gallery.html"


def add_gallery(app: web.Application, gallery: Gallery) -> None:
    """Add /gallery.html and /gallery/...; a refusal is a sentence."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text=_FILE.read_text(encoding="utf-8"), content_type="text/html")

    async def scans(_request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(gallery.scans))

    async def find(request: web.Request) -> web.Response:
        if words := request.query.get("words", "").strip():
            return web.json_response(await asyncio.to_thread(gallery.find_words, words))
        return web.json_response(await asyncio.to_thread(gallery.find_point, *_place(request)))

    async def picture(request: web.Request) -> web.Response:
        made = await asyncio.to_thread(gallery.picture, *_place(request), request.query.get("plane", ""))
        return web.Response(body=made, content_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})

    async def open_scan(request: web.Request) -> web.Response:
        gallery.open(*_place(request))
        return web.Response(text="read in the background")

    app.router.add_get(GALLERY_PAGE, page)
    app.router.add_get("/gallery/scans", refusing(scans))
    app.router.add_get("/gallery/find", refusing(find))
    app.router.add_get("/gallery/picture", refusing(picture))
    app.router.add_post("/gallery/open", refusing(open_scan))


def _place(request: web.Request) -> tuple[int, list[float]]:
    """Return the scan's row and the point, RAS mm, that a request names."""
    try:
        point_ras = [float(part) for part in request.query.get("point", "").split(",")]
        row_id = int(request.query.get("id", ""))
    except ValueError:
        point_ras = []
    if len(point_ras) != 3 or not all(map(math.isfinite, point_ras)):
        raise web.HTTPBadRequest(text="Name a scan and a point in it.")
    return row_id, point_ras
