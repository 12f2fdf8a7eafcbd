"""Access control of the server: refuses requests without the token or from other pages, and adds security headers."""

import hmac
import secrets
from urllib.parse import urlsplit

from aiohttp import web

_PARAMETER = "token"
_OPEN = "open the whole address that `anatemb view` printed in the terminal."
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' {sockets}; font-src 'self' data:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)  # 'unsafe-eval', because Vue compiles the page's templates in the browser
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Checks every request, also requests of websockets.

    A request is refused if the token is missing, if the Host header names another host (DNS rebinding), or if another
    web page sent the request. The first request has the token in its address, later requests in a cookie.

    Args:
        host: address at which the server listens.
        token: the secret token; "" to make a random token.
        page: path of the page that opens first.
    """

    def __init__(self, host: str, token: str = "", page: str = "/index.html") -> None:
        self._host = host
        self._page = page
        self.token = token or secrets.token_urlsafe(24)

    def url(self, port: int) -> str:
        host = "127.0.0.1" if self._host in ("0.0.0.0", "::") else self._host
        if ":" in host:  # IPv6
            host = f"[{host}]"
        return f"http://{host}:{port}/?{_PARAMETER}={self.token}"

    @web.middleware
    async def middleware(self, request: web.Request, handler) -> web.StreamResponse:
        """Refuse a request, exchange the token in its address for a cookie, or answer it."""
        refusal = self.refusal(request)
        if refusal is not None:
            return _secured(request, web.Response(status=403, text=refusal))
        if _PARAMETER in request.query and request.method == "GET" and request.path == "/":
            answer = web.HTTPFound(self._page)  # remove the token from the address
            answer.set_cookie(
                _cookie_name(request), self.token, httponly=True, samesite="Lax", path="/"
            )
            raise _secured(request, answer)
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            _secured(request, error)
            raise
        return answer if answer.prepared else _secured(request, answer)

    def refusal(self, request: web.Request) -> str | None:
        """Return a sentence that says why a request is refused; None if the request is allowed."""
        host = request.headers.get("Host", "")
        if self._host in _LOCAL_HOSTS and _host_name(f"//{host}") not in _LOCAL_HOSTS:
            return f"The viewer can be opened only on the computer on which it runs; {_OPEN}"
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("//")[2] != host:
            return f"Another web page sent this request; {_OPEN}"
        if request.method not in ("GET", "HEAD") and origin is None:
            return f"This request does not come from the viewer's page; {_OPEN}"
        token = request.query.get(_PARAMETER, "") or request.cookies.get(_cookie_name(request), "")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return f"The token is missing or wrong; {_OPEN}"
        return None


def _secured(request: web.Request, answer):
    """Add the security headers to an answer. Returns the answer."""
    host = request.headers.get("Host", "")
    for name, value in _HEADERS.items():
        answer.headers.setdefault(name, value)
    answer.headers.setdefault(
        "Content-Security-Policy", _POLICY.format(sockets=f"ws://{host} wss://{host}")
    )
    if not request.path.startswith("/assets/"):
        answer.headers.setdefault("Cache-Control", "no-store")
    return answer


def _cookie_name(request: web.Request) -> str:
    """Return a cookie name that contains the port, so that two viewers on one computer have different cookies."""
    port = urlsplit(f"//{request.headers.get('Host', '')}").port
    return f"anatemb-view-{port or 80}"


def _host_name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
