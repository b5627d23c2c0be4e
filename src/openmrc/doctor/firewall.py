"""Whether this host's own packet filter lets UDP port 4791 in. What is on the way cannot be seen from here."""

from __future__ import annotations

import re
import shutil
import subprocess

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


def read_rules() -> dict[str, str]:
    """The rules by the tool that prints them, without tools that are missing or refuse, as they do ordinary users."""
    found: dict[str, str] = {}
    for tool, command in _COMMANDS:
        if shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0:
            found[tool] = found.get(tool, "") + done.stdout
    return found


def check_firewall(rules: dict[str, str]) -> Finding:
    """Whether a filter on input refuses what no rule allows, and no rule names the port."""
    if not rules:
        sentence = "Its rules, if any, cannot be read here; `openmrc doctor --peer ADDRESS` shows whether packets pass."
        return Finding(_GROUP, _NAME, Verdict.OK, sentence, numbers={"rules_read": False})
    for tool, text in rules.items():
        command = _closed(tool, text)
        if command is not None and _PORT not in text:
            sentence = f"Input is refused unless a rule allows it, and no rule names UDP port {_PORT}."
            return Finding(_GROUP, _NAME, Verdict.IMPROVABLE, sentence, command, {"rules_read": True})
    sentence = f"No rule of this host stops UDP port {_PORT}."
    return Finding(_GROUP, _NAME, Verdict.OK, sentence, numbers={"rules_read": True})


def _closed(tool: str, text: str) -> str | None:
    """Command that opens the port; None: input is open."""
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
