"""The runner of scenarios: what it makes of a Slicer that does its work, is slow, crashes, or is not there."""

import json
import time
from pathlib import Path

import run as runner
from slicer_figures import as_markdown, startup_figures
from slicer_process import Place, forget_settings, slicer_command

PASS = """echo '{"outcome": "passed", "reason": "", "figures": {"'$FUNCTION'": "1 s"}}' > "$RESULT" """
FAIL = """echo '{"outcome": "failed", "reason": "AssertionError: it is grey", "figures": {}}' > "$RESULT" """


def result_of(slicer, path, tmp_path, limit=20.0, package=None):
    place = Place(slicer, tmp_path / "out", package, limit)
    return runner.run_scenario(runner.Scenario.read(path), place)


def test_without_a_slicer_all_is_skipped_with_a_sentence(capsys):
    assert runner.main([]) == 0
    assert runner.main([""]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == told[1]
    assert "SLICER=" in told[0]
    assert len(told) == 2


def test_a_slicer_that_is_not_there_is_named(capsys, tmp_path):
    assert runner.main([str(tmp_path / "Slicer")]) == 2
    assert str(tmp_path / "Slicer") in capsys.readouterr().err


def test_a_scenario_is_read_without_running_it(scenario):
    path = scenario(
        "FROM_PACKAGE = True\nraise SystemExit\ndef run(user): ...\ndef helper(): ...\ndef run_again(user): ..."
    )
    found = runner.Scenario.read(path)
    assert found == runner.Scenario(path, ("run", "run_again"), from_package=True)
    assert found.name == "made_up"


def test_every_function_gets_a_slicer_of_its_own_and_figures_are_collected(fake_slicer, scenario, tmp_path):
    slicer = fake_slicer(f'{PASS}; echo "$FUNCTION $$" >> {tmp_path}/processes')
    found = result_of(slicer, scenario("def run(u): ...\ndef run_after_restart(u): ..."), tmp_path)
    assert (found.name, found.outcome, found.reason) == ("made_up", runner.PASSED, "")
    assert found.figures == {"run": "1 s", "run_after_restart": "1 s"}
    lines = [line.split() for line in (tmp_path / "processes").read_text().splitlines()]
    assert [function for function, _process in lines] == ["run", "run_after_restart"]
    assert lines[0][1] != lines[1][1]


def test_a_scenario_that_fails_says_why_and_its_second_run_is_left_out(fake_slicer, scenario, tmp_path):
    found = result_of(fake_slicer(FAIL), scenario("def run(u): ...\ndef run_again(u): ..."), tmp_path)
    assert (found.outcome, found.reason) == (runner.FAILED, "AssertionError: it is grey")
    assert not (tmp_path / "out" / "made_up" / "run_again.log").exists()


def test_a_slicer_that_crashes_before_the_end_has_failed(fake_slicer, scenario, tmp_path):
    found = result_of(fake_slicer("echo oops; kill -SEGV $$"), scenario(), tmp_path)
    assert found.outcome == runner.FAILED
    assert "ended with code -11" in found.reason
    assert "oops" in (tmp_path / "out" / "made_up" / "run.log").read_text()


def test_a_slicer_that_crashes_after_the_scenario_has_failed_too(fake_slicer, scenario, tmp_path):
    found = result_of(fake_slicer(f"{PASS}; exit 3"), scenario(), tmp_path)
    assert found.outcome == runner.FAILED
    assert "ended with code 3 after the scenario had passed" in found.reason


def test_a_slicer_that_hangs_is_ended_with_what_it_started(fake_slicer, scenario, tmp_path):
    slicer = fake_slicer(f"sleep 60 & echo $! > {tmp_path}/child; wait")
    started = time.monotonic()
    found = result_of(slicer, scenario(), tmp_path, limit=1.0)
    assert found.outcome == runner.FAILED
    assert "ran past 1 s" in found.reason
    assert time.monotonic() - started < 30
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 10
    while _is_running(child):
        assert time.monotonic() < end, "what the Slicer had started goes on"
        time.sleep(0.05)


def _is_running(process):
    """A process that was killed and that nobody has asked for yet counts as gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_settings_and_folders_are_the_scenarios_own(fake_slicer, scenario, tmp_path):
    slicer = fake_slicer(f'{PASS}; env > "$(dirname "$RESULT")/environment"')
    result_of(slicer, scenario(), tmp_path)
    folder = tmp_path / "out" / "made_up"
    environment = dict(line.split("=", 1) for line in (folder / "environment").read_text().splitlines() if "=" in line)
    for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        assert environment[name].startswith(str(folder)), name
    words = (folder / "run.log").read_text().split()
    assert "--disable-settings" in words
    assert any(word.endswith("SlicerModules") for word in words)


def test_temporary_settings_of_an_earlier_scenario_are_forgotten_and_the_users_stay(tmp_path):
    folder = tmp_path / "Slicer-5.12" / "slicer.org"
    folder.mkdir(parents=True)
    for name in ("Slicer-34627-tmp.ini", "Slicer-34627.ini"):
        (folder / name).write_text("x")
    forget_settings(tmp_path / "Slicer-5.12" / "Slicer")
    assert [path.name for path in folder.iterdir()] == ["Slicer-34627.ini"]


def test_an_installed_extension_is_not_taken_from_the_checkout(fake_slicer, scenario, tmp_path):
    path = scenario("FROM_PACKAGE = True\ndef run(u): ...")
    slicer = fake_slicer(f'{PASS}; echo "package $ANATEMB_PACKAGE"')
    assert result_of(slicer, path, tmp_path).outcome == runner.SKIPPED
    package = tmp_path / "extension.zip"
    package.touch()
    assert result_of(slicer, path, tmp_path, package=package).outcome == runner.PASSED
    log = (tmp_path / "out" / "made_up" / "run.log").read_text()
    assert f"package {package}" in log
    assert "SlicerModules" not in log


def test_without_a_screen_slicer_is_shown_on_one_of_xvfb(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    words = slicer_command(tmp_path / "Slicer", True, "--python-script", "x.py")
    assert words[0] == "xvfb-run"
    assert words.index("--additional-module-paths") < words.index("--python-script")
    monkeypatch.setenv("DISPLAY", ":1")
    assert slicer_command(tmp_path / "Slicer", True)[0] == str(tmp_path / "Slicer")


def test_the_summary_counts_and_gives_reasons():
    results = [
        runner.Result("tutorial", runner.PASSED, "", 12.0, {}),
        runner.Result("align", runner.FAILED, "AssertionError: black\n", 3.0, {}),
        runner.Result("install", runner.SKIPPED, "there is no package.", 0.0, {}),
    ]
    text = runner.summary(results)
    assert text.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert "align failed: AssertionError: black" in text
    assert runner.summary(results[:1]).splitlines()[-1] == "1 passed, 0 failed"


def test_named_scenarios_run_and_an_unknown_one_is_refused(fake_slicer, tmp_path, capsys):
    words = [str(fake_slicer(PASS)), "tutorial", "late_answers", "-o", str(tmp_path / "out")]
    assert runner.main(words) == 0
    assert "2 passed, 0 failed" in capsys.readouterr().out
    assert runner.main([words[0], "no_such"]) == 2
    assert "no_such" in capsys.readouterr().err


def test_the_start_is_measured_with_and_without_the_modules(fake_slicer, tmp_path):
    slicer = fake_slicer("")
    slicer.write_text("#!/bin/sh\nexit 0\n")
    figures = startup_figures(Place(slicer, tmp_path / "out"))
    assert set(figures) == {"start of Slicer without the modules", "time that the modules add"}
    assert "| a | 1 s |" in as_markdown({"a": "1 s"}).splitlines()


def test_a_slicer_that_cannot_start_is_no_figure(fake_slicer, tmp_path):
    slicer = fake_slicer("")
    slicer.write_text("#!/bin/sh\nexit 5\n")
    assert startup_figures(Place(slicer, tmp_path / "out")) == {"start of Slicer": "not measured: it ended with code 5"}


def test_figures_of_the_bench_are_kept_as_json(fake_slicer, tmp_path, monkeypatch, capsys):
    slicer = fake_slicer(PASS)
    monkeypatch.setattr(runner, "startup_figures", lambda place: {"start": "2 s"})
    assert runner.main([str(slicer), "--bench", "-o", str(tmp_path / "out")]) == 0
    figures = json.loads((tmp_path / "out" / "figures.json").read_text())
    assert figures["start"] == "2 s"
    assert set(figures) > {"run_two_scans", "run_four_scans", "run_scenes"}
    assert "| start | 2 s |" in capsys.readouterr().out
