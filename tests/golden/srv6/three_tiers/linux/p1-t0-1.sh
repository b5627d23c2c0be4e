#!/bin/sh
# p1-t0-1: uSID 0x4009. May be run again.
set -eu
sysctl -qw net.ipv6.conf.all.forwarding=1
sysctl -qw net.ipv6.fib_multipath_hash_policy=3
sysctl -qw net.ipv6.fib_multipath_hash_fields=63
ip link show dev sr0 >/dev/null 2>&1 || ip link add sr0 type dummy 2>/dev/null ||
  ip link add sr0 type bridge
ip -6 -batch - <<'END'
link set dev sr0 up
link set dev swp1 up alias "host2 port 1"
address replace fe80::b/64 dev swp1 nodad
link set dev swp2 up alias "host2 port 3"
address replace fe80::b/64 dev swp2 nodad
link set dev swp3 up alias "host3 port 1"
address replace fe80::b/64 dev swp3 nodad
link set dev swp4 up alias "host3 port 3"
address replace fe80::b/64 dev swp4 nodad
link set dev swp5 up alias "p1-t1-0 port 1"
address replace fe80::a/64 dev swp5 nodad
link set dev swp6 up alias "p1-t1-1 port 1"
address replace fe80::a/64 dev swp6 nodad
route replace fc00:1:4009::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev sr0
route replace fc00:1:e004::/48 via fe80::a dev swp1
route replace fc00:1:e005::/48 via fe80::a dev swp2
route replace fc00:1:e006::/48 via fe80::a dev swp3
route replace fc00:1:e007::/48 via fe80::a dev swp4
route replace fc00:1:8008::/48 via fe80::b dev swp5
route replace fc00:1:8009::/48 via fe80::b dev swp6
route replace blackhole fc00:1::/32
route replace fd00:beef:1:1::/80 via fe80::a dev swp1
route replace fd00:beef:1:1:1::/80 via fe80::a dev swp2
route replace fd00:beef:1:1:2::/80 via fe80::a dev swp3
route replace fd00:beef:1:1:3::/80 via fe80::a dev swp4
route replace blackhole fd00:beef:1:1::/64
route replace fd00:beef:1::/48 via fe80::b dev swp5
route append fd00:beef:1::/48 via fe80::b dev swp6
route replace blackhole fd00:beef::/32
END
