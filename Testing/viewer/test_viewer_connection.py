"""Test the viewer's connection: access rights, headers of answers, a lost connection, and the end of the program."""

import http.client
import os
import signal
import subprocess
from urllib.parse import urlsplit

import pytest

pytest.importorskip(
    "trame_slicer",
    reason="runs in an environment with trame-slicer[standalone]; `make test` makes it",
)

from browsing import ROOT, TOKEN, VIEW, Page, Running

SOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
PATHS = [
    "/",
    "/index.html",
    "/ws",
    "/alive",
    "/export/scene.mrb",
    "/viewer/viewer.js",
    "/vue.global.js",
]


def ask(url: str, path: str, method: str = "GET", **headers: str):
    """Status and headers of a plain request, without a browser."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    headers = (SOCKET if path == "/ws" else {}) | headers
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    answer = connection.getresponse()
    if answer.status != 101:
        answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders())


def cookie(url: str, token: str = TOKEN) -> str:
    return f"anatemb-view-{urlsplit(url).port}={token}"


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_answered(running, path):
    assert ask(running.url, path)[0] == 403
    for token in (
        TOKEN[:-1],
        TOKEN[:-1] + "x",
        TOKEN + "x",
        "",
        "\u00e9",
        b"\xff\xfe".decode("latin-1"),
    ):
        assert ask(running.url, path, Cookie=cookie(running.url, token))[0] == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address_and_the_log(running):
    status, headers = ask(running.url, f"/?token={TOKEN}")
    assert (status, headers["Location"]) == (302, "/index.html")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Lax" in headers["Set-Cookie"]
    # the address that is printed at the start
    assert sum(TOKEN in line for line in running.log.splitlines()) <= 1


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", "https://127.0.0.1:1", "file://", ""]
)
def test_a_page_of_another_origin_reads_and_changes_nothing(running, origin):
    for path in PATHS:
        assert ask(running.url, path, Cookie=cookie(running.url), Origin=origin)[0] == 403
    assert ask(running.url, "/upload", "POST", Cookie=cookie(running.url), Origin=origin)[0] == 403


def test_the_own_page_is_let_in_and_a_post_without_origin_is_not(running):
    host = urlsplit(running.url).netloc
    assert ask(running.url, "/ws", Cookie=cookie(running.url), Origin=f"http://{host}")[0] == 101
    assert ask(running.url, "/upload", "POST", Cookie=cookie(running.url))[0] == 403


def test_a_host_name_that_resolves_to_this_computer_is_refused(running):
    port = urlsplit(running.url).port
    for host in (
        f"evil.example:{port}",
        "evil.example",
        "127.0.0.1.evil.example",
        "[",
        f"0.0.0.0:{port}",
    ):
        assert ask(running.url, "/ws", Cookie=cookie(running.url), Host=host)[0] in (400, 403)


def test_no_answer_can_be_framed_kept_or_read_by_other_pages(running):
    for path, let_in in (
        ("/index.html", cookie(running.url)),
        ("/viewer/viewer.js", cookie(running.url)),
        ("/", ""),
    ):
        headers = ask(running.url, path, Cookie=let_in)[1]
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/viewer/../../page.py", "/viewer/%2e%2e/page.py"]
)
def test_no_path_leads_to_other_files(running, path):
    assert ask(running.url, path, Cookie=cookie(running.url))[0] in (400, 403, 404)


def test_the_page_comes_back_after_a_dropped_socket(page):
    page.add_point("scan0axial", 0.5, 0.5)
    before = page.points()
    with page.page.expect_navigation():
        page.page.evaluate("() => { for (const socket of window.viewer.sockets) socket.close(); }")
    page.wait_ready(2)
    page.wait("document.querySelectorAll('[data-point]').length === 1")
    assert page.points() == before
    page.add_point("scan0axial", 0.4, 0.5)


def test_the_demo_reports_a_bad_scan_is_cancelled_and_ends_without_a_trace(browser, tmp_path):
    (tmp_path / "text.nii.gz").write_text("no scan at all")
    with Running(tmp_path, "--demo", str(tmp_path / "text.nii.gz")) as program:
        page = Page(browser, program)
        page.wait("document.querySelectorAll('li[data-status=working]').length === 1")
        page.wait_sentence("text.nii.gz")
        assert "text.nii.gz: " in program.log  # in the terminal too
        page.press("cancel")
        page.press("prepare")
        page.wait("document.querySelectorAll('li[data-status=working]').length === 1")
        page.close()
        program.process.send_signal(signal.SIGTERM)  # while it embeds
        assert program.process.wait(60) == 0
    assert program.errors() == [], program.log
    assert "terminate" not in program.log
    assert not list(program.temporary.iterdir())


def test_an_address_that_cannot_be_used_is_a_sentence(tmp_path):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "SlicerModules")])
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": paths}
    ended = subprocess.run(
        [*VIEW, "--host", "192.0.2.1"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "192.0.2.1" in ended.stderr
    assert "--host" in ended.stderr
    assert not list(tmp_path.iterdir())
