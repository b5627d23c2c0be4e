"""Programs with a path file: EV format SRV6 on loopback, with the peer itself as the path; mistakes in the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rdma_programs import LIMIT_S, compiled, needs, next_tcp_port, run_both

from openmrc.programs import prepare
from openmrc.programs.config import folders
from openmrc.srv6 import read_nic_paths
from openmrc.variables import PATHS, PORTS

pytestmark = needs("ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_send_bw", "rping")

PORT: dict[str, Any] = {"plane": 0, "address": "::1", "receive_address": "::1", "selectors": [0, 1, 5]}
COPY: dict[str, Any] = {"from": "selector", "from_bit": 14, "bits": 2, "to_bit": 62}
RULE: dict[str, Any] = {"peers": "::1/128", "base": "::1", "copies": []}
FILE: dict[str, Any] = {"format": "openmrc NIC paths", "version": 1, "ports": [PORT], "rules": [RULE]}


@pytest.fixture
def paths(tmp_path: Path) -> Path:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(FILE))
    return file


def under_run(paths: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "openmrc.cli.main", "run", "--paths", str(paths), "--", *words]


def done(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)


def test_a_path_file_is_one_device(paths: Path):
    shown = done(under_run(paths, "ibv_devinfo", "-v"))
    assert shown.stderr == f"openmrc: ibv_devinfo finds mrc0 with 1 port, from --paths: {paths}\n"
    assert "GID[  0]:\t\t::1, RoCE v2" in shown.stdout
    assert "PORT_ACTIVE" in shown.stdout


def test_the_program_finds_the_file_from_another_directory(paths: Path):
    command = under_run(Path(paths.name), "sh", "-c", "cd / && ibv_devices; echo $OPENMRC_SIGNAL")
    shown = done(command, cwd=paths.parent)
    assert "mrc0" in shown.stdout
    assert shown.stdout.endswith("marks\n")


@pytest.mark.parametrize(
    ("words", "port_option"),
    [
        pytest.param("ibv_rc_pingpong -g 0 -n 100 -c", "-p", id="contents"),
        pytest.param("ib_write_bw -d mrc0 -F -n 100", "-p", id="mrc"),
        pytest.param("ib_send_bw -d mrc0 -F -n 100", "-p", id="rc"),
    ],
)
def test_programs_talk_over_srv6(paths: Path, monkeypatch: pytest.MonkeyPatch, words: str, port_option: str):
    monkeypatch.setenv(PATHS, str(paths))
    monkeypatch.delenv(PORTS, raising=False)
    tcp_port = next_tcp_port()
    server = [*words.split(), port_option, str(tcp_port)]
    ended = run_both(server, [*server, "127.0.0.1"], tcp_port, ports=None)
    assert ended.passed, ended.output
    assert "from OPENMRC_PATHS" in ended.output
    assert "invalid data" not in ended.output


def test_the_connection_manager_takes_an_address_of_another_network(paths: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PATHS, str(paths))
    monkeypatch.delenv(PORTS, raising=False)
    tcp_port = next_tcp_port()
    words = ["rping", "-a", "127.0.0.1", "-p", str(tcp_port), "-C", "5"]
    ended = run_both([*words, "-s"], [*words, "-c", "-V"], tcp_port, ports=None)
    assert ended.client == 0, ended.output


def changed(**members: Any) -> dict[str, Any]:
    return FILE | members


MISTAKES = [
    pytest.param([], "path file", id="no_object"),
    pytest.param(changed(format="other"), "format", id="format"),
    pytest.param(changed(version=2), "version", id="version"),
    pytest.param(changed(base_rtt_us=0), "base_rtt_us", id="base_rtt_us"),
    pytest.param(changed(port=[]), "port", id="unknown_key"),
    pytest.param(changed(ports=[]), "ports", id="no_port"),
    pytest.param(changed(ports=[PORT | {"plane": 1}]), "ports[0].plane", id="plane"),
    pytest.param(changed(ports=[PORT | {"address": "127.0.0.1"}]), "ports[0].address", id="address"),
    pytest.param(changed(ports=[PORT | {"receive_address": 1}]), "ports[0].receive_address", id="receive_address"),
    pytest.param(changed(ports=[PORT | {"selectors": []}]), "ports[0].selectors", id="no_selector"),
    pytest.param(changed(ports=[PORT | {"selectors": [0, 65536]}]), "ports[0].selectors[1]", id="selector"),
    pytest.param(changed(ports=[PORT | {"selectors": [3, 4, 3]}]), "ports[0].selectors", id="selector_twice"),
    pytest.param(changed(ports=[PORT | {"interface": "a/b"}]), "ports[0].interface", id="interface"),
    pytest.param(changed(ports=[PORT | {"rate_bps": 1.5}]), "ports[0].rate_bps", id="rate_bps"),
    pytest.param(changed(ports=[PORT, PORT | {"plane": 1}]), "ports[1].address", id="address_twice"),
    pytest.param(changed(rules=[RULE | {"peers": "::1"}]), None, id="prefix_of_one_address"),
    pytest.param(changed(rules=[RULE | {"peers": "::1/129"}]), "rules[0].peers", id="long_prefix"),
    pytest.param(changed(rules=[RULE | {"peers": "::1/64"}]), "rules[0].peers", id="bits_behind_the_prefix"),
    pytest.param(changed(rules=[RULE | {"base": "10.0.0.1"}]), "rules[0].base", id="base"),
    pytest.param(changed(rules=[{"peers": "::1/128", "base": "::1"}]), "rules[0].copies", id="missing_key"),
    pytest.param(changed(rules=[RULE | {"copies": [COPY | {"from": "plane"}]}]), "rules[0].copies[0].from", id="from"),
    pytest.param(changed(rules=[RULE | {"copies": [COPY | {"bits": 3}]}]), "rules[0].copies[0].bits", id="bits"),
    pytest.param(changed(rules=[RULE, RULE]), "rules[1].peers", id="prefix_twice"),
    pytest.param(
        changed(rules=[RULE | {"copies": [COPY | {"to_bit": 126}]}]), "rules[0].copies[0].to_bit", id="bit_of_the_base"
    ),
    pytest.param(
        changed(rules=[RULE | {"copies": [COPY, COPY | {"to_bit": 63}]}]), "rules[0].copies[1].to_bit", id="overlap"
    ),
]


@pytest.mark.parametrize(("content", "field"), MISTAKES)
def test_mistakes_are_named_by_the_command_and_by_the_library(tmp_path: Path, content: Any, field: str | None):
    file = tmp_path / "host.json"
    file.write_text(json.dumps(content))
    refused = done(under_run(file, "ibv_devices"))
    variables = prepare(["127.0.0.1"], None, os.environ).variables | {PORTS: "", PATHS: str(file)}
    listed = done(["ibv_devices"], env=variables)
    if field is None:
        assert (refused.returncode, "mrc0" in listed.stdout) == (0, True)
        return
    assert refused.returncode == 2
    assert f"{field} is " in refused.stderr.replace("\n", " ") or f"{field}: " in refused.stderr, refused.stderr
    assert f"openmrc: OPENMRC_PATHS: {file}: {field} is " in listed.stderr
    assert "mrc0" not in listed.stdout


@pytest.mark.parametrize("text", ["", "{", '{"a": }', '{"a": 1, "a": 2}', '{"a": 01}', "[" * 1000, '"\\u12', "{} {}"])
def test_text_that_is_not_json(tmp_path: Path, text: str):
    file = tmp_path / "host.json"
    file.write_text(text)
    variables = prepare(["127.0.0.1"], None, os.environ).variables | {PORTS: "", PATHS: str(file)}
    listed = done(["ibv_devices"], env=variables)
    assert f"openmrc: OPENMRC_PATHS: {file}: not JSON: line 1: " in listed.stderr
    assert "mrc0" not in listed.stdout


def test_a_file_with_every_form_of_json_is_read(tmp_path: Path, paths: Path):
    file = tmp_path / "forms.json"
    port = json.dumps(PORT | {"interface": "lo"}).replace('"lo"', '"\\u006co"')
    file.write_text(
        f'\t{{"\\u0066ormat":"openmrc NIC paths" ,\r\n"version":1,"base_rtt_us":null,"ports":[{port}],'
        f'"rules":[{json.dumps(RULE)}]}}\n'
    )
    assert read_nic_paths(file).ports[0].interface == "lo"
    shown = done(under_run(file, "ibv_devinfo"))
    assert (shown.returncode, "PORT_ACTIVE" in shown.stdout) == (0, True), shown.stderr


def test_ports_and_a_path_file_at_once_are_refused(paths: Path):
    both = done([*under_run(paths)[:-1], "--ports", "127.0.0.1", "--", "true"])
    assert both.returncode == 2
    assert "--ports is '127.0.0.1'" in both.stderr
    variables = prepare(["127.0.0.1"], None, os.environ).variables | {PATHS: str(paths)}
    listed = done(["ibv_devices"], env=variables)
    assert "OPENMRC_PORTS and OPENMRC_PATHS are both set" in listed.stderr
    assert "mrc0" not in listed.stdout


def test_an_option_takes_precedence_over_the_variables(paths: Path):
    environment = {name: value for name, value in os.environ.items() if name not in (PORTS, PATHS)}
    assert "127.0.0.1" in prepare(["127.0.0.1"], None, environment | {PATHS: "other.json"}).variables[PORTS]
    chosen = prepare([], None, environment | {PORTS: "127.0.0.1"}, paths=str(paths)).variables
    assert (chosen[PATHS], PORTS in chosen) == (str(paths), False)


CONTEXT = """
#include <errno.h>
#include <mrc.h>
#include <stdio.h>
int main(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct mrc_context_attr attributes = {0};
  struct mrc_context *made = mrc_create_context(ibv_open_device(list[0]), &attributes);
  printf("%s", made != NULL ? "made" : errno == EOPNOTSUPP ? "refused" : "another error");
  return 0;
}
"""


def test_the_c_api_refuses_a_device_whose_evs_are_no_source_ports(paths: Path, tmp_path: Path):
    source = tmp_path / "context.c"
    source.write_text(CONTEXT)
    found = folders()
    options = [f"-I{found['--includedir']}", f"-L{found['--libdir']}", "-l_mrc"]
    program = compiled(source, tmp_path / "context", *options)
    assert done(under_run(paths, *program)).stdout == "refused"
