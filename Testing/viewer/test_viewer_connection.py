"""Who is let in, what the answers carry, coming back after a lost connection, and the end of the program."""

import http.client
import os
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

pytest.importorskip("trame_slicer", reason="runs in an environment with trame-slicer[standalone]; `make test` makes it")

from browsing import ROOT, TOKEN, Running

SOCKET = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip


def ask(url: str, path: str, method: str = "GET", **headers: str):
    """Status and headers of a plain request, without a browser."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    if answer.status != 101:
        answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders())


def cookie(url: str) -> str:
    return f"anatemb-view-{urlsplit(url).port}={TOKEN}"


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/ws", "/alive", "/export/scene.mrb", "/viewer/viewer.js", "/vue.global.js"]
)
def test_nothing_is_given_without_the_token(running, path):
    extra = SOCKET if path == "/ws" else {}
    assert ask(running.url, path, **extra)[0] == 403
    assert ask(running.url, path, Cookie=cookie(running.url)[:-1] + "x", **extra)[0] == 403


def test_the_token_becomes_a_cookie_and_leaves_the_address(running):
    status, headers = ask(running.url, f"/?token={TOKEN}")
    assert status == 302
    assert headers["Location"] == "/index.html"
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Lax" in headers["Set-Cookie"]
    status, headers = ask(running.url, "/index.html", Cookie=cookie(running.url))
    assert status == 200
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"


def test_other_pages_are_refused(running):
    let_in = cookie(running.url)
    assert ask(running.url, "/ws", Cookie=let_in, Origin="http://evil.example", **SOCKET)[0] == 403
    assert ask(running.url, "/alive", Cookie=let_in, Host="evil.example")[0] == 403
    assert ask(running.url, "/upload", "POST", Cookie=let_in)[0] == 403
    host = urlsplit(running.url).netloc
    assert ask(running.url, "/ws", Cookie=let_in, Origin=f"http://{host}", **SOCKET)[0] == 101


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://[", "https://127.0.0.1:1", "file://", ""])
def test_a_page_of_another_origin_reads_and_changes_nothing(running, origin):
    let_in = cookie(running.url)
    for path in ("/index.html", "/alive", "/export/scene.mrb", "/viewer/viewer.js"):
        assert ask(running.url, path, Cookie=let_in, Origin=origin)[0] == 403
    for path in ("/upload", "/follow-up"):
        assert ask(running.url, path, "POST", Cookie=let_in, Origin=origin)[0] == 403
    assert ask(running.url, "/ws", Cookie=let_in, Origin=origin, **SOCKET)[0] == 403


def test_no_answer_can_be_framed_kept_or_read_by_others(running):
    for path, let_in in (("/index.html", cookie(running.url)), ("/viewer/viewer.js", cookie(running.url)), ("/", "")):
        headers = ask(running.url, path, Cookie=let_in)[1]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in headers


def test_a_host_that_resolves_to_this_computer_is_refused(running):
    port = urlsplit(running.url).port
    for host in (f"evil.example:{port}", "evil.example", "127.0.0.1.evil.example", "[", f"0.0.0.0:{port}"):
        assert ask(running.url, "/ws", Cookie=cookie(running.url), Host=host, **SOCKET)[0] in (400, 403)


def test_a_token_that_is_no_text_is_refused(running):
    for token in (b"\xff\xfe".decode("latin-1"), "\u00e9", "", TOKEN + "x", TOKEN[:-1]):
        given = f"anatemb-view-{urlsplit(running.url).port}={token}"
        assert ask(running.url, "/alive", Cookie=given)[0] == 403


def test_the_token_is_in_no_log(running):
    ask(running.url, f"/?token={TOKEN}")
    ask(running.url, "/nowhere", Cookie=cookie(running.url))
    ask(running.url, f"/alive?token={TOKEN}x")
    lines = [line for line in running.log.splitlines() if TOKEN in line]
    assert len(lines) <= 1  # the address that is printed at the start
    assert not any("GET" in line for line in lines)


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/viewer/../../page.py", "/viewer/%2e%2e/page.py", "/export/../page.py"]
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
    assert len(page.points()) == 2


def test_the_demo_starts_cancels_and_ends_without_a_trace(browser, tmp_path):
    from browsing import Page

    with Running(tmp_path, "--demo") as program:
        page = Page(browser, program)
        page.wait("document.querySelectorAll('li[data-status=working]').length === 1")
        page.press("cancel")
        page.press("prepare")
        page.wait("document.querySelectorAll('li[data-status=working]').length === 1")
        page.close()
        assert program.stop() == 0
    assert program.errors() == [], program.log
    assert not list(program.temporary.glob("anatemb-view-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_without_a_trace_while_it_works(tmp_path, number):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which the viewer inherits")
    with Running(tmp_path, "--demo") as program:
        time.sleep(0.5)  # patients are made, torch is loaded
        program.process.send_signal(number)
        assert program.process.wait(30) == 0
    assert "terminate" not in program.log
    assert not list(program.temporary.iterdir())


def test_it_goes_on_after_nohup(tmp_path):
    command = [sys.executable, "-m", "AnatomicalEmbedding", "view", "--no-browser"]
    log = (tmp_path / "log.txt").open("w+b")
    with subprocess.Popen(["nohup", *command], cwd=ROOT, stdout=log, stderr=log) as process:
        try:
            end = time.monotonic() + 60
            while b"Press Ctrl-C" not in (tmp_path / "log.txt").read_bytes() and time.monotonic() < end:
                time.sleep(0.1)
            process.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(2)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
            log.close()


def test_an_address_of_no_computer_is_named(tmp_path):
    command = [sys.executable, "-m", "AnatomicalEmbedding", "view", "--demo", "--no-browser", "--token", TOKEN]
    for host in ("999.1.1.1", "192.0.2.1"):  # no address at all, and one for documents
        ended = subprocess.run(
            [*command, "--host", host],
            cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
        assert f"--host {host}" in ended.stderr
        assert "--port" not in ended.stderr
        assert not list(tmp_path.iterdir())


def test_a_scan_that_cannot_be_read_is_reported_in_the_terminal(tmp_path):
    (tmp_path / "text.nii.gz").write_text("no scan at all")
    with Running(tmp_path, str(tmp_path / "text.nii.gz")) as program:
        end = time.monotonic() + 20
        while "text.nii.gz" not in program.log and time.monotonic() < end:
            time.sleep(0.1)
        assert "text.nii.gz" in program.log, program.log


def test_a_page_that_closes_while_an_answer_is_on_its_way_is_no_error_in_the_log(tmp_path):
    """wslink and aiohttp log the exception as it comes, from within its handling and with it."""
    code = """
import asyncio, logging, os, signal
from AnatomicalEmbeddingViewer.app import Options, run
from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

def closed(error):
    try:
        raise error
    except Exception as caught:
        logging.getLogger("wslink.protocol").error("Exception raised %r", caught)
        logging.getLogger("aiohttp.server").error("Error handling request", exc_info=caught)

def say(line):
    closed(ConnectionResetError("Cannot write to closing transport"))
    closed(ValueError("this one is told"))
    os.kill(os.getpid(), signal.SIGINT)

run(Options(scans=(), browser=False, port=0, choice=Choice()), say)
"""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "SlicerModules")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.stderr.count("this one is told") >= 2, done.stderr
    assert "closing transport" not in done.stderr
