#!/bin/sh
# p0-t1-3: uSID 0x8003. May be run again.
set -eu
sysctl -qw net.ipv6.conf.all.forwarding=1
sysctl -qw net.ipv6.fib_multipath_hash_policy=3
sysctl -qw net.ipv6.fib_multipath_hash_fields=63
ip link show dev sr0 >/dev/null 2>&1 || ip link add sr0 type dummy 2>/dev/null ||
  ip link add sr0 type bridge
ip -6 -batch - <<'END'
link set dev sr0 up
link set dev swp1 up alias "p0-t0-2 port 5"
address replace fe80::b/64 dev swp1 nodad
link set dev swp2 up alias "p0-t0-3 port 5"
address replace fe80::b/64 dev swp2 nodad
link set dev swp3 up alias "p0-t2-2 port 1"
address replace fe80::a/64 dev swp3 nodad
link set dev swp4 up alias "p0-t2-3 port 1"
address replace fe80::a/64 dev swp4 nodad
route replace fc00:1:8003::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev sr0
route replace fc00:1:4002::/48 via fe80::a dev swp1
route replace fc00:1:4003::/48 via fe80::a dev swp2
route replace fc00:1:c002::/48 via fe80::b dev swp3
route replace fc00:1:c003::/48 via fe80::b dev swp4
route replace blackhole fc00:1::/32
route replace fd00:beef:0:2::/64 via fe80::a dev swp1
route replace fd00:beef:0:3::/64 via fe80::a dev swp2
route replace fd00:beef::/48 via fe80::b dev swp3
route append fd00:beef::/48 via fe80::b dev swp4
route replace blackhole fd00:beef::/32
END
