"""Configuration files of switches and hosts: their text, their selection, and invalid input.

The golden files are written by `ConfigFiles(fabric, FORMATS, hosts=True, nodes=NODES[name]).write(GOLDEN / name)`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from openmrc.errors import ConfigError, OpenmrcError
from openmrc.fabric import Fabric, load_fabric, make_fabric
from openmrc.fabric.interfaces import InterfaceNames
from openmrc.srv6.configs import files
from openmrc.srv6.configs.files import FORMATS, ConfigFiles
from openmrc.srv6.configs.names import PortNames

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "srv6"
NODES = {"small": ("p0-t0-1", "p1-t1-0", "host1"), "three_tiers": ("p1-t0-1", "p0-t1-3", "p1-t2-2", "host2")}


def small() -> Fabric:
    return load_fabric(ROOT / "fabrics" / "small.yaml")


def three_tiers() -> Fabric:
    """Pods of two T0s, three pods; two NICs a host, so that a host has two ports in each plane."""
    return make_fabric(
        name="three_tiers",
        tiers=3,
        planes=2,
        hosts=12,
        nics_per_host=2,
        hosts_per_t0=2,
        t0s_per_pod=2,
        t1s=2,
        t1_uplinks=2,
        rate="100Gbit",
        addresses={"usid": "fc00:1::/32", "hosts": "fd00:beef::/32"},
    )


MAKERS = {"small": small, "three_tiers": three_tiers}


@pytest.mark.parametrize("name", MAKERS)
def test_files_are_the_golden_ones(name: str) -> None:
    made = dict(ConfigFiles(MAKERS[name](), list(FORMATS), hosts=True, nodes=NODES[name]).texts())
    kept = {str(path.relative_to(GOLDEN / name)): path for path in (GOLDEN / name).rglob("*.*")}
    assert made.keys() == kept.keys()
    for path, text in made.items():
        assert text == kept[path].read_text(), path


def test_each_switch_and_host_has_its_files() -> None:
    fabric = three_tiers()
    wanted = ConfigFiles(fabric, ["linux", "frr", "linux"], hosts=True)
    paths = [path for path, _ in wanted.texts()]
    assert len(paths) == len(set(paths)) == wanted.count
    switches = 2 * (6 + 6 + 4)
    assert Counter(path.split("/")[0] for path in paths) == {"linux": switches, "frr": switches, "hosts": 12 + 24}


def test_files_are_written_whole_and_scripts_may_be_run(tmp_path: Path) -> None:
    wanted = ConfigFiles(small(), ["linux", "sonic"], hosts=True)
    written = list(wanted.write(tmp_path / "new" / "folder"))
    assert len(written) == wanted.count
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for path in written:
        assert os.access(path, os.X_OK) == (path.suffix == ".sh")


def test_an_interrupted_run_leaves_only_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ConfigFiles(small(), ["frr"])
    texts = dict(wanted.texts())
    write_text = Path.write_text

    def interrupted(path: Path, text: str) -> int:
        if "p0-t1-0" in path.name:
            write_text(path, text[:10])
            raise KeyboardInterrupt
        return write_text(path, text)

    monkeypatch.setattr(files.Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(wanted.write(tmp_path))
    left = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {path: texts[path] for path in ("frr/p0-t0-0.conf", "frr/p0-t0-1.conf")}


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OpenmrcError, match=r"cannot write .*file/linux/p0-t0-0\.sh: "):
        list(ConfigFiles(small(), ["linux"]).write(tmp_path / "file"))


def test_nodes_are_chosen_by_pattern() -> None:
    chosen = ConfigFiles(three_tiers(), ["eos"], hosts=True, nodes=["p1-t2-*", "host0", "p?-t0-1"])
    assert {path.split("/")[1].split(".")[0] for path, _ in chosen.texts()} == {
        *(f"p1-t2-{index}" for index in range(4)),
        *("p0-t0-1", "p1-t0-1", "host0", "host0-nic0", "host0-nic1"),
    }


def test_port_names_follow_the_option_then_the_fabric_file_then_the_system() -> None:
    usual = dict(ConfigFiles(small(), ["linux"], nodes=["p1-t0-0"]).texts())["linux/p1-t0-0.sh"]
    assert "dev swp1 up" in usual
    named = make_fabric(
        planes=2,
        hosts=2,
        hosts_per_t0=1,
        t1s=2,
        rate="1Gbit",
        interfaces={"switch": "p{plane}x{port}", "host": "n{port}"},
    )
    texts = dict(ConfigFiles(named, ["linux"], hosts=True, nodes=["p1-t0-0", "host0"]).texts())
    assert "dev p1x0 up" in texts["linux/p1-t0-0.sh"]
    assert "dev n1 up" in texts["hosts/host0.sh"]
    texts = dict(ConfigFiles(named, ["linux", "eos"], nodes=["p1-t0-0"], ports={"linux": "port{1}"}).texts())
    assert "dev port1 up" in texts["linux/p1-t0-0.sh"]
    assert "interface p1x0\n" in texts["eos/p1-t0-0.cfg"]
    assert named.interfaces != InterfaceNames()


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("swp{1}", ["swp1", "swp2", "swp3", "swp4"]),
        ("Ethernet{0*8}", ["Ethernet0", "Ethernet8", "Ethernet16", "Ethernet24"]),
        ("Ethernet{1/2}/{1%2}", ["Ethernet1/1", "Ethernet1/2", "Ethernet2/1", "Ethernet2/2"]),
        ("Ethernet{33}/1", ["Ethernet33/1", "Ethernet34/1", "Ethernet35/1", "Ethernet36/1"]),
    ],
)
def test_port_names(pattern: str, names: list[str]) -> None:
    assert PortNames(pattern).first(4) == names


@pytest.mark.parametrize(
    "pattern", ["swp", "swp{}", "swp{1} ", "swp{1/0}", "swp{x}", "swp{1};reboot", "", "{1", "a\n{1}"]
)
def test_patterns_that_name_no_port(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"port names is .*hint: for example swp\{1\}"):
        PortNames(pattern)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"formats": ["cisco"]}, "format is 'cisco'; allowed: linux, sonic, eos, frr"),
        ({"formats": ["sonik"]}, "did you mean 'sonic'"),
        ({"formats": ["linux"], "nodes": ["p0-t0-*", "p9-*"]}, "nodes is 'p9-\\*'"),
        ({"formats": ["linux"], "nodes": ["host0"]}, "nodes is 'host0'; allowed: .*where their files are wanted"),
        ({"formats": ["linux"], "ports": {"host": "x{1}"}}, "port names is 'host'"),
        ({"formats": ["linux"], "ports": {"linux": "Ethernet{1%2}"}}, "a pattern with different names for 3 ports"),
        ({"formats": ["frr"], "ports": {"frr": "longinterface{100}"}}, "'longinterface100'; allowed: .*at most 15"),
    ],
)
def test_wrong_wishes_are_named(wanted: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ConfigFiles(small(), **wanted)  # type: ignore[arg-type]
