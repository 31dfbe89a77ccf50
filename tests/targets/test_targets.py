"""Device files: complete, consistent with themselves, found by every name, and refused with a cure."""

import re
from pathlib import Path

import pytest
import torch

from eqfuse.errors import UnknownTargetError
from eqfuse.extract import targets as package
from eqfuse.extract.targets import REPRESENTATIVES, Target, load_target, targets

FILES = sorted(Path(package.__file__).parent.glob("*.toml"))


def test_the_devices_that_must_exist():
    assert set(targets()) >= {"h200", "h100", "a100", "b200", "rtx6000ada", "mi300x"}


@pytest.mark.parametrize("name", targets())
def test_numbers_agree_with_each_other(name):
    t = load_target(name)
    assert t.name == name
    rates = [x.gb_s for x in t.levels[:-1]]
    assert rates == sorted(rates) and rates[0] > 0 == t.levels[-1].gb_s
    assert t.dram_gb_s < t.l2_gb_s
    assert t.shared_bytes_per_block <= t.shared_bytes_per_sm
    assert t.threads_per_sm % t.warp_size == 0
    if t.on_cpu:
        return
    # 64 or 128 lanes per SM and clock, one instruction each
    assert t.simt_gops / (t.sm_count * t.clock_ghz) == pytest.approx(64 if t.arch in ("sm_80", "gfx942") else 128, rel=0.1)
    assert t.special_gops / (t.sm_count * t.clock_ghz) == pytest.approx(16, rel=0.02)
    assert t.tensor_rate("float16") == t.tensor_rate("bfloat16") == pytest.approx(2 * t.tensor_rate("tf32"), rel=0.001)
    assert t.tensor_rate("float32") == pytest.approx(2e-3 * t.simt_gops)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_number_says_where_it_comes_from(path):
    for line in path.read_text().splitlines():
        if re.match(r"\w+ = [\d.]", line) and not re.match(r"warp_size|tensor_memory_columns = 0", line):
            assert re.search(r"# .{3,}", line), f"{path.name}: {line}"


@pytest.mark.parametrize(("arch", "name"), REPRESENTATIVES.items())
def test_architectures_stand_for_a_device(arch, name):
    assert load_target(arch) is load_target(name)
    assert load_target(arch).arch == arch


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UnknownTargetError, match=r'did you mean "h200"\?.*a100, b200, cpu, h100'):
        load_target("H20")
    with pytest.raises(UnknownTargetError, match="known targets"):
        load_target("zx81")
    with pytest.raises(UnknownTargetError, match='"auto" is the GPU at hand'):  # the names of torch's devices
        load_target("cuda")


def test_a_file_of_the_user(tmp_path):
    text = (Path(package.__file__).parent / "h200.toml").read_text().replace('name = "h200"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text(text)
    assert load_target(tmp_path / "mine.toml").name == load_target(str(tmp_path / "mine.toml")).name == "mine"
    assert load_target(load_target("a100")) is load_target("a100")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("sm_count = 132", "sm_count = 'many'"), "sm_count = 'many' is not a valid int"),
        (("sm_count = 132", "sm_counts = 132"), "missing sm_count and unknown sm_counts"),
        (("gb_s = 4270.0", "gb_s = -1.0"), "gb_s = -1.0 of a level is not a valid float"),
        (("line_bytes = 64", "lines = 64"), "a level with missing line_bytes and unknown lines"),
        (('scope = "node"', 'scope = "sm"'), "do not go from the outside to the inside: node, device, die, sm"),
        (('name = "l2"', 'name = "dram"'), "two levels of one name"),
        (('scope = "node"', 'scope = "rack"'), "scope = 'rack' of a level is none of node"),
        (('name = "registers"\nscope = "sm"', 'name = "registers"\nscope = "lane"'), "scope = 'lane' of a level is none of node"),
        (("sm_count = 132", "sm_count = "), "not a readable TOML file"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path, edit, said):
    text = (Path(package.__file__).parent / "h200.toml").read_text()
    assert edit[0] in text
    (tmp_path / "mine.toml").write_text(text.replace(*edit))
    with pytest.raises(UnknownTargetError, match=said) as caught:
        load_target(tmp_path / "mine.toml")
    assert "mine.toml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UnknownTargetError, match="no such file"):
        load_target(tmp_path / "nowhere.toml")


def test_auto_is_the_device_at_hand_or_what_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.delenv("EQFUSE_TARGET")
    found = load_target("auto")
    assert isinstance(found, Target)
    if not torch.cuda.is_available():
        assert found is load_target("cpu")
    for named in ("b200", "sm_100"):
        monkeypatch.setenv("EQFUSE_TARGET", named)
        assert load_target("auto") is load_target("b200")
    (tmp_path / "mine.toml").write_text((Path(package.__file__).parent / "a100.toml").read_text().replace('"a100"', '"mine"'))
    monkeypatch.setenv("EQFUSE_TARGET", str(tmp_path / "mine.toml"))
    assert load_target("auto").name == "mine"
    monkeypatch.setenv("EQFUSE_TARGET", "h20")
    with pytest.raises(UnknownTargetError, match=r'EQFUSE_TARGET=h20: no target is called "h20"\n.*did you mean "h200"'):
        load_target("auto")


@pytest.mark.parametrize(
    ("device", "gcn", "capability", "name"),
    [
        ("NVIDIA H200", "", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", "", (9, 0), "h100"),
        ("NVIDIA A100-SXM4-80GB", "", (8, 0), "a100"),
        ("NVIDIA GH200 480GB", "", (9, 0), "h200"),
        ("NVIDIA RTX 6000 Ada Generation", "", (8, 9), "rtx6000ada"),
        ("NVIDIA L40S", "", (8, 9), "rtx6000ada"),
        ("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", (9, 4), "mi300x"),
        ("AMD Instinct MI325X", "gfx942:sramecc+:xnack-", (9, 4), "mi300x"),
    ],
)
def test_devices_find_their_file(device, gcn, capability, name):
    assert package._for_device(device, gcn, capability).name == name


def test_a_device_without_a_file_is_refused():
    with pytest.raises(UnknownTargetError, match="sm_75"):
        package._for_device("NVIDIA T4", "", (7, 5))


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "expected"),
    [
        (128, 0, 4, 4),  # 65536 / (128 * 128)
        (122, 41 * 1024, 4, 4),  # 122 rounds up to 128
        (32, 0, 4, 16),  # threads: 2048 / 128
        (32, 100 * 1024, 4, 2),  # shared memory: 228 KiB / 101 KiB
        (255, 227 * 1024, 4, 1),
        (32, 227 * 1024 + 1, 4, 0),  # more than a CTA may have
        (255, 0, 16, 0),  # 16 warps of 255 registers do not fit
        (256, 0, 4, 0),
        (16, 0, 64, 0),  # more than 1024 threads
    ],
)
def test_occupancy_of_an_h200(registers, shared, warps, expected):
    assert load_target("h200").occupancy(registers=registers, shared_bytes=shared, num_warps=warps) == expected
