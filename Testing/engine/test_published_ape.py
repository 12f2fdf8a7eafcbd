"""The adapter for the published APE checkpoint, on synthetic weights of the published names and shapes."""

import hashlib
import os
import pickle
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from AnatomicalEmbedding.embedding.models.published_ape import PublishedApe, download_published_ape, load_published_ape
from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, WeightsError

NOWHERE = "http://127.0.0.1:9/ape.pt"  # the discard port: refused at once, no network involved
WIDTHS = (96, 192, 384, 768)
PARAMETERS = 31_384_351


def published_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of ape.pt, written down from medimm 0.0.7 as mishgon/ape configures it."""
    shapes = {"fpn.stem.mask_token": (95,), "fpn.stem.conv.weight": (95, 1, 4, 4, 4)}

    def add(name: str, *weight: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = weight
        if bias:
            shapes[f"{name}.bias"] = weight[:1]

    def add_stage(name: str, width: int, depth: int) -> None:
        for block in (f"{name}.blocks.{n}" for n in range(depth)):
            add(f"{block}.conv_1", width, 1, 3, 3, 3)
            add(f"{block}.norm", width)
            add(f"{block}.conv_2", 4 * width, width, 1, 1, 1)
            add(f"{block}.conv_3", width, 4 * width, 1, 1, 1)
            shapes[f"{block}.layerscale.gamma"] = (width, 1, 1, 1)

    shapes["fpn.stem.conv.bias"] = (95,)
    add("fpn.stem.norm", 95)
    for level, (width, coarser, depth) in enumerate(zip(WIDTHS, WIDTHS[1:], (3, 3, 9), strict=False)):
        add_stage(f"fpn.left_stages.{level}", width, depth)
        add(f"fpn.middle_norms.{level}", width)
        add(f"fpn.down_blocks.{level}", coarser, width, 2, 2, 2)
        add(f"fpn.up_blocks.{level}.0", width, coarser, 1, 1, 1)
        add(f"fpn.skip_connections.{level}", width, width, 1, 1, 1)
        add_stage(f"fpn.right_stages.{level}", width, 1)
    add_stage("fpn.bottom_stage", 768, 3)
    for level, width in enumerate(WIDTHS):
        add(f"fpn.final_norms.{level}", width)
        add(f"head.convs.{level}", 3, width, 1, 1, 1, bias=level == 0)
    return shapes


def synthetic_state() -> dict[str, torch.Tensor]:
    """Weights of the published names and shapes that keep signals of a sensible size at every depth.

    From NumPy's legacy generator, whose stream is frozen: the golden numbers below hold on every machine.
    """
    random = np.random.RandomState(0)
    state = {}
    for name, shape in sorted(published_shapes().items()):
        values = random.uniform(-0.5, 0.5, shape)
        if "norm" in name and name.endswith("weight"):
            values += 1
        elif name.endswith("weight"):
            values *= 3 / np.sqrt(np.prod(shape[1:]))
        state[name] = torch.from_numpy(values).float()
    return state


def synthetic_input() -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(1).uniform(0, 1, (1, 1, 32, 64, 96))).float()


@pytest.fixture(scope="module")
def state():
    return synthetic_state()


@pytest.fixture(scope="module")
def checkpoint(state, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "ape.pt"
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def zeros():
    """The published names and shapes over a single number each, so that files stay small."""
    return {name: torch.zeros(1).expand(shape) for name, shape in published_shapes().items()}


@pytest.fixture(scope="module")
def small_checkpoint(zeros, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "ape.pt"
    torch.save(zeros, path)
    return path


@pytest.fixture(scope="module")
def model(checkpoint):
    return load_published_ape(checkpoint)


def test_names_shapes_and_parameter_count_are_the_published_ones():
    built = {name: tuple(tensor.shape) for name, tensor in PublishedApe().state_dict().items()}
    assert built == published_shapes()
    assert len(built) == 231
    assert sum(int(np.prod(shape)) for shape in built.values()) == PARAMETERS


def test_output_agrees_with_the_original_implementation(model):
    """Reference: medimm 0.0.7 with these weights, on this input given to it in its own axes (P, L, I)."""
    y = model(synthetic_input()).coordinate[0]
    original = {
        (0, 0, 0): (0.47743, 0.78460, 0.60016),
        (0, 15, 5): (0.39151, 0.61257, 0.60955),
        (7, 0, 23): (0.43109, 0.72718, 0.70026),
        (3, 8, 11): (0.45269, 0.71655, 0.80470),
    }
    for (k, j, i), expected in original.items():
        torch.testing.assert_close(y[:, k, j, i], torch.tensor(expected), atol=1e-4, rtol=0)


def test_maps_a_volume_to_its_stride_4_grid(model):
    y = model(torch.rand(1, 1, 64, 96, 96)).coordinate
    assert y.shape == (1, 3, 16, 24, 24)
    assert y.min() > 0
    assert y.max() < 1
    assert not any(p.requires_grad for p in model.parameters())


def test_voxel_axes_towards_superior_anterior_right_are_read_as_posterior_left_inferior():
    """A network that sees one voxel of each 4x4x4 patch must find it where our axes say it is."""
    model = PublishedApe().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        posterior, left, inferior = 0, 1, 2  # voxels into the patch, counted from its front right top
        model.fpn.stem.conv.weight[0, 0, posterior, left, inferior] = 1
        for norm in (model.fpn.stem.norm, model.fpn.middle_norms[0], model.fpn.final_norms[0]):
            norm.weight.fill_(1)
        model.fpn.skip_connections[0].weight[:, :, 0, 0, 0] = torch.eye(96)
        model.head.convs[0].weight[0, 0] = 1
        x = torch.zeros(1, 1, 32, 64, 96)
        dark = model(x).coordinate
        cell = (2, 7, 20)
        superior, anterior, right = 3 - inferior, 3 - posterior, 3 - left
        x[0, 0, 4 * cell[0] + superior, 4 * cell[1] + anterior, 4 * cell[2] + right] = 1
        change = (model(x).coordinate - dark).abs().sum(dim=1)[0]
    assert change[cell] > 0.01
    assert (change > 1e-6).sum() == 1


def test_loads_the_same_model_from_safetensors(model, state, tmp_path):
    save_file(state, tmp_path / "ape.safetensors")
    loaded = load_published_ape(tmp_path / "ape.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), model.parameters(), strict=True))
    assert not loaded.training


def test_half_precision_weights_are_widened(zeros, tmp_path):
    torch.save({name: tensor.half() for name, tensor in zeros.items()}, tmp_path / "half.pt")
    assert all(p.dtype == torch.float32 for p in load_published_ape(tmp_path / "half.pt").parameters())


def test_foreign_names_are_listed_with_the_remedy(zeros, tmp_path):
    path = tmp_path / "other.pt"
    renamed = {name.replace("head.", "decoder."): tensor for name, tensor in zeros.items()}
    torch.save(renamed, path)
    with pytest.raises(WeightsError, match=r"other\.pt .*lacks head\.convs\.0\.weight.*and 2 more") as error:
        load_published_ape(path)
    assert "has unknown decoder.convs.0." in str(error.value)
    assert "huggingface.co/mishgon/ape" in str(error.value)


def test_a_wrong_shape_is_named(zeros, tmp_path):
    """The configuration before the release: a stem of stride 4 x 4 x 2."""
    path = tmp_path / "early.pt"
    torch.save({**zeros, "fpn.stem.conv.weight": torch.zeros(95, 1, 4, 4, 2)}, path)
    with pytest.raises(WeightsError, match=r"early\.pt is not") as error:
        load_published_ape(path)
    assert "fpn.stem.conv.weight is (95, 1, 4, 4, 2) instead of (95, 1, 4, 4, 4)" in str(error.value)


def test_a_training_checkpoint_is_distinguished_from_plain_weights(tmp_path):
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": {"ape.head": torch.zeros(3)}, "epoch": 3}, path)
    with pytest.raises(WeightsError, match="not a plain table of tensors"):
        load_published_ape(path)


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value, 2))])
def test_a_file_that_would_run_code_is_refused_unread(tmp_path, write):
    path, trace = tmp_path / "ape.pt", tmp_path / "ran"
    write({"fpn.stem.mask_token": Malicious(trace)}, path)
    with pytest.raises(WeightsError, match=r"ape\.pt was not opened"):
        load_published_ape(path)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["ape.pt", "ape.safetensors"])
def test_damaged_and_missing_files_are_named(tmp_path, small_checkpoint, name):
    path = tmp_path / name
    with pytest.raises(WeightsError, match=rf"{name} does not exist; download"):
        load_published_ape(path)
    path.write_bytes(small_checkpoint.read_bytes()[:5000])
    with pytest.raises(WeightsError, match=name):
        load_published_ape(path)


def test_download_keeps_and_records_a_good_file(small_checkpoint, tmp_path):
    steps = []
    path = tmp_path / "new" / "ape.pt"
    assert download_published_ape(path, small_checkpoint.as_uri(), lambda *step: steps.append(step)) == path
    size = small_checkpoint.stat().st_size
    digest = hashlib.sha256(small_checkpoint.read_bytes()).hexdigest()
    assert steps[-1] == (size, size)
    comment, line = (tmp_path / "new" / "ape.pt.sha256").read_text().splitlines()
    assert line == f"{digest}  ape.pt"
    assert str(size) in comment
    assert {p.name for p in path.parent.iterdir()} == {"ape.pt", "ape.pt.sha256"}
    assert isinstance(load_published_ape(path), PublishedApe)

    assert download_published_ape(path, NOWHERE) == path  # already there: nothing is fetched

    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"changed")
    with pytest.raises(WeightsError, match=r"has changed since it was downloaded"):
        load_published_ape(path)


def test_download_that_disagrees_with_the_record_is_not_kept(small_checkpoint, tmp_path):
    record = tmp_path / "ape.pt.sha256"
    record.write_text("0" * 64 + "  ape.pt\n")
    with pytest.raises(WeightsError, match="another file than the one recorded"):
        download_published_ape(tmp_path / "ape.pt", small_checkpoint.as_uri())
    assert list(tmp_path.iterdir()) == [record]


def test_download_of_something_else_leaves_nothing(tmp_path):
    page = tmp_path / "login.html"
    page.write_text("<html>Please log in to this network</html>")
    with pytest.raises(WeightsError, match=r"login\.html was not opened"):
        download_published_ape(tmp_path / "ape.pt", page.as_uri())
    assert list(tmp_path.iterdir()) == [page]


def test_offline_download_says_so_and_leaves_nothing(tmp_path):
    with pytest.raises(WeightsError, match=r"127\.0\.0\.1.* could not be fetched .*check the network"):
        download_published_ape(tmp_path / "ape.pt", NOWHERE)
    assert list(tmp_path.iterdir()) == []


def test_missing_scikit_image_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.exposure", None)
    with pytest.raises(AnatomicalEmbeddingError, match="pip install scikit-image"):
        PublishedApe().prepare(torch.zeros(32, 32, 32))


def body_in_air(margin: int) -> torch.Tensor:
    """HU of a block of tissue with structure, 64 x 80 x 80 voxels, in air of `margin` voxels all round."""
    k, j, i = torch.meshgrid(torch.arange(64), torch.arange(80), torch.arange(80), indexing="ij")
    tissue = 100 + 100 * torch.sin(k / 9) * torch.cos(j / 7) + 2.0 * i
    return torch.nn.functional.pad(tissue, (margin,) * 6, value=-1000.0)


def test_prepared_input_is_equalised_within_0_and_1():
    pytest.importorskip("skimage")
    hu = body_in_air(20)
    x = PublishedApe().prepare(hu)
    assert x.shape == (1, *hu.shape)
    assert x.dtype == torch.float32
    body = x[0, 20:-20, 20:-20, 20:-20]
    assert body.min() >= 0
    assert body.max() <= 1
    windowed = ((hu[20:-20, 20:-20, 20:-20] + 1000) / 1300).clamp(0, 1)
    assert body.std() > 2 * windowed.std()


def test_air_around_the_body_does_not_change_the_input():
    pytest.importorskip("skimage")
    prepare = PublishedApe().prepare
    narrow, wide = prepare(body_in_air(20)), prepare(body_in_air(60))
    assert torch.equal(wide[:, 40:-40, 40:-40, 40:-40], narrow)
    assert torch.all(wide[:, :40] == wide[0, 0, 0, 0])
    assert torch.all(prepare(torch.full((32, 32, 32), -1000.0)) == wide[0, 0, 0, 0])


def test_air_outside_the_body_box_looks_like_equalised_air_inside_it():
    pytest.importorskip("skimage")
    hu = body_in_air(20)
    hu[30:74, 30:90, 30:90] = -1000.0  # a cavity wide enough to hold regions of nothing but air
    x = PublishedApe().prepare(hu)[0]
    torch.testing.assert_close(x[52, 60, 60], x[0, 0, 0], atol=0.02, rtol=0)


def test_everything_above_the_window_looks_alike():
    pytest.importorskip("skimage")
    hu = body_in_air(20)
    brighter = torch.where(hu > 300, hu + 1000, hu)
    assert (hu > 300).any()
    prepare = PublishedApe().prepare
    assert torch.equal(prepare(hu), prepare(brighter))


def test_inference_finds_all_it_needs_of_a_network():
    from AnatomicalEmbedding.embedding.inference import Backbone

    assert set(Backbone.__annotations__) <= set(dir(PublishedApe))
    assert PublishedApe.size_step == PublishedApe.lattice == 32
