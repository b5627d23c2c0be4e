#!/bin/sh
# p0-t0-1: uSID 0x4001. May be run again.
set -eu
sysctl -qw net.ipv6.conf.all.forwarding=1
sysctl -qw net.ipv6.fib_multipath_hash_policy=3
sysctl -qw net.ipv6.fib_multipath_hash_fields=63
ip link show dev sr0 >/dev/null 2>&1 || ip link add sr0 type dummy 2>/dev/null ||
  ip link add sr0 type bridge
ip -6 -batch - <<'END'
link set dev sr0 up
link set dev swp1 up alias "host1 port 0"
address replace fe80::b/64 dev swp1 nodad
link set dev swp2 up alias "p0-t1-0 port 1"
address replace fe80::a/64 dev swp2 nodad
link set dev swp3 up alias "p0-t1-1 port 1"
address replace fe80::a/64 dev swp3 nodad
route replace fcbb:bb00:4001::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev sr0
route replace fcbb:bb00:e000::/48 via fe80::a dev swp1
route replace fcbb:bb00:8000::/48 via fe80::b dev swp2
route replace fcbb:bb00:8001::/48 via fe80::b dev swp3
route replace blackhole fcbb:bb00::/32
route replace fd00:6d72:0:1::/80 via fe80::a dev swp1
route replace blackhole fd00:6d72:0:1::/64
route replace fd00:6d72::/48 via fe80::b dev swp2
route append fd00:6d72::/48 via fe80::b dev swp3
route replace blackhole fd00:6d72::/32
END
