"""Addresses in addition to trame's: the page, its script and style, uploads and downloads."""

from __future__ import annotations

import shutil
from pathlib import Path

from aiohttp import web

from ..logic.boxes import Boxes
from ..logic.exports import Exports
from ..logic.scans import Scans
from ..logic.session import Session
from .downloads import add_downloads
from .uploads import UploadError, make_reader, receive

_STATIC = Path(__file__).resolve().parents[1] / "static"


def add_routes(app: web.Application, session: Session, scans: Scans, exports: Exports, boxes: Boxes) -> None:
    """Add all addresses; call it before the server listens, so that they go before trame's own files."""

    async def upload(request: web.Request) -> web.Response:
        try:
            folder, names = await receive(request, session.folder, session.limits)
        except UploadError as error:
            session.report(str(error))
            return web.Response(status=413, text=str(error))
        shown = names[0] if len(names) == 1 else f"{len(names)} files"
        scans.read(shown, make_reader(folder, names, session.limits), lambda: shutil.rmtree(folder, True))
        return web.Response(text="read in the background")

    app.router.add_get("/", _answer_page)
    app.router.add_get("/index.html", _answer_page)
    app.router.add_get("/alive", _answer_alive)
    app.router.add_static("/viewer", _STATIC)
    app.router.add_post("/upload", upload)
    add_downloads(app, session, exports, boxes)


async def _answer_page(_request: web.Request) -> web.Response:
    """Answer the page, with the names of trame's script and style in this version."""
    from trame_client.module import vue3

    built = Path(vue3.www) / "assets"
    script, style = next(built.glob("index-*.js")).name, next(built.glob("index-*.css")).name
    page = (_STATIC / "index.html").read_text(encoding="utf-8")
    return web.Response(text=page.replace("{script}", script).replace("{style}", style), content_type="text/html")


async def _answer_alive(_request: web.Request) -> web.Response:
    return web.Response(text="yes")
