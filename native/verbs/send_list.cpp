#include "verbs/send_list.hpp"

#include <cerrno>

namespace openmrc::verbs {

void SendList::open() {
  if (is_open()) {
    refuse(EINVAL);  // the list before was never ended
    return;
  }
  mutex_.lock();
  owner_ = std::this_thread::get_id();
  error_ = 0;
  wrs_.clear();
  parts_.clear();
  sges_.clear();
  bytes_.clear();
}

void SendList::close() {
  owner_ = std::thread::id();
  mutex_.unlock();
}

ibv_send_wr* SendList::add() {
  if (wrs_.size() >= limits_.wrs) {
    refuse(ENOMEM);
    return nullptr;
  }
  parts_.emplace_back();
  return &wrs_.emplace_back();
}

void SendList::set_sges(const ibv_sge* sges, std::size_t count) {
  if (wrs_.empty() || count > limits_.sges || (count > 0 && sges == nullptr)) return refuse(EINVAL);
  wrs_.back().send_flags &= ~IBV_SEND_INLINE;
  parts_.back() = {sges_.size(), count};
  sges_.insert(sges_.end(), sges, sges + count);
}

void SendList::begin_inline() {
  if (wrs_.empty()) return refuse(EINVAL);
  wrs_.back().send_flags |= IBV_SEND_INLINE;
  parts_.back() = {bytes_.size(), 0};
}

void SendList::add_inline(const void* bytes, std::size_t count) {
  if (error_ != 0) return;
  if (count > limits_.inline_bytes - parts_.back().count || (count > 0 && bytes == nullptr)) return refuse(EINVAL);
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  bytes_.insert(bytes_.end(), first, first + count);
  parts_.back().count += count;
}

ibv_send_wr* SendList::linked(std::size_t& count) {
  count = wrs_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Part& part = parts_[i];
    if ((wrs_[i].send_flags & IBV_SEND_INLINE) != 0) {
      sges_.push_back(
          {reinterpret_cast<std::uintptr_t>(bytes_.data() + part.begin), static_cast<std::uint32_t>(part.count), 0});
      parts_[i] = {sges_.size() - 1, 1};
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    wrs_[i].sg_list = sges_.data() + parts_[i].begin;
    wrs_[i].num_sge = static_cast<int>(parts_[i].count);
    wrs_[i].next = i + 1 < count ? &wrs_[i + 1] : nullptr;
  }
  return count == 0 ? nullptr : wrs_.data();
}

}  // namespace openmrc::verbs
