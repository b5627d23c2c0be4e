#include "nccl/log.hpp"

#include <atomic>

namespace openmrc::nccl {
namespace {

std::atomic<ncclDebugLogger_t> logger{nullptr};

void log(ncclDebugLogLevel level, const std::string& text) {
  const ncclDebugLogger_t write = logger.load();
  if (write != nullptr) write(level, NCCL_NET, "openmrc", 0, "NET/openmrc: %s", text.c_str());
}

}  // namespace

void set_logger(ncclDebugLogger_t given) { logger = given; }
void warn(const std::string& text) { log(NCCL_LOG_WARN, text); }
void info(const std::string& text) { log(NCCL_LOG_INFO, text); }

}  // namespace openmrc::nccl
