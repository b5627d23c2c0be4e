// Opening the sockets of a port. Sending and receiving: socket_send.cpp, socket_receive.cpp.
#include "nic/socket_port.hpp"

#include <linux/filter.h>
#include <linux/in6.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "engine/base/assert.hpp"
#include "nic/error.hpp"
#include "nic/socket_address.hpp"
#include "nic/socket_options.hpp"
#include "nic/uncancelled.hpp"

namespace openmrc::nic {
namespace {

constexpr std::uint32_t kSourcePortEnd = 65536;
constexpr std::uint32_t kStevSourcePorts = 4;             // the flow labels carry most of the entropy
constexpr std::uint32_t kEndpointBufferBytes = 1U << 20;  // room for some thousand endpoint operations

FileDescriptor open_socket(const PortSettings& settings) {
  const bool ipv4 = settings.local.family == AddressFamily::kIpv4;
  FileDescriptor fd(::socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw NicError(errno, "cannot open a UDP socket for " + format_address(settings.local));
  if (!ipv4) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (!settings.interface.empty() && ::setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, settings.interface.c_str(),
                                                  static_cast<socklen_t>(settings.interface.size())) != 0) {
    throw NicError(errno, "cannot bind " + format_address(settings.local) + " to interface " + settings.interface);
  }
  // "Don't fragment": a packet is one datagram, as the ICRC assumes.
  if (ipv4) {
    set_option(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  } else {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
  }
  return fd;
}

bool bind_socket(int fd, const Address& local, std::uint32_t scope, std::uint16_t port) {
  const SocketAddress address = to_socket_address(local, port, scope);
  return ::bind(fd, address.get(), address.length) == 0;
}

void leave_out_checksum(int fd, int option, const PortSettings& settings) {
  if (!set_option(fd, SOL_UDP, option, 1)) {
    throw NicError(errno, "cannot leave out the UDP checksum on " + format_address(settings.local));
  }
}

// Steers the datagrams of a group of two sockets: endpoint operations, and datagrams too short for any header, go to
// the second.
bool sort_endpoint_operations(int fd) {
  constexpr std::uint32_t kBthBytes = 12, kDestinationQpAt = 4, kMask24 = 0xFFFFFF;
  std::array<sock_filter, 7> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kBthBytes, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDestinationQpAt),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, kMask24),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEndpointQp, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &filter, sizeof filter) == 0;
}

std::uint64_t drops_of(int fd) {
  std::uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t length = sizeof memory;
  const bool told = ::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &length) == 0;
  return told && length > SK_MEMINFO_DROPS * sizeof memory[0] ? memory[SK_MEMINFO_DROPS] : 0;
}

std::uint16_t random_label() {
  std::uint16_t label = 0;
  while (label == 0) {
    if (::getrandom(&label, sizeof label, 0) != sizeof label) throw NicError(errno, "cannot draw a flow label");
  }
  return label;
}

}  // namespace

SocketPort::SocketPort(PortId id, const Settings& device, std::uint32_t& next_source_port)
    : id_(id),
      device_(device),
      settings_(device.ports[id]),
      udp_port_(device.udp_port),
      ev_format_(device.ev_format),
      paths_(device.paths) {
  MRC_ASSERT(!is_srv6() || (!settings_.selectors.empty() && settings_.receive.family == AddressFamily::kIpv6));
  if (!settings_.interface.empty()) scope_ = ::if_nametoindex(settings_.interface.c_str());
  receive_socket_ = open_receive_socket();
  endpoint_socket_ = open_endpoint_socket(receive_socket_.get());
  open_transmit_sockets(next_source_port);
}

FileDescriptor SocketPort::open_receive_socket() {
  FileDescriptor opened = open_socket(settings_);
  const int fd = opened.get();
  const Address& receive = is_srv6() ? settings_.receive : settings_.local;
  if (!bind_socket(fd, receive, scope_, udp_port_)) {
    const std::string where = format_address(receive) + " port " + std::to_string(udp_port_);
    throw NicError(errno,
                   errno == EADDRINUSE ? "another device already receives on " + where : "cannot receive on " + where);
  }
  set_receive_options(fd);
  received_.receive_offload = device_.receive_offload && !is_srv6() && set_option(fd, SOL_UDP, UDP_GRO, 1);
  received_.receive_buffer_bytes = grow_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, SO_RCVBUF, device_.socket_buffer_bytes);
  return opened;
}

void SocketPort::set_receive_options(int fd) const {
  if (settings_.local.family == AddressFamily::kIpv4) {
    set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
  } else {
    set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set_option(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
  }
  if (is_srv6()) leave_out_checksum(fd, UDP_NO_CHECK6_RX, settings_);
}

// Opens a socket for endpoint operations. Nothing limits the packets that strangers send to QP 2; the kernel drops
// those that exceed this socket's buffer, and data neither waits for it nor in it. The first socket is bound alone, so
// that two devices still cannot share an address. Invalid if a sandbox or an old kernel cannot steer; then one socket
// receives everything.
FileDescriptor SocketPort::open_endpoint_socket(int receive_fd) const {
  if (!set_option(receive_fd, SOL_SOCKET, SO_REUSEPORT, 1)) return {};
  FileDescriptor opened = open_socket(settings_);
  const int fd = opened.get();
  const bool sorted = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
                      bind_socket(fd, is_srv6() ? settings_.receive : settings_.local, scope_, udp_port_) &&
                      sort_endpoint_operations(receive_fd);
  if (!sorted) {
    set_option(receive_fd, SOL_SOCKET, SO_REUSEPORT, 0);
    return {};
  }
  set_receive_options(fd);
  grow_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, SO_RCVBUF, std::min(device_.socket_buffer_bytes, kEndpointBufferBytes));
  return opened;
}

// One socket tries all the ports: on a host where other devices hold hundreds of them, opening and closing a socket for
// each took longer than everything else here.
SocketPort::TransmitSocket SocketPort::open_transmit_socket(std::uint32_t& source_port, std::uint32_t end) {
  FileDescriptor opened = open_socket(settings_);
  const int fd = opened.get();
  while (!bind_socket(fd, settings_.local, scope_, static_cast<std::uint16_t>(source_port))) {
    if (errno != EADDRINUSE && errno != EACCES) {
      throw NicError(errno, "cannot send from " + format_address(settings_.local));
    }
    if (++source_port >= end) return {};
  }
  sent_.send_buffer_bytes = grow_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SO_SNDBUF, device_.socket_buffer_bytes);
  // A transmit socket is never read, so its queue must not hold packets that strangers send there.
  set_option(fd, SOL_SOCKET, SO_RCVBUF, 0);
  if (ev_format_ != wire::EvFormat::kUdp) {
    set_option(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
    set_option(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);  // so that a label of 0 stays 0
  }
  if (is_srv6()) leave_out_checksum(fd, UDP_NO_CHECK6_TX, settings_);
  TransmitSocket socket;
  socket.fd = std::move(opened);
  return socket;
}

// A second socket on the source port of `transmit`, which admits nobody else but for this moment.
FileDescriptor SocketPort::open_second_socket(const TransmitSocket& transmit, std::uint16_t source_port) const {
  const int held = transmit.fd.get();
  FileDescriptor opened = open_socket(settings_);
  const int fd = opened.get();
  const bool bound = set_option(held, SOL_SOCKET, SO_REUSEPORT, 1) && set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
                     bind_socket(fd, settings_.local, scope_, source_port);
  set_option(held, SOL_SOCKET, SO_REUSEPORT, 0);
  if (!bound) return {};
  grow_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, SO_SNDBUF, device_.socket_buffer_bytes);
  set_option(fd, SOL_SOCKET, SO_RCVBUF, 0);  // never read, either
  return opened;
}

// Opens the second socket, if need be, and connects it. False: for example, descriptors are used up.
bool SocketPort::connect(TransmitSocket& transmit, std::uint16_t source_port) {
  ConnectedSocket& socket = transmit.connected;
  socket.target = {};
  try {
    if (!socket.fd.valid()) socket.fd = open_second_socket(transmit, source_port);
  } catch (const NicError&) {
    return false;
  }
  if (!socket.fd.valid()) return false;
  const int fd = socket.fd.get();
  const bool ipv4 = socket.latest.peer.family == AddressFamily::kIpv4;
  const SocketAddress peer = to_socket_address(socket.latest.peer, socket.latest.peer_port, scope_);
  const bool connected =
      uncancelled::connect(fd, peer.get(), peer.length) == 0 &&
      set_option(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS, socket.latest.traffic_class);
  if (connected) socket.target = socket.latest;
  return connected;
}

void SocketPort::open_transmit_sockets(std::uint32_t& next_source_port) {
  const std::uint32_t sockets = source_ports_for(device_.evs_per_port);
  while (transmit_sockets_.size() < sockets) {
    TransmitSocket socket;
    if (next_source_port < kSourcePortEnd) socket = open_transmit_socket(next_source_port, kSourcePortEnd);
    if (!socket.fd.valid()) {
      throw NicError(EADDRINUSE, "not enough free UDP source ports on " + format_address(settings_.local));
    }
    source_ports_.push_back(static_cast<std::uint16_t>(next_source_port++));
    transmit_sockets_.push_back(std::move(socket));
  }
  int probe = 0;
  socklen_t length = sizeof probe;
  sent_.segmentation_offload =
      device_.segmentation_offload && !is_srv6() &&
      ::getsockopt(transmit_sockets_.front().fd.get(), SOL_UDP, UDP_SEGMENT, &probe, &length) == 0;
  for (std::uint32_t i = 0; evs_.size() < device_.evs_per_port; ++i) {
    const std::uint32_t value = make_ev(i);
    const auto same = [value](const Ev& ev) { return ev.value == value; };
    if (std::none_of(evs_.begin(), evs_.end(), same)) evs_.push_back({value, id_});
  }
}

bool SocketPort::interface_gone() const {
  std::array<char, IF_NAMESIZE> name;
  return !settings_.interface.empty() && ::if_indextoname(scope_, name.data()) == nullptr;
}

int SocketPort::rebind() {
  const std::uint32_t before = scope_.exchange(::if_nametoindex(settings_.interface.c_str()));
  int error = scope_ == 0 ? ENODEV : 0;
  try {
    if (error == 0) {
      FileDescriptor receive = open_receive_socket();
      FileDescriptor endpoint = open_endpoint_socket(receive.get());
      std::vector<TransmitSocket> transmit;
      for (std::uint32_t source_port : source_ports_) {
        transmit.push_back(open_transmit_socket(source_port, source_port + 1));
      }
      const auto valid = [](const TransmitSocket& socket) { return socket.fd.valid(); };
      error = std::all_of(transmit.begin(), transmit.end(), valid) ? 0 : EADDRINUSE;
      if (error == 0) {
        receive_socket_ = std::move(receive);
        stamps_ = false;
        joins_ = true;
        endpoint_socket_ = std::move(endpoint);
        transmit_sockets_ = std::move(transmit);
        return 0;
      }
    }
  } catch (const NicError& refusal) {
    error = refusal.code();
  }
  scope_ = before;
  return error;
}

std::uint32_t SocketPort::source_ports_for(std::uint32_t evs) const {
  if (ev_format_ == wire::EvFormat::kUdp) return evs;
  if (ev_format_ == wire::EvFormat::kStev) return std::min(kStevSourcePorts, evs);
  const auto selectors = static_cast<std::uint32_t>(settings_.selectors.size());
  return (evs + selectors - 1) / selectors;
}

// The EVs of EV format SRV6 combine all selectors with one source port before the next source port.
std::uint32_t SocketPort::make_ev(std::uint32_t index) const {
  if (ev_format_ == wire::EvFormat::kUdp) return source_ports_[index];
  if (ev_format_ == wire::EvFormat::kStev) {
    return source_ports_[index % source_ports_.size()] | static_cast<std::uint32_t>(random_label()) << 16;
  }
  const std::size_t round = index / settings_.selectors.size();
  MRC_ASSERT(round < source_ports_.size());  // otherwise a selector occurs twice
  return source_ports_[round] | static_cast<std::uint32_t>(settings_.selectors[index % settings_.selectors.size()])
                                    << 16;
}

bool SocketPort::find_path(const Address& peer, std::uint16_t selector, Address& destination) const {
  if (is_srv6()) return paths_.destination(peer, selector, destination);
  destination = peer;
  return true;
}

// Uses a socket of its own: connecting and disconnecting a transmit socket would undo its binding to an interface.
std::uint32_t SocketPort::path_mtu(const Address& peer, std::uint16_t udp_port) const {
  const std::string way = "no way from " + format_address(settings_.local) + " to " + format_address(peer);
  const bool ipv4 = settings_.local.family == AddressFamily::kIpv4;
  const FileDescriptor fd = open_socket(settings_);
  if (!bind_socket(fd.get(), settings_.local, scope_, 0)) throw NicError(errno, way);
  const std::vector<std::uint16_t> one_path{0};
  std::uint32_t smallest = UINT32_MAX;
  for (const std::uint16_t selector : is_srv6() ? settings_.selectors : one_path) {
    Address to;
    if (!find_path(peer, selector, to)) throw NicError(EHOSTUNREACH, way + ": no path rule knows the peer");
    const SocketAddress address = to_socket_address(to, udp_port, scope_);
    if (::connect(fd.get(), address.get(), address.length) != 0) throw NicError(errno, way);
    int mtu = 0;
    socklen_t length = sizeof mtu;
    if (::getsockopt(fd.get(), ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu, &length) != 0) {
      throw NicError(errno, way);
    }
    smallest = std::min(smallest, static_cast<std::uint32_t>(mtu));
  }
  return smallest;
}

SocketPort::TransmitSocket& SocketPort::socket_of(std::uint16_t source_port) {
  const std::size_t near =
      static_cast<std::size_t>(source_port) - source_ports_.front();  // usually they are consecutive
  if (near < source_ports_.size() && source_ports_[near] == source_port) return transmit_sockets_[near];
  const auto found = std::lower_bound(source_ports_.begin(), source_ports_.end(), source_port);
  // Responses to endpoint operations may carry an EV of another host: any socket serves for those.
  if (found == source_ports_.end() || *found != source_port) return transmit_sockets_.front();
  return transmit_sockets_[static_cast<std::size_t>(found - source_ports_.begin())];
}

void SocketPort::close() {
  receive_socket_.reset();
  endpoint_socket_.reset();
  transmit_sockets_.clear();
}

SocketStats SocketPort::stats() const {
  SocketStats all = sent_;
  all.receive_calls = received_.receive_calls;
  all.received_datagrams = received_.received_datagrams;
  all.received_bytes = received_.received_bytes;
  all.coalesced_receives = received_.coalesced_receives;
  all.receive_errors = received_.receive_errors;
  all.truncated = received_.truncated;
  all.receive_buffer_bytes = received_.receive_buffer_bytes;
  all.receive_offload = received_.receive_offload;
  all.refusal = faulty_ ? refusal_.load() : 0;
  all.kernel_drops = drops_of(receive_socket_.get());
  all.endpoint_drops = drops_of(endpoint_socket_.get());
  return all;
}

}  // namespace openmrc::nic
