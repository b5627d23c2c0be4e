// SPDX-License-Identifier: Apache-2.0
// Reading and changing the headers of a packet in the kernel's buffer.
#pragma once

#include "port.h"

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define UDP_BYTES 8
#define PROTOCOL_UDP 17
#define PROTOCOL_IPV6 41
#define CHUNK_BYTES 64
#define CHUNKS 64

// DSCP values of the traffic classes.
#define DSCP_TRIMMABLE 4
#define DSCP_TRIMMABLE_RETX 8
#define DSCP_TRIMMED 12
#define DSCP_TRIMMED_LASTHOP 16
#define DSCP_CONTROL 46

#define ECN_CE 3

// A byte of the BTH, and a bit in it (X.4.10).
#define BTH_FLAGS 8
#define BTH_NO_ICRC 4

struct view {
  u32 inner;          // offset of the IP header right before the transport's; the outer one is at ETHERNET_BYTES
  u32 transport;      // offset of the UDP header; 0 if there is none
  u32 ev;
  u16 outer_version, inner_version;
  u8 tos, inner_tos;  // DSCP and ECN
};

struct ipv6 {
  u32 word;  // version, traffic class, flow label
  u16 payload;
  u8 next, hops;
  u32 source[4], destination[4];
};

struct ipv4 {
  u8 version, tos;
  u16 length, id, fragment;
  u8 hops, protocol;
  u16 checksum;
  u32 source, destination;
};

INLINE u8 tos_of(const struct ipv6 *ip) { return (u8)(swap32(ip->word) >> 20); }

INLINE int read_ipv4(struct __sk_buff *skb, struct view *view) {
  struct ipv4 ip;
  if (skb_load_bytes(skb, ETHERNET_BYTES, &ip, sizeof(ip)) < 0 || ip.version != 0x45) return 0;
  view->outer_version = view->inner_version = 4;
  view->tos = view->inner_tos = ip.tos;
  if (ip.protocol == PROTOCOL_UDP) view->transport = ETHERNET_BYTES + IPV4_BYTES;
  return 1;
}

// Fills in what the packet is; returns 0 if it is no IP packet. In a packet whose destination is a list of uSIDs the EV
// has 32 bits, in any other the 16 of the source port.
INLINE int read_packet(struct __sk_buff *skb, u32 usid_block, struct view *view) {
  view->inner = ETHERNET_BYTES;
  if (skb->protocol == swap16(0x0800)) {
    if (!read_ipv4(skb, view)) return 0;
  } else if (skb->protocol == swap16(0x86DD)) {
    struct ipv6 ip;
    if (skb_load_bytes(skb, ETHERNET_BYTES, &ip, sizeof(ip)) < 0) return 0;
    view->outer_version = view->inner_version = 6;
    view->tos = view->inner_tos = tos_of(&ip);
    if (ip.next == PROTOCOL_IPV6) {
      view->inner = ETHERNET_BYTES + IPV6_BYTES;
      if (skb_load_bytes(skb, view->inner, &ip, sizeof(ip)) < 0) return 0;
      view->inner_tos = tos_of(&ip);
    } else if (swap32(ip.destination[0]) == usid_block) {
      view->ev = swap32(ip.word) << 16;
    }
    if (ip.next == PROTOCOL_UDP) view->transport = view->inner + IPV6_BYTES;
  } else {
    return 0;
  }
  u16 port = 0;
  if (view->transport != 0 && skb_load_bytes(skb, view->transport, &port, sizeof(port)) < 0) view->transport = 0;
  view->ev |= swap16(port);
  return 1;
}

INLINE void write_tos(struct __sk_buff *skb, u32 offset, u16 version, u8 from, u8 to) {
  u16 word;
  if (from == to || skb_load_bytes(skb, offset, &word, sizeof(word)) < 0) return;
  const u16 old = word;
  if (version == 4) {
    word = swap16((swap16(word) & 0xFF00U) | to);
    l3_csum_replace(skb, offset + __builtin_offsetof(struct ipv4, checksum), old, word, sizeof(word));
  } else {
    word = swap16((swap16(word) & 0xF00FU) | (u16)(to << 4));
  }
  skb_store_bytes(skb, offset, &word, sizeof(word), 0);
}

// The kernel's End.DT6 does not copy marks of the outer header inwards (RFC 6040), so both headers get them here.
INLINE void change_tos(struct __sk_buff *skb, const struct view *view, u8 clear, u8 set) {
  write_tos(skb, ETHERNET_BYTES, view->outer_version, view->tos, (view->tos & ~clear) | set);
  if (view->inner != ETHERNET_BYTES)
    write_tos(skb, view->inner, view->inner_version, view->inner_tos, (view->inner_tos & ~clear) | set);
}

INLINE void write_length(struct __sk_buff *skb, u32 offset, u16 version, u32 end) {
  u16 old, length;
  if (version == 4) {
    const u32 at = offset + __builtin_offsetof(struct ipv4, length);
    if (skb_load_bytes(skb, at, &old, sizeof(old)) < 0) return;
    length = swap16((u16)(end - offset));
    l3_csum_replace(skb, offset + __builtin_offsetof(struct ipv4, checksum), old, length, sizeof(length));
    skb_store_bytes(skb, at, &length, sizeof(length), 0);
  } else {
    length = swap16((u16)(end - offset - IPV6_BYTES));
    skb_store_bytes(skb, offset + __builtin_offsetof(struct ipv6, payload), &length, sizeof(length), 0);
  }
}

// Sum of the bytes from `offset` to `end`, which is at most CHUNKS * CHUNK_BYTES further.
INLINE s64 sum_bytes(struct __sk_buff *skb, u32 offset, u32 end, s64 sum) {
  for (int i = 0; i < CHUNKS && offset < end; ++i) {
    u32 chunk[CHUNK_BYTES / 4] = {0};
    u32 bytes = end - offset;
    asm volatile("" : "+r"(bytes));  // keeps the compiler from testing another copy than the one that is used
    if (bytes > CHUNK_BYTES) bytes = CHUNK_BYTES;
    if (bytes == 0 || skb_load_bytes(skb, offset, chunk, bytes) < 0) return sum;
    sum = csum_diff(0, 0, chunk, CHUNK_BYTES, (u32)sum);
    offset += CHUNK_BYTES;
  }
  return sum;
}

// A cut datagram that had a checksum gets that of what is left.
INLINE void write_udp(struct __sk_buff *skb, const struct view *view, u32 end) {
  u16 checksum = 0;
  const u16 length = swap16((u16)(end - view->transport));
  skb_store_bytes(skb, view->transport + 4, &length, sizeof(length), 0);
  if (skb_load_bytes(skb, view->transport + 6, &checksum, sizeof(checksum)) < 0 || checksum == 0) return;
  checksum = 0;
  skb_store_bytes(skb, view->transport + 6, &checksum, sizeof(checksum), 0);
  const u32 addresses = view->inner_version == 4 ? 8 : 32;
  s64 sum = sum_bytes(skb, view->transport - addresses, end, 0);
  sum += length + swap16(PROTOCOL_UDP);
  sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + ((sum >> 32) & 0xFFFF);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  checksum = (u16)~sum;
  if (checksum == 0) checksum = 0xFFFF;
  skb_store_bytes(skb, view->transport + 6, &checksum, sizeof(checksum), 0);
}

// Cuts the packet to `ip_bytes` from the IP header on; returns 0 if the kernel refuses.
INLINE int cut(struct __sk_buff *skb, const struct view *view, u32 ip_bytes, u8 dscp) {
  const u32 end = ETHERNET_BYTES + ip_bytes;
  if (skb_change_tail(skb, end, 0) < 0) return 0;
  write_length(skb, ETHERNET_BYTES, view->outer_version, end);
  if (view->inner != ETHERNET_BYTES) write_length(skb, view->inner, view->inner_version, end);
  write_udp(skb, view, end);
  change_tos(skb, view, 0xFC, (u8)(dscp << 2));
  return 1;
}

// Flips a bit of the datagram and keeps its UDP checksum right, so that only the ICRC can tell. What is no datagram has
// a checksum of its own at the receiver, which would drop it; so it is dropped here: returns 0. So is a datagram that
// announces in its BTH that it has no ICRC: only its UDP checksum would detect the change.
INLINE int corrupt(struct __sk_buff *skb, const struct view *view, u32 random) {
  if (view->transport == 0) return 0;
  const u32 first = view->transport + UDP_BYTES;
  if (skb->len < first + 2) return 0;
  u8 flags = 0;
  if (skb_load_bytes(skb, first + BTH_FLAGS, &flags, sizeof(flags)) == 0 && (flags & BTH_NO_ICRC)) return 0;
  const u32 at = first + ((random >> 4) % (skb->len - first - 1) & ~1U);
  u16 word, old;
  if (skb_load_bytes(skb, at, &word, sizeof(word)) < 0) return 0;
  old = word;
  word ^= (u16)(1U << (random & 15));
  if (skb_store_bytes(skb, at, &word, sizeof(word), 0) < 0) return 0;
  l4_csum_replace(skb, view->transport + 6, old, word, BPF_F_MARK_MANGLED_0 | sizeof(word));
  return 1;
}
