#!/bin/sh
# p1-t2-2: uSID 0xc006. May be run again.
set -eu
sysctl -qw net.ipv6.conf.all.forwarding=1
sysctl -qw net.ipv6.fib_multipath_hash_policy=3
sysctl -qw net.ipv6.fib_multipath_hash_fields=63
ip link show dev sr0 >/dev/null 2>&1 || ip link add sr0 type dummy 2>/dev/null ||
  ip link add sr0 type bridge
ip -6 -batch - <<'END'
link set dev sr0 up
link set dev swp1 up alias "p1-t1-1 port 2"
address replace fe80::b/64 dev swp1 nodad
link set dev swp2 up alias "p1-t1-3 port 2"
address replace fe80::b/64 dev swp2 nodad
link set dev swp3 up alias "p1-t1-5 port 2"
address replace fe80::b/64 dev swp3 nodad
route replace fc00:1:c006::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev sr0
route replace fc00:1:8009::/48 via fe80::a dev swp1
route replace fc00:1:800b::/48 via fe80::a dev swp2
route replace fc00:1:800d::/48 via fe80::a dev swp3
route replace blackhole fc00:1::/32
route replace fd00:beef:1::/63 via fe80::a dev swp1
route replace fd00:beef:1:2::/63 via fe80::a dev swp2
route replace fd00:beef:1:4::/63 via fe80::a dev swp3
route replace blackhole fd00:beef::/32
END
