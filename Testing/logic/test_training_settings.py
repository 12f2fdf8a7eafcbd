"""Test the settings of a run: the trainer accepts the command made from them, and wrong settings are named."""

from dataclasses import replace

import pytest
from training_runs import settings

from AnatomicalEmbedding.cli.main import build_parser
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings, settingsProblem


def parsed(run: TrainingSettings):
    """The options as the trainer reads them."""
    return build_parser().parse_args(run.arguments())


def test_command_says_what_was_chosen(tmp_path):
    run = settings(
        tmp_path, recipe="ape", fineTune=False, minutes=7, steps=123, validateEvery=11, device="cpu", threads=2,
        validationFolder=str(tmp_path / "lab elled"), furtherOptions="--phantoms 3 --exclude 'a b*' --set a.b=2",
    )  # fmt: skip
    options = parsed(run)
    assert [str(folder) for folder in options.data] == list(run.scanFolders)
    assert str(options.output) == run.runFolder
    assert str(options.validate) == run.validationFolder
    assert (options.recipe, options.minutes, options.steps, options.validate_every) == (
        "ape",
        7.0,
        123,
        11,
    )
    assert (options.device, options.threads, options.phantoms) == ("cpu", 2, 3)
    assert options.exclude == ["a b*"]
    assert options.set == ["a.b=2"]
    assert options.start_from is None
    assert options.json


def test_defaults_fine_tune_the_shipped_weights_as_the_readme_tells(tmp_path):
    options = parsed(settings(tmp_path))
    assert (options.recipe, options.start_from, options.align_with) == ("hybrid", "auto", "auto")
    assert options.set == ["optimiser.frozen_statistics=true", "optimiser.learning_rate=0.001"]
    assert options.threads is None
    assert options.validate is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scanFolders": ()}, "Add a folder"),
        ({"scanFolders": ("/nowhere/scans",)}, "/nowhere/scans: no such folder"),
        ({"validationFolder": "/nowhere/labels"}, "/nowhere/labels: no such folder"),
        ({"furtherOptions": "--exclude 'a"}, "quotation mark"),
        ({"runFolder": ""}, "Choose a folder for the run"),
        ({"runFolder": "run"}, "give the full path"),
    ],
)
def test_each_fault_has_a_sentence(tmp_path, change, says):
    run = settings(tmp_path)
    assert settingsProblem(run) is None
    assert says in settingsProblem(replace(run, **change))


def test_folders_that_get_in_each_others_way(tmp_path):
    run = settings(tmp_path)
    scans = run.scanFolders[0]
    assert "choose a folder with other patients" in settingsProblem(
        replace(run, validationFolder=scans + "/../scans")
    )
    assert "lies in a folder of training scans" in settingsProblem(
        replace(run, runFolder=scans + "/run")
    )
