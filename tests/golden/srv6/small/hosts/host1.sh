#!/bin/sh
# host1. May be run again.
set -eu
sysctl -qw net.ipv6.conf.eth0.accept_ra=0
ip -6 rule del priority 1000 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth0 up alias "p0-t0-1 port 0"
address replace fe80::a/64 dev eth0 nodad
address replace fd00:6d72:0:1::1/128 dev eth0 nodad
address replace fcbb:bb00:e000::/128 dev eth0 nodad preferred_lft 0
rule add priority 1000 from fd00:6d72:0:1::1 lookup 1000
route replace fcbb:bb00::/32 via fe80::b dev eth0 table 1000
route replace fd00:6d72::/48 via fe80::b dev eth0 table 1000
route replace fcbb:bb00:4001::/48 via fe80::b dev eth0 src fd00:6d72:0:1::1
route replace fd00:6d72::/48 via fe80::b dev eth0 src fd00:6d72:0:1::1
END
sysctl -qw net.ipv6.conf.eth1.accept_ra=0
ip -6 rule del priority 1001 2>/dev/null || true
ip -6 -batch - <<'END'
link set dev eth1 up alias "p1-t0-1 port 0"
address replace fe80::a/64 dev eth1 nodad
address replace fd00:6d72:1:1::1/128 dev eth1 nodad
address replace fcbb:bb00:e001::/128 dev eth1 nodad preferred_lft 0
rule add priority 1001 from fd00:6d72:1:1::1 lookup 1001
route replace fcbb:bb00::/32 via fe80::b dev eth1 table 1001
route replace fd00:6d72:1::/48 via fe80::b dev eth1 table 1001
route replace fcbb:bb00:4003::/48 via fe80::b dev eth1 src fd00:6d72:1:1::1
route replace fd00:6d72:1::/48 via fe80::b dev eth1 src fd00:6d72:1:1::1
END
