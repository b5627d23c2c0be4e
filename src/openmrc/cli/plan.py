"""`openmrc plan`: bill of materials, cost and failure analysis of a fabric; search for designs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openmrc.cli.output_files import writable_file, writable_folder, write_file
from openmrc.errors import ConfigError, OpenmrcError, did_you_mean

if TYPE_CHECKING:
    from openmrc.fabric.materials import SwitchModel

app = typer.Typer(help="Bill of materials, cost and failure analysis of a fabric; search for designs.")

SEARCH_ONLY = ("planes", "tiers", "nic-rate", "switch", "radix", "oversubscription", "prices", "sort")
FILES_ONLY = ("format", "nodes", "hosts", "encap", "ports")


@app.command()
def plan(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FABRIC.yaml]", help="The fabric file.")] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write all numbers here; - is stdout.")
    ] = None,
    as_html: Annotated[
        Path | None, typer.Option("--html", callback=writable_file, help="Write one page with a drawing here.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(callback=writable_folder, help="Write switches' configuration below this folder.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Files: of linux,sonic,eos,frr; none: only hosts.")
    ] = "linux",
    nodes: Annotated[str, typer.Option(help="Files: names or patterns, as p0-t0-*,host3. Without: all.")] = "",
    hosts: Annotated[bool, typer.Option("--hosts", help="Files: also of hosts and their NICs' paths.")] = False,
    encap: Annotated[bool, typer.Option("--encap", help="Files: also of hosts that wrap by source port.")] = False,
    ports: Annotated[
        list[str] | None, typer.Option(metavar="FORMAT=PATTERN", help="Files: port names, as eos=Ethernet{1}/1.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of fabric files, for editors.")
    ] = False,
    gpus: Annotated[int | None, typer.Option(help="Search: fabrics for this number of GPUs, one NIC each.")] = None,
    planes: Annotated[str, typer.Option(help="Search: numbers of planes.")] = "1,2,4,8",
    tiers: Annotated[str, typer.Option(help="Search: numbers of tiers.")] = "2,3",
    nic_rate: Annotated[str, typer.Option(help="Search: bandwidth of a NIC, all planes.")] = "800Gbit",
    switch: Annotated[str, typer.Option(help="Search: switch model, or its capacity.")] = "51.2T",
    radix: Annotated[int | None, typer.Option(help="Search: most ports of a switch. Without: the model's.")] = None,
    oversubscription: Annotated[str, typer.Option(help="Search: of the T0s, as 2 or 1.5.")] = "1",
    prices: Annotated[Path | None, typer.Option(help="Search: YAML with `prices:` and `powers:`.")] = None,
    sort: Annotated[str, typer.Option(help="Search: by switches, cost or power.")] = "switches",
) -> None:
    """Plan FABRIC.yaml; or, with --gpus, list feasible fabrics for that number, and reasons against others."""
    given = [name for name in SEARCH_ONLY if _given(context, name)]
    of_files = [name for name in FILES_ONLY if _given(context, "formats" if name == "format" else name)]
    if of_files and out is None:
        raise ConfigError(f"--{of_files[0]}", "without --out", "only with --out DIR", hint="add --out DIR")
    if schema:
        _print_schema()
    elif gpus is not None:
        if file is not None:
            raise ConfigError("--gpus", gpus, f"a search alone, or {file} alone", hint="leave out one of them")
        if as_html is not None:
            raise ConfigError("--html", str(as_html), "a page of a fabric file", hint="a search has --json")
        if out is not None:
            raise ConfigError("--out", str(out), "files of a fabric file", hint="a search has --json")
        _search(gpus, planes, tiers, nic_rate, _switch(switch, radix), oversubscription, prices, sort, as_json)
    elif file is None:
        raise ConfigError("FABRIC.yaml", "missing", "a fabric file, or --gpus for a search", hint="openmrc plan --help")
    elif given:
        hint = "the fabric file contains it; --gpus starts a search"
        raise ConfigError(f"--{given[0]}", context.params[given[0].replace("-", "_")], "only with --gpus", hint=hint)
    else:
        if out is None or as_json or as_html:
            _plan(file, as_json, as_html, show=out is None)
        if out is not None:
            from openmrc.cli.plan_files import write_files

            said = _to_stdout(as_json)
            write_files(file, out, formats, nodes, ports or (), hosts=hosts, encap=encap, quiet=said)


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name.replace("-", "_"))
    return source is not None and source.name == "COMMANDLINE"


def _plan(file: Path, as_json: Path | None, as_html: Path | None, *, show: bool) -> None:
    from openmrc.fabric import load_fabric
    from openmrc.plan import plan_of, plan_record
    from openmrc.plan.record import text_of
    from openmrc.reports.plan_page import plan_page
    from openmrc.reports.plan_tables import print_plan

    fabric = load_fabric(file)
    found = plan_of(fabric)
    if show and not _to_stdout(as_json):
        print_plan(found, _console())
    if as_json is not None:
        write_file("--json", as_json, text_of(plan_record(found)))
    if as_html is not None:
        write_file("--html", as_html, plan_page(fabric, found))


def _search(
    gpus: int,
    planes: str,
    tiers: str,
    nic_rate: str,
    model: SwitchModel,
    oversubscription: str,
    prices: Path | None,
    sort: str,
    as_json: Path | None,
) -> None:
    from openmrc.plan import SearchQuery, search, search_record
    from openmrc.plan.record import text_of
    from openmrc.plan.search import SORTS, numbers_of
    from openmrc.plan.tariff import Tariff, load_tariff
    from openmrc.reports.plan_sheets import search_sheets
    from openmrc.reports.plan_tables import print_sheets
    from openmrc.units import parse_rate

    by = next((known for known in SORTS if known == sort), None)
    if by is None:
        raise ConfigError("--sort", sort, ", ".join(SORTS))
    tariff = Tariff() if prices is None else load_tariff(prices)
    query = SearchQuery(
        gpus=gpus,
        planes=numbers_of(planes, "--planes"),
        tiers=numbers_of(tiers, "--tiers"),
        nic_bps=_positive("--nic-rate", nic_rate, parse_rate(nic_rate, "--nic-rate")),
        switch=model,
        oversubscription=_ratio(oversubscription),
        prices=tariff.prices,
        powers_watts=tariff.powers_watts,
        currency=tariff.currency,
        sort=by,
    )
    found = search(query)
    if not _to_stdout(as_json):
        print_sheets(search_sheets(found), _console())
    if as_json is not None:
        write_file("--json", as_json, text_of(search_record(found)))
    if not found.designs:
        raise OpenmrcError("no fabric of these planes and tiers reaches this number of NICs")


def _switch(name: str, radix: int | None) -> SwitchModel:
    """A known model, or one of this capacity with 100G ports; `radix` bounds the ports of either."""
    from openmrc.fabric.materials import SwitchModel
    from openmrc.fabric.switch_models import SWITCH_MODELS, switch_model
    from openmrc.units import parse_rate

    if radix is not None and not 2 <= radix <= 65536:
        raise ConfigError("--radix", radix, "2 to 65536 ports")
    if name in SWITCH_MODELS:
        model = switch_model(name)
    else:
        try:
            capacity_bps = _positive("--switch", name, parse_rate(name, "--switch"))
        except ConfigError:
            words = f"{', '.join(SWITCH_MODELS)}, or a capacity such as 40Tbit"
            hint = did_you_mean(name, SWITCH_MODELS) or "such as --switch 51.2T --radix 512"
            raise ConfigError("--switch", name, words, hint=hint) from None
        model = SwitchModel(name, capacity_bps, max(2, capacity_bps // 10**11))
    return model if radix is None else replace(model, ports_max=radix)


def _positive(option: str, text: str, value: int) -> int:
    if value <= 0:
        raise ConfigError(option, text, "a rate above 0")
    return value


def _ratio(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigError("--oversubscription", text, "a number such as 1, 2 or 1.5") from None


def _print_schema() -> None:
    import json

    from openmrc.fabric import fabric_schema

    print(json.dumps(fabric_schema(), indent=1))


def _console() -> Any:
    from openmrc.reports.plan_tables import WIDTH_MAX

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH_MAX
    return console


def _to_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"
