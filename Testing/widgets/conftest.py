"""Fixtures of the widget tests: module widgets on the test kit."""

import pytest
from scans import add_patient


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


@pytest.fixture
def open_module(kit, map_folder):
    """Open a module on scans of synthetic patients, whose maps are kept from test to test."""

    def opened(module: str, *names: str):
        from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

        ModuleSettings.setValue("cacheFolder", str(map_folder))
        ModuleSettings.setValue("device", "cpu")
        for number, name in enumerate(names):
            add_patient(number, name)
        return kit.open(kit.load_module(module))

    return opened


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
