// SPDX-License-Identifier: Apache-2.0
// A switch port at the egress of a Linux interface: a virtual queue that drains at the link's rate says what a packet
// would find, and the packet is marked, cut, dropped or sent on accordingly; then the wire's faults decide. The real
// queue behind the program has the same rate and is never the one that drops. The rules are those of the simulator's
// port (native/netsim/output_port.cpp), in bytes in place of times.
#include "packet.h"
#include "port.h"

struct {
  FIELD_NUMBER(type, MAP_TYPE_ARRAY);
  FIELD_NUMBER(max_entries, 1);
  FIELD_TYPE(key, u32);
  FIELD_TYPE(value, struct port_config);
} configs SEC(".maps");

struct {
  FIELD_NUMBER(type, MAP_TYPE_ARRAY);
  FIELD_NUMBER(max_entries, 1);
  FIELD_TYPE(key, u32);
  FIELD_TYPE(value, struct port_state);
} states SEC(".maps");

#define CLASS_CONTROL 0x10
#define CLASS_DATA 0x20
#define SCALE 32
#define SHORT_NS (1ULL << 27)
#define LONG_NS (1ULL << 38)

struct arrival {
  u64 now;
  u32 bytes, cut_bytes;  // on the wire
  u32 marking, lost, burst, corrupted, ev;  // random numbers
  u8 control, trimmable, markable;
};

struct verdict {
  u8 drop, cut, mark, corrupt, control, vanish;
};

// Bytes times 2^32 that leave in this many nanoseconds; after a while without packets, less precisely.
INLINE u64 drained(u64 elapsed, u64 rate) {
  if (elapsed < SHORT_NS) return elapsed * rate;
  if (elapsed > LONG_NS) elapsed = LONG_NS;
  const u64 coarse = (elapsed >> 12) * (rate >> 4);
  return coarse >= 1ULL << 48 ? ~0ULL : coarse << 16;
}

INLINE void drain(struct port_state *state, u64 now, u64 rate) {
  if (now <= state->last_ns) return;  // another processor was here since
  const u64 gone = drained(now - state->last_ns, rate);
  state->last_ns = now;
  state->backlog = state->backlog > gone ? state->backlog - gone : 0;
  state->control = state->control > gone ? state->control - gone : 0;
}

INLINE int happens(u32 random, u32 probability) { return random < probability || probability == ALWAYS; }

INLINE int ramp_marks(const struct port_config *config, u32 waiting, u32 random) {
  if (waiting >= config->ecn_max) return 1;
  if (waiting <= config->ecn_min) return 0;
  const u32 width = config->ecn_max - config->ecn_min;
  return (u64)(random % width) * 1000 < (u64)(waiting - config->ecn_min) * config->ecn_permille;
}

// The control class goes before data, except for the data packet in service.
INLINE int admit_control(const struct port_config *config, struct port_state *state, u32 bytes) {
  u64 start = state->control;
  if (start == 0 && state->last_bytes != 0) start = state->backlog % state->last_bytes;
  const u64 end = start + ((u64)bytes << SCALE);
  if (end > (u64)config->control_bytes << SCALE) return 0;
  state->control = end;
  state->backlog = (state->backlog > start ? state->backlog : start) + ((u64)bytes << SCALE);
  return 1;
}

INLINE void admit(const struct port_config *config, struct port_state *state, const struct arrival *arrival,
                  struct verdict *verdict) {
  const u32 waiting = (u32)(state->backlog >> SCALE);
  u64 *counters = state->counters;
  u32 bytes = arrival->bytes;
  verdict->control = arrival->control;
  if (!verdict->control && arrival->trimmable && waiting > config->trim_threshold) {
    verdict->control = verdict->cut = 1;
    bytes = arrival->cut_bytes;
  }
  if (verdict->control) {
    if (!admit_control(config, state, bytes)) {
      verdict->drop = 1;
      ++counters[DROPPED_CONTROL];
      return;
    }
    ++counters[CONTROL];
    if (verdict->cut) ++counters[TRIMMED];
  } else {
    if (state->backlog + ((u64)bytes << SCALE) > (u64)config->queue_bytes << SCALE) {
      verdict->drop = 1;
      ++counters[DROPPED_QUEUE];
      return;
    }
    if (arrival->markable && ramp_marks(config, waiting, arrival->marking)) {
      verdict->mark = 1;
      ++counters[MARKED];
    }
    if (waiting > counters[QUEUE_PEAK]) counters[QUEUE_PEAK] = waiting;
    state->backlog += (u64)bytes << SCALE;
    state->last_bytes = (u64)bytes << SCALE;
  }
  ++counters[PACKETS];
  counters[BYTES] += bytes;
}

INLINE int lost_in_burst(const struct port_config *config, struct port_state *state, u32 random) {
  if (config->burst_enter == 0) return 0;
  if (state->in_burst) {
    if (happens(random, config->burst_leave)) state->in_burst = 0;
  } else if (happens(random, config->burst_enter)) {
    state->in_burst = 1;
  }
  return state->in_burst != 0;
}

INLINE u32 loss_of_ev(const struct port_config *config, u32 ev) {
  u32 loss = 0;
  for (u32 i = 0; i < EV_LOSSES; ++i)
    if (i < config->ev_losses && config->ev[i].ev == ev) loss = config->ev[i].loss;
  return loss;
}

INLINE void cross_wire(const struct port_config *config, struct port_state *state, const struct arrival *arrival,
                       u32 ev_loss, struct verdict *verdict) {
  if (config->flags & PORT_BLACKHOLE) {
    verdict->vanish = 1;
    ++state->counters[DROPPED_BLACKHOLE];
    return;
  }
  const int burst = lost_in_burst(config, state, arrival->burst);
  if (burst || happens(arrival->lost, config->loss) || (ev_loss != 0 && happens(arrival->ev, ev_loss))) {
    verdict->vanish = 1;
    ++state->counters[DROPPED_LOSS];
    return;
  }
  if (happens(arrival->corrupted, config->corrupt)) {
    verdict->corrupt = 1;
    ++state->counters[CORRUPTED];
  }
}

INLINE void classify(struct __sk_buff *skb, const struct port_config *config, const struct view *view,
                     struct arrival *arrival) {
  const u8 dscp = view->tos >> 2;
  const u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
  const u32 headers = view->transport != 0 ? view->transport + UDP_BYTES : ETHERNET_BYTES + IPV6_BYTES;
  arrival->bytes = skb->len + config->overhead + (segments - 1) * (headers + config->overhead);
  arrival->cut_bytes = ETHERNET_BYTES + config->trim_ip_bytes + config->overhead;
  arrival->control = dscp == DSCP_CONTROL || dscp == DSCP_TRIMMED || dscp == DSCP_TRIMMED_LASTHOP;
  arrival->trimmable = (config->flags & PORT_TRIM) && view->transport != 0 && segments == 1 &&
                       (dscp == DSCP_TRIMMABLE || dscp == DSCP_TRIMMABLE_RETX) && arrival->bytes > arrival->cut_bytes;
  const u8 ecn = view->tos & 3;
  arrival->markable = (config->flags & PORT_ECN) && ecn != 0 && ecn != ECN_CE;
}

INLINE int lost_in_kernel(struct port_state *state) {
  __sync_fetch_and_add(&state->counters[DROPPED_CHANGE], 1);
  return TC_ACT_STOLEN;
}

SEC("tc")
int switch_port(struct __sk_buff *skb) {
  u32 number = skb->tc_classid;
  struct port_config *config = map_lookup_elem(&configs, &number);
  struct port_state *state = map_lookup_elem(&states, &number);
  if (config == 0 || state == 0 || config->rate == 0) return TC_ACT_OK;

  struct view view = {0};
  struct arrival arrival = {0};
  struct verdict verdict = {0};
  read_packet(skb, config->usid_block, &view);
  classify(skb, config, &view, &arrival);
  if (arrival.markable) arrival.marking = get_prandom_u32();
  if (config->loss) arrival.lost = get_prandom_u32();
  if (config->burst_enter) arrival.burst = get_prandom_u32();
  if (config->corrupt) arrival.corrupted = get_prandom_u32();
  const u32 ev_loss = config->ev_losses ? loss_of_ev(config, view.ev) : 0;
  if (ev_loss) arrival.ev = get_prandom_u32();
  arrival.now = ktime_get_ns();

  spin_lock(&state->lock);
  drain(state, arrival.now, config->rate);
  admit(config, state, &arrival, &verdict);
  if (!verdict.drop) cross_wire(config, state, &arrival, ev_loss, &verdict);
  spin_unlock(&state->lock);

  if (verdict.drop) return TC_ACT_SHOT;
  if (verdict.vanish) return TC_ACT_STOLEN;
  skb->priority = config->priority_major | (verdict.control ? CLASS_CONTROL : CLASS_DATA);
  if (verdict.mark) change_tos(skb, &view, 0, ECN_CE);
  if (verdict.cut) {
    const u8 dscp = config->flags & PORT_LAST_HOP ? DSCP_TRIMMED_LASTHOP : DSCP_TRIMMED;
    if (!cut(skb, &view, config->trim_ip_bytes, dscp)) return lost_in_kernel(state);
  }
  if (verdict.corrupt && !corrupt(skb, &view, get_prandom_u32())) return lost_in_kernel(state);
  return TC_ACT_OK;
}

char terms[] SEC("license") = "Apache-2.0";
