"""Test the follow-up panel: response, missing packages, and closing the panel."""

import threading


def responses(reader):
    table = reader.panel.ui.responseTable
    return [[table.item(row, n).text() for n in range(1, table.columnCount)] for row in range(4)]


def read_all(reader, sizes):
    """Confirm everything, with these long axes by lesion and study; None: not visible."""
    for lesion, lengths in sizes.items():
        for number, length in enumerate(lengths):
            reader.go(lesion, number)
            if length is None:
                reader.press("N")
            else:
                reader.measure(number, length)


def test_sums_and_response_come_from_what_was_confirmed(prepared):
    read_all(prepared, {"L1": (30.0, 15.0, 24.0), "L2": (20.0, 15.0, None)})
    assert responses(prepared) == [
        ["50.0 mm", "30.0 mm", "24.0 mm"],
        ["–", "-40 %", "-52 %"],
        ["–", "-40 %", "-20 %"],
        ["baseline", "PR", "PR"],
    ]
    assert prepared.panel.ui.missingLabel.isHidden()


def test_a_missing_package_is_installed_on_agreement_or_reported(prepared, tmp_path, monkeypatch):
    from AnatomicalEmbeddingLib.followup import FilesPanel
    from AnatomicalEmbeddingLib.shared.panels.PackageSetup import InstallError

    missing = {"html": ["jinja2"]}
    asked = []

    def refuse(names):
        asked.append(names)
        raise InstallError("You declined.")

    monkeypatch.setattr(FilesPanel, "missingForReport", lambda kind: missing.get(kind, []))
    monkeypatch.setattr(FilesPanel, "install", refuse)
    prepared.kit.dialogs.answer("directory", str(tmp_path))
    prepared.export()
    assert asked == [["jinja2"]]
    assert (
        "HTML report was not written: it needs jinja2. You declined."
        in prepared.ui.exportedLabel.text
    )
    assert [path.name for path in tmp_path.glob("follow-up*")] == ["follow-up-Miller.csv"]
    monkeypatch.setattr(FilesPanel, "install", lambda names: missing.clear())
    prepared.export()
    assert (tmp_path / "follow-up-Miller.html").is_file()


def test_the_panel_closed_while_working_gives_everything_back(kit, reader):
    reader.mark("carina")
    store = reader.panel.session.store
    assert store.busy
    kit.close(reader.panel)
    assert not store.busy
    assert not reader.panel.session._panels
    assert not [thread for thread in threading.enumerate() if thread.name == "AnatomicalEmbedding"]
