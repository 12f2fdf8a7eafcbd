"""Addresses of our own beside trame's: the page, its script and style, uploads and downloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from ..page import Viewer

_STATIC = Path(__file__).resolve().parents[1] / "static"


def add_routes(app: web.Application, viewer: Viewer) -> None:
    """To be called before the server listens: what is added here goes before trame's own files."""
    app.router.add_get("/", _page)
    app.router.add_get("/index.html", _page)
    app.router.add_get("/alive", _alive)
    app.router.add_static("/viewer", _STATIC)


async def _page(_request: web.Request) -> web.Response:
    """The one page; trame's script and style by their names of this version."""
    return web.Response(text=_read_page(), content_type="text/html")


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="yes")


def _read_page() -> str:
    from trame_client.module import vue3

    built = Path(vue3.www) / "assets"
    script, style = next(built.glob("index-*.js")).name, next(built.glob("index-*.css")).name
    page = (_STATIC / "index.html").read_text(encoding="utf-8")
    return page.replace("{script}", script).replace("{style}", style)
