"""Addresses of our own in addition to trame's: the page, its script and style, uploads and downloads."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from ..logic.follow_up_files import read
from ..logic.session import Limits
from .downloads import add_downloads
from .uploads import UploadError, make_reader, receive

if TYPE_CHECKING:
    from ..page import Viewer

_RECORD_LIMITS = Limits(upload_bytes=4 * 2**20, files=1)
_STATIC = Path(__file__).resolve().parents[1] / "static"


def add_routes(app: web.Application, viewer: Viewer) -> None:
    """To be called before the server listens: what is added here goes before trame's own files."""
    app.router.add_get("/", _page)
    app.router.add_get("/index.html", _page)
    app.router.add_get("/alive", _alive)
    app.router.add_static("/viewer", _STATIC)
    app.router.add_post("/upload", _upload(viewer))
    app.router.add_post("/follow-up", _upload_record(viewer))
    add_downloads(app, viewer)


async def _page(_request: web.Request) -> web.Response:
    """The one page; trame's script and style by their names of this version."""
    return web.Response(text=_read_page(), content_type="text/html")


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="yes")


def _upload(viewer: Viewer):
    async def upload(request: web.Request) -> web.Response:
        session = viewer.session
        try:
            folder, names = await receive(request, session.folder, session.limits)
        except UploadError as error:
            session.say(str(error))
            return web.Response(status=413, text=str(error))
        shown = names[0] if len(names) == 1 else f"{len(names)} files"
        viewer.scans.read(shown, make_reader(folder, names, session.limits), lambda: shutil.rmtree(folder, True))
        return web.Response(text="read in the background")

    return upload


def _upload_record(viewer: Viewer):
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    async def upload(request: web.Request) -> web.Response:
        session = viewer.session
        try:
            folder, names = await receive(request, session.folder, _RECORD_LIMITS)
        except UploadError:
            sentence = f"Send one .followup.json file of {_RECORD_LIMITS.upload_bytes >> 20} MB at most."
            session.say(sentence)
            return web.Response(status=413, text=sentence)
        try:
            record = await asyncio.to_thread(read, next(folder.iterdir()), names[0])
            for sentence in viewer.follow_up.take_in(record, names[0]):
                session.say(sentence)
        except AnatomicalEmbeddingError as error:
            session.say(str(error))
            return web.Response(status=422, text=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return web.Response(text="taken in")

    return upload


def _read_page() -> str:
    from trame_client.module import vue3

    built = Path(vue3.www) / "assets"
    script, style = next(built.glob("index-*.js")).name, next(built.glob("index-*.css")).name
    page = (_STATIC / "index.html").read_text(encoding="utf-8")
    return page.replace("{script}", script).replace("{style}", style)
