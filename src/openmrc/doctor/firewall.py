"""Check that this host's own packet filter accepts UDP port 4791. Filters on the path are invisible from here."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping

from openmrc.doctor.finding import Finding, Verdict

__all__ = ["check_firewall", "read_rules"]

_GROUP = "sockets"
_NAME = "firewall"
_PORT = "4791"
_SECONDS = 2
_COMMANDS = (("nft", ("nft", "list", "ruleset")), ("iptables", ("iptables-save",)), ("iptables", ("ip6tables-save",)))
_OPEN = {
    "nft": "sudo nft insert rule {table} {chain} udp dport 4791 accept",
    "iptables": "sudo iptables -I INPUT -p udp --dport 4791 -j ACCEPT",
}
_CHAIN = re.compile(r"^\s*table (\S+ \S+) \{|^\s*chain (\S+) \{(.*?)^\s*\}", re.MULTILINE | re.DOTALL)
_REFUSES = re.compile(r"policy drop|^\s*(?:counter [^\n]*)?(?:drop|reject\b[^\n]*)$", re.MULTILINE)


def read_rules() -> dict[str, str | None]:
    """The rules, printed by the tool; None if the tool refuses, as all do for ordinary users."""
    found: dict[str, str | None] = {}
    for tool, command in _COMMANDS:
        if shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            found[tool] = None
            continue
        before = found.get(tool, "")
        found[tool] = before + done.stdout if done.returncode == 0 and before is not None else None
    return found


def check_firewall(rules: Mapping[str, str | None]) -> Finding:
    """Detects an input filter that drops by default without a rule for the port."""
    for tool, text in rules.items():
        command = None if text is None else _closed(tool, text)
        if command is not None and text is not None and _PORT not in text:
            sentence = f"Input is refused unless a rule allows it, and no rule names UDP port {_PORT}."
            return Finding(_GROUP, _NAME, Verdict.IMPROVABLE, sentence, command, {"rules_read": True})
    if not rules or None in rules.values():
        refused = " and ".join(tool for tool, text in rules.items() if text is None)
        why = f"this user may not run {refused}" if refused else "neither nft nor iptables is installed"
        sentence = (
            f"Its rules, if any, cannot be read: {why}. `openmrc doctor --peer ADDRESS` shows whether packets pass."
        )
        command = "sudo openmrc doctor" if refused else None
        return Finding(_GROUP, _NAME, Verdict.UNKNOWN, sentence, command, {"rules_read": False})
    sentence = f"No rule of this host stops UDP port {_PORT}."
    return Finding(_GROUP, _NAME, Verdict.OK, sentence, numbers={"rules_read": True})


def _closed(tool: str, text: str) -> str | None:
    """Command that opens the port; None if input is open."""
    if tool == "iptables":
        shut = re.search(r"^:INPUT DROP|^-A INPUT -j (?:REJECT|DROP)", text, re.MULTILINE)
        return _OPEN[tool] if shut else None
    table = ""
    for match in _CHAIN.finditer(text):
        table = match[1] or table
        body = match[3] or ""
        if "hook input" in body and _REFUSES.search(body):
            return _OPEN[tool].format(table=table, chain=match[2])
    return None
