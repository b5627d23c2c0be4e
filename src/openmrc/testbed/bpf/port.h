// SPDX-License-Identifier: Apache-2.0
// What user space and the program share: settings of a port, its state and its counters. `dataplane_layout.py` states
// the same for Python; the version below changes with every change of either.
#pragma once

#include "abi.h"

#define EV_LOSSES 4
#define ALWAYS 0xFFFFFFFFU  // a probability of one; others are in parts of 2^32

enum port_flag {
  PORT_ECN = 1,
  PORT_TRIM = 2,
  PORT_LAST_HOP = 4,   // its trimmed packets say TRIMMED_LASTHOP
  PORT_BLACKHOLE = 8,  // everything that leaves vanishes silently
};

struct ev_loss {
  u32 ev;
  u32 loss;
};

struct port_config {
  u64 rate;           // bytes per nanosecond, times 2^32
  u32 queue_bytes;    // data that does not fit is dropped
  u32 control_bytes;  // the same for control and trimmed packets
  u32 ecn_min, ecn_max, ecn_permille;
  u32 trim_threshold;
  u32 trim_ip_bytes;  // what is left, from the IP header on
  s32 overhead;       // what a packet takes on the wire beyond its length here
  u32 flags;
  u32 usid_block;  // first 32 bits of the uSID block, in host order
  u32 loss, burst_enter, burst_leave, corrupt;
  u32 priority_major;  // handle of the queueing discipline, above the class
  u32 ev_losses;
  struct ev_loss ev[EV_LOSSES];
};

enum counter {
  PACKETS,  // put on the wire, as the next four
  BYTES,
  CONTROL,
  MARKED,
  TRIMMED,
  CORRUPTED,
  DROPPED_QUEUE,
  DROPPED_CONTROL,
  DROPPED_BLACKHOLE,  // lost on the wire, as the next
  DROPPED_LOSS,
  DROPPED_CHANGE,  // could not be cut in the kernel's buffer, which then loses it, or would be corrupt without an ICRC
  QUEUE_PEAK,      // bytes that waited before a data packet, at most
  COUNTERS
};

struct port_state {
  struct bpf_spin_lock lock;
  u32 in_burst;
  u64 last_ns;
  u64 backlog;       // both classes, in bytes times 2^32
  u64 control;       // of it what control packets wait for
  u64 last_bytes;    // of a data packet: how much the one in service can hold up control
  u64 counters[COUNTERS];
};
