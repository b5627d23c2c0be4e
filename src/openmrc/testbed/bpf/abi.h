// SPDX-License-Identifier: Apache-2.0
// The parts of the kernel's eBPF interface that the program uses. They are fixed for good, and stating them here means
// that the test bed needs clang alone: no header packages.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define FIELD_NUMBER(name, value) int (*name)[value]
#define FIELD_TYPE(name, type) typeof(type) *name
#define INLINE static inline __attribute__((always_inline))

#define MAP_TYPE_ARRAY 2

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2    // the sender's socket learns of it
#define TC_ACT_STOLEN 4  // nobody learns of it

#define BPF_F_MARK_MANGLED_0 32  // a checksum of zero stays zero, one that becomes zero is written as 0xFFFF

struct bpf_spin_lock {
  u32 value;
};

struct __sk_buff {
  u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
  u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end, napi_id;
  u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, data_meta;
  u64 flow_keys, tstamp;
  u32 wire_len, gso_segs;
  u64 sk;
  u32 gso_size;
};

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u32 (*get_prandom_u32)(void) = (void *)7;
static long (*skb_store_bytes)(struct __sk_buff *, u32 offset, const void *from, u32 bytes, u64 flags) = (void *)9;
static long (*l3_csum_replace)(struct __sk_buff *, u32 offset, u64 from, u64 to, u64 size) = (void *)10;
static long (*l4_csum_replace)(struct __sk_buff *, u32 offset, u64 from, u64 to, u64 flags) = (void *)11;
static long (*skb_load_bytes)(const struct __sk_buff *, u32 offset, void *to, u32 bytes) = (void *)26;
static s64 (*csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;
static long (*skb_change_tail)(struct __sk_buff *, u32 bytes, u64 flags) = (void *)38;
static long (*spin_lock)(struct bpf_spin_lock *) = (void *)93;
static long (*spin_unlock)(struct bpf_spin_lock *) = (void *)94;

INLINE u16 swap16(u16 value) { return __builtin_bswap16(value); }
INLINE u32 swap32(u32 value) { return __builtin_bswap32(value); }
