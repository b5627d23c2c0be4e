#!/bin/sh
# host2. May be run again.
set -eu
sysctl -qw net.ipv6.conf.eth0.accept_ra=0
ip -6 rule del priority 1000 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth0 up alias "p0-t0-1 port 0"
address replace fe80::a/64 dev eth0 nodad
address replace fd00:beef:0:1::1/128 dev eth0 nodad
address replace fc00:1:e000::/128 dev eth0 nodad preferred_lft 0
rule add priority 1000 from fd00:beef:0:1::1 lookup 1000
route replace fc00:1::/32 via fe80::b dev eth0 table 1000
route replace fd00:beef::/48 via fe80::b dev eth0 table 1000
route replace fc00:1:4001::/48 via fe80::b dev eth0 src fd00:beef:0:1::1
route replace fd00:beef::/48 via fe80::b dev eth0 src fd00:beef:0:1::1
END
sysctl -qw net.ipv6.conf.eth1.accept_ra=0
ip -6 rule del priority 1001 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth1 up alias "p1-t0-1 port 0"
address replace fe80::a/64 dev eth1 nodad
address replace fd00:beef:1:1::1/128 dev eth1 nodad
address replace fc00:1:e004::/128 dev eth1 nodad preferred_lft 0
rule add priority 1001 from fd00:beef:1:1::1 lookup 1001
route replace fc00:1::/32 via fe80::b dev eth1 table 1001
route replace fd00:beef:1::/48 via fe80::b dev eth1 table 1001
route replace fc00:1:4009::/48 via fe80::b dev eth1 src fd00:beef:1:1::1
route replace fd00:beef:1::/48 via fe80::b dev eth1 src fd00:beef:1:1::1
END
sysctl -qw net.ipv6.conf.eth2.accept_ra=0
ip -6 rule del priority 1002 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth2 up alias "p0-t0-1 port 1"
address replace fe80::a/64 dev eth2 nodad
address replace fd00:beef:0:1:1::1/128 dev eth2 nodad
address replace fc00:1:e001::/128 dev eth2 nodad preferred_lft 0
rule add priority 1002 from fd00:beef:0:1:1::1 lookup 1002
route replace fc00:1::/32 via fe80::b dev eth2 table 1002
route replace fd00:beef::/48 via fe80::b dev eth2 table 1002
END
sysctl -qw net.ipv6.conf.eth3.accept_ra=0
ip -6 rule del priority 1003 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth3 up alias "p1-t0-1 port 1"
address replace fe80::a/64 dev eth3 nodad
address replace fd00:beef:1:1:1::1/128 dev eth3 nodad
address replace fc00:1:e005::/128 dev eth3 nodad preferred_lft 0
rule add priority 1003 from fd00:beef:1:1:1::1 lookup 1003
route replace fc00:1::/32 via fe80::b dev eth3 table 1003
route replace fd00:beef:1::/48 via fe80::b dev eth3 table 1003
END
