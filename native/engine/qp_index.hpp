// Index of QPs by number, used for every arriving packet: open addressing in one block of memory.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "engine/base/hot_memory.hpp"

namespace openmrc {

class Qp;

class QpIndex {
 public:
  // nullptr when there is none.
  Qp* find(std::uint32_t qpn) const {
    if (count_ == 0) return nullptr;
    std::size_t bucket = bucket_of(qpn);
    // Terminates: at least half of the buckets are free.
    while (buckets_[bucket].qp != nullptr) {
      if (buckets_[bucket].qpn == qpn) return buckets_[bucket].qp;
      bucket = (bucket + 1) & (buckets_.size() - 1);
    }
    return nullptr;
  }

  // Adds a number that is not in the index yet.
  void add(std::uint32_t qpn, Qp* qp) {
    ++count_;
    if (2 * count_ > buckets_.size()) grow();
    put({qpn, qp});
  }

  void remove(std::uint32_t qpn) {
    std::vector<Bucket> old(buckets_.size());
    old.swap(buckets_);
    for (const Bucket& bucket : old) {
      if (bucket.qp != nullptr && bucket.qpn != qpn) put(bucket);
    }
    --count_;
  }

  void hot_memory(HotMemory& memory) const { memory.push_back(bytes_of(buckets_)); }

 private:
  static constexpr std::size_t kFirstBuckets = 8;

  struct Bucket {
    std::uint32_t qpn = 0;
    Qp* qp = nullptr;  // nullptr: free
  };

  std::size_t bucket_of(std::uint32_t qpn) const {
    return (qpn * 0x9E3779B1U) >> (32 - std::countr_zero(buckets_.size()));
  }

  void put(const Bucket& entry) {
    std::size_t bucket = bucket_of(entry.qpn);
    while (buckets_[bucket].qp != nullptr) bucket = (bucket + 1) & (buckets_.size() - 1);
    buckets_[bucket] = entry;
  }

  void grow() {
    std::vector<Bucket> old(buckets_.empty() ? kFirstBuckets : 2 * buckets_.size());
    old.swap(buckets_);
    for (const Bucket& bucket : old) {
      if (bucket.qp != nullptr) put(bucket);
    }
  }

  std::vector<Bucket> buckets_;  // a power of two of them
  std::size_t count_ = 0;
};

}  // namespace openmrc
