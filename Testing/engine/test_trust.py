"""Test that the engine uses no internet connection and never runs code that is stored in pickle files."""

import ast
import pickle
from pathlib import Path

import pytest
import torch

import AnatomicalEmbedding
from AnatomicalEmbedding.embedding.inference import load_model
from AnatomicalEmbedding.errors import WeightsError

SOURCES = sorted(
    path
    for folder in (
        Path(AnatomicalEmbedding.__file__).parent,
        Path(__file__).parents[2] / "SlicerModules",
    )
    for path in folder.rglob("*.py")
)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_nothing_is_unpickled_and_nothing_fetched(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            assert call not in (
                "pickle.load",
                "pickle.loads",
                "joblib.load",
                "yaml.load",
                "eval",
                "os.system",
            ), call
            # durations and deadlines do not follow the clock of the day, which may be set at any time; files' ages do
            assert not call.startswith("time.time") or path.name == "cache.py"
            assert call != "torch.load" or options["weights_only"] == "True"
            assert call != "np.load" or options["allow_pickle"] == "False"
            assert not call.startswith(("urllib.request", "requests."))


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_weights_that_hold_code_are_refused_and_do_not_run_it(tmp_path):
    (tmp_path / "pickled.safetensors").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    torch.save({"weights": Evil(tmp_path / "ran")}, tmp_path / "zip.safetensors")
    for name in ("pickled.safetensors", "zip.safetensors"):
        with pytest.raises(WeightsError):
            load_model(str(tmp_path / name), "cpu")
    assert not (tmp_path / "ran").exists()
