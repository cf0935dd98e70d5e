// SPDX-License-Identifier: Apache-2.0
// Ranks that MPI starts and ends.
#include "comm/mpi_transport.hpp"
#include "comm/runtime.hpp"
#include "comm/watchdog.hpp"

#include <cstdio>
#include <cstdlib>

namespace bora {
namespace {

ThreadLevel level_of(int provided) {
  if (provided >= MPI_THREAD_MULTIPLE) return ThreadLevel::multiple;
  if (provided >= MPI_THREAD_SERIALIZED) return ThreadLevel::serialized;
  if (provided >= MPI_THREAD_FUNNELED) return ThreadLevel::funneled;
  return ThreadLevel::single;
}

class MpiRuntime final : public Runtime {
 public:
  MpiRuntime(ThreadLevel level, std::string host)
      : level_(level),
        host_(std::move(host)),
        world_(std::make_shared<MpiTransport>(MPI_COMM_WORLD, MpiTransport::Ownership::borrowed)) {}
  const std::shared_ptr<Transport>& world() const override { return world_; }
  const std::string& host() const override { return host_; }
  ThreadLevel thread_level() const override { return level_; }
  void finish() override { BORA_MPI_WARN(MPI_Finalize()); }
  void abort(int code) const override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);  // MPI_Abort may return on a broken installation
  }

 private:
  ThreadLevel level_;
  std::string host_;
  std::shared_ptr<Transport> world_;
};

}  // namespace

std::string MpiStatus::text(Code code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS || length == 0)
    return detail::join("code ", code);
  return std::string(text, static_cast<size_t>(length));
}

std::unique_ptr<Runtime> start_mpi(int* argc, char*** argv) {
  int initialized = 0;
  BORA_MPI(MPI_Initialized(&initialized));
  BORA_CHECK(!initialized, "Session: MPI is running already; a process has one session");
  int provided = 0;
  {
    // Without ranks that never start it would not return.
    const WatchedStart start("MPI_Init");
    BORA_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  }
  BORA_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  int size = 1;
  BORA_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  const auto lookup = [](const char* name) { return std::getenv(name); };
  if (const std::string fault = detail::launcher_fault(size, lookup); !fault.empty()) {
    MPI_Finalize();  // a world of one: nobody to wait for
    throw UsageError(fault);
  }
  const ThreadLevel level = level_of(provided);
  if (level == ThreadLevel::single) {
    MPI_Finalize();
    BORA_FAIL(
        "Session: MPI gives thread level single, wanted funneled at least; use an MPI library "
        "built with thread support");
  }
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  BORA_MPI(MPI_Get_processor_name(name, &length));
  return std::make_unique<MpiRuntime>(level, std::string(name, static_cast<size_t>(length)));
}

bool mpi_speaks_pmi() {
#ifdef OPEN_MPI
  return false;
#else
  return true;
#endif
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  BORA_MPI(MPI_Get_library_version(text, &length));
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of("\n,"));
}

}  // namespace bora
