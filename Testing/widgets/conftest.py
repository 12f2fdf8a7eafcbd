"""Fixtures of the widget tests: module widgets on the test kit."""

import pytest


@pytest.fixture
def kit(tmp_path):
    """The kit as after a start of Slicer; the test fails on VTK errors and on exceptions in slots and observers."""
    from slicer_kit import started

    with started(tmp_path / "Slicer.ini") as kit:
        yield kit
        kit.verify()
        kit.close_all()
        kit.verify()
        from AnatomicalEmbeddingLib.shared.maps.Worker import waitForEnded

        # on a busy machine, a step of a pair may outlast the wait of a closing panel, and run on in the next test
        assert waitForEnded(60.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Look for swallowed exceptions while the test still runs, so that it counts as failed; where it fails anyway, show
    them with the failure."""
    kit = item.funcargs.get("kit")
    try:
        result = yield
    except BaseException:
        if kit is not None:
            item.add_report_section("call", "swallowed errors", kit.take_errors())
        raise
    if kit is not None:
        kit.verify()
    return result
