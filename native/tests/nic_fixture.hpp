// Two devices on loopback, in one process, with a QP between them and memory for source and destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "nic/device.hpp"
#include "nic/socket_address.hpp"
#include "tests/check.hpp"
#include "tests/own_udp_port.hpp"

namespace openmrc::test {

inline nic::Settings settings_for(std::initializer_list<const char*> addresses) {
  nic::Settings settings;
  for (const char* address : addresses) {
    nic::PortSettings port;
    CHECK(nic::parse_address(address, port.local));
    port.advertise = port.local;
    settings.ports.push_back(port);
  }
  settings.evs_per_port = 4;
  settings.udp_port = own_udp_port();
  settings.seed = 7;
  return settings;
}

struct End {
  explicit End(const nic::Settings& settings) : device(settings) { open(); }
  End(const nic::Settings& settings, const nic::PortFactory& factory) : device(settings, factory) { open(); }

  void open() {
    CHECK(device.create_cq(64, cq) == Status::kOk);
    CHECK(device.register_memory(memory.data(), memory.size(), kRemoteWrite, key) == Status::kOk);
    add_qp();
  }

  // Another QP, which the methods use from now on.
  void add_qp() {
    QpInitAttributes attributes;
    attributes.send_cq = attributes.recv_cq = cq;
    CHECK(device.command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, qp); }) == Status::kOk);
  }

  void connect(const End& peer, std::uint32_t send_psn, std::uint32_t receive_psn, bool icrc = true) {
    const auto move = [&](const auto& attributes) {
      return device.command([&](Engine& engine, TimePs now) { return engine.modify_qp(now, qp, attributes); });
    };
    PeerConfig config;
    for (const nic::PortSettings& port : peer.device.settings().ports) config.ports.push_back(port.advertise);
    config.udp_port = peer.device.settings().udp_port;
    QpToInit init;
    init.ev_universe = device.evs();
    init.ev_set.active_per_port = 4;
    init.controller = "none";
    QpToRtr rtr;
    rtr.destination_qp = peer.qp;
    rtr.rq_psn = receive_psn;
    rtr.capabilities.no_icrc = !icrc;
    CHECK(device.command([&](Engine& engine, TimePs) { return engine.add_peer(config, rtr.peer); }) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = send_psn;
    rts.timeout_exponent = 14;
    CHECK(move(init) == Status::kOk);
    CHECK(move(rtr) == Status::kOk);
    CHECK(move(rts) == Status::kOk);
  }

  Status write(const End& peer, std::uint64_t bytes) { return write(peer, key, memory.data(), bytes); }
  Status write(const End& peer, std::uint32_t lkey, const std::uint8_t* from, std::uint64_t bytes) {
    SendWr wr;
    wr.lkey = lkey;
    wr.local_address = reinterpret_cast<std::uintptr_t>(from);
    wr.length_bytes = bytes;
    wr.rkey = peer.key;
    wr.remote_address = reinterpret_cast<std::uintptr_t>(peer.memory.data());
    return device.post_send(qp, wr);
  }

  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(1U << 20);  // outlives the device, which writes into it
  nic::Device device;
  CqId cq = 0;
  std::uint32_t key = 0, qp = 0;
};

struct DevicePair {
  DevicePair() : DevicePair(settings_for({"127.0.0.81"}), settings_for({"127.0.0.82"})) {}
  DevicePair(const nic::Settings& first, const nic::Settings& second) : a(first), b(second) { connect(); }
  DevicePair(const nic::Settings& first, const nic::Settings& second, const nic::PortFactory& factory)
      : a(first, factory), b(second, factory) {
    connect();
  }

  void connect() {
    a.connect(b, 5, 9);
    b.connect(a, 9, 5);
    for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
  }
  End a, b;
};

}  // namespace openmrc::test
