// SPDX-License-Identifier: Apache-2.0
// replay_<format> CORPUS [--runs N] [--from I] [--seed S] [--save FOLDER] [--mib M] [--seconds T]
// Runs a fuzzer's LLVMFuzzerTestOneInput over the files of a folder, then over N mutations of them,
// numbers I, I + 1, ...; each is a function of the seed, its number and the corpus.  A child
// process does the work: after a crash, a hang (T seconds, 10 unless given) or a memory above M MiB
// (1024) another goes on behind it.  Such inputs are named, and kept in FOLDER; the exit code is
// then 1.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int kMostFaults = 200;  // of one run: then something is wrong with all of them

struct Options {
  std::string corpus, save;
  int64_t runs = 0, from = 0, mib = 1024, seconds = 10;
  uint64_t seed = 1;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0 && o.corpus.empty()) {
      o.corpus = name;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    if (value != nullptr && name == "--runs")
      o.runs = std::atoll(value);
    else if (value != nullptr && name == "--from")
      o.from = std::atoll(value);
    else if (value != nullptr && name == "--seed")
      o.seed = std::strtoull(value, nullptr, 10);
    else if (value != nullptr && name == "--mib")
      o.mib = std::atoll(value);
    else if (value != nullptr && name == "--seconds")
      o.seconds = std::atoll(value);
    else if (value != nullptr && name == "--save")
      o.save = value;
    else
      o.corpus.clear(), i = argc;
  }
  if (o.corpus.empty()) {
    std::fprintf(stderr,
                 "use: %s CORPUS [--runs N] [--from I] [--seed S] [--save FOLDER] [--mib M] "
                 "[--seconds T]\n",
                 argv[0]);
    std::exit(2);
  }
  return o;
}

std::vector<std::string> read_folder(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return out;
}

/// Input i: a file of the corpus, or behind them a mutation.
std::string input(const std::vector<std::string>& corpus, const Options& o, int64_t i) {
  const int64_t n = static_cast<int64_t>(corpus.size());
  if (i < n) return corpus[static_cast<size_t>(i)];
  const bora::RngKey key{o.seed, static_cast<uint64_t>(o.from + i - n)};
  const auto& base = corpus[key.below(corpus.size(), 1u << 20)];
  const auto& other = corpus[key.below(corpus.size(), (1u << 20) + 1)];
  return bora::fuzz::mutate(base, other, key, kMaxBytes);
}

/// What the child tells its parent, in memory that both see.
struct Shared {
  std::atomic<int64_t> at;
};

[[noreturn]] void work(const std::vector<std::string>& corpus, const Options& o, int64_t begin,
                       int64_t end, Shared& shared) {
#if !defined(__SANITIZE_ADDRESS__)
  // Address space, not resident memory: an allocation that nobody touches counts too.
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes =
      pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (static_cast<rlim_t>(o.mib) << 20);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (int64_t i = begin; i < end; ++i) {
    shared.at.store(i);
    const std::string text = input(corpus, o, i);
    ::alarm(static_cast<unsigned>(o.seconds));
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    ::alarm(0);
  }
  shared.at.store(end);
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  const std::vector<std::string> corpus = read_folder(o.corpus);
  if (corpus.empty()) {
    std::fprintf(stderr, "replay: no files in '%s'\n", o.corpus.c_str());
    return 2;
  }
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto& shared = *new (memory) Shared{};
  const int64_t end = static_cast<int64_t>(corpus.size()) + o.runs;
  int faults = 0;
  for (int64_t begin = 0; begin < end && faults < kMostFaults;) {
    shared.at.store(begin);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) work(corpus, o, begin, end, shared);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return 2;
    const int64_t at = shared.at.load();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && at == end) break;
    ++faults;
    const std::string what =
        WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status))
                            : "exit code " + std::to_string(WEXITSTATUS(status));
    const int64_t n = static_cast<int64_t>(corpus.size());
    const std::string name = at < n ? "file " + std::to_string(at) + " of the corpus"
                                    : "mutation " + std::to_string(o.from + at - n);
    std::printf("replay: %s: %s (--seed %llu --from %lld --runs 1)\n", name.c_str(), what.c_str(),
                static_cast<unsigned long long>(o.seed),
                static_cast<long long>(std::max<int64_t>(o.from + at - n, 0)));
    if (!o.save.empty()) {
      fs::create_directories(o.save);
      std::ofstream out(fs::path(o.save) / ("fault-" + std::to_string(o.seed) + "-" +
                                            std::to_string(o.from + at - n)),
                        std::ios::binary);
      out << input(corpus, o, at);
    }
    // What the dead child left.
    for (const auto& entry : fs::directory_iterator(fs::exists("/dev/shm") ? "/dev/shm" : "/tmp"))
      if (entry.path().filename().string().rfind("bora_fuzz_" + std::to_string(child), 0) == 0) {
        std::error_code ignored;
        fs::remove(entry.path(), ignored);
      }
    begin = at + 1;
  }
  std::printf("replay: %zu files and %lld mutations, %d faults\n", corpus.size(),
              static_cast<long long>(o.runs), faults);
  return faults == 0 ? 0 : 1;
}
