// A circle of ranks on one host: each writes to its board, and reads those of the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/shared_board.hpp"
#include "collectives/shared_transport.hpp"

namespace openmrc::collectives {

class SharedTransport::BoardCircle final : public Circle {
 public:
  BoardCircle(SharedTransport& transport, std::uint64_t group, std::span<const std::uint16_t> others);

  bool is_of(std::span<const std::uint16_t> others) const;
  bool put(std::uint8_t lane, const MessageHead& head, const void* data) override;
  bool take(std::uint64_t key, std::uint32_t& missing) override;

 private:
  struct Member {
    Peer* peer;
    BoardArea* area;  // nullptr: not known yet
    BoardReader reader;
  };

  bool take(std::size_t number, std::uint64_t key, std::uint32_t& missing);
  bool find_room();

  SharedTransport& transport_;
  std::uint64_t group_;
  std::vector<Member> members_;  // without the own rank
  std::size_t own_number_ = 0;   // among the members with the own rank
  BoardArea* own_ = nullptr;     // nullptr: messages cannot go to all at once
  BoardWriter writer_;
};

}  // namespace openmrc::collectives
