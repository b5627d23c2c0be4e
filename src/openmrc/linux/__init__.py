"""Interfaces of the Linux kernel: netlink, offloads of network interfaces."""
