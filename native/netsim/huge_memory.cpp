#include "netsim/huge_memory.hpp"

#include <cstdlib>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace openmrc::netsim {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kSharedMax = kHugePage / 4;  // larger pieces have pages of their own

// Header of a huge page that several pieces share. A piece with pages of its own has the same header, so that the page
// of any piece identifies the way to free it.
struct alignas(kLine) Page {
  std::size_t used = sizeof(Page);
  std::size_t pieces = 0;
};

std::mutex shared_mutex;
Page* shared_page = nullptr;  // source of new pieces

Page* take_pages(std::size_t bytes) {
  const std::size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
  // Optional: without huge pages everything works, slightly slower.
  static_cast<void>(madvise(memory, whole, MADV_HUGEPAGE));
#endif
  return new (memory) Page;
}

void* cut(Page& page, std::size_t bytes) {
  void* piece = reinterpret_cast<char*>(&page) + page.used;
  page.used += (bytes + kLine - 1) / kLine * kLine;
  ++page.pieces;
  return piece;
}

}  // namespace

void* take_memory(std::size_t bytes) {
  if (bytes > kSharedMax) return cut(*take_pages(sizeof(Page) + bytes), bytes);
  const std::lock_guard lock(shared_mutex);
  if (shared_page == nullptr || shared_page->used + bytes + kLine > kHugePage) {
    if (shared_page != nullptr && shared_page->pieces == 0) std::free(shared_page);
    shared_page = nullptr;
    shared_page = take_pages(kHugePage);
  }
  return cut(*shared_page, bytes);
}

void give_memory(void* memory) noexcept {
  auto* page = reinterpret_cast<Page*>(reinterpret_cast<std::uintptr_t>(memory) / kHugePage * kHugePage);
  const std::lock_guard lock(shared_mutex);
  if (--page->pieces == 0 && page != shared_page) std::free(page);
}

}  // namespace openmrc::netsim
