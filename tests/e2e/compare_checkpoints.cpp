// SPDX-License-Identifier: Apache-2.0
// compare_checkpoints A B [NAME...]: exit code 0 if both hold the same state bit for bit, but for
// the settings' text and the entries named.
// compare_checkpoints --whole A...: exit code 0 if all are whole; prints the largest number of
// updates in them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "core/error.hpp"
#include "data/checkpoint.hpp"
#include "data/hdf5.hpp"

namespace {

using bora::data::hdf5::File;

/// "model.head.bias" -> checksum of its bytes, for every data set below /state.
std::map<std::string, uint64_t> checksums(const std::string& path,
                                          const std::set<std::string>& but) {
  const auto file = File::open(path);
  const auto state = file.open_group("/state");
  std::map<std::string, uint64_t> out;
  for (const std::string& name : state.dataset_names())
    if (!but.contains(name)) out[name] = state.open_dataset(name).attribute<uint64_t>("checksum");
  return out;
}

int compare(const std::string& a_path, const std::string& b_path,
            const std::set<std::string>& but) {
  const auto a = checksums(a_path, but), b = checksums(b_path, but);
  int differences = 0;
  for (const auto& [name, sum] : a) {
    const auto other = b.find(name);
    if (other != b.end() && other->second == sum) continue;
    std::fprintf(stderr, "%s %s\n", name.c_str(),
                 other == b.end() ? "is missing in the second" : "differs");
    ++differences;
  }
  if (a.size() != b.size()) ++differences;
  std::printf("%zu entries compared, %d differences\n", a.size(), differences);
  return a.size() > 20 && differences == 0
             ? 0
             : 1;  // fewer than 20 entries: that is no checkpoint of a network
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc >= 3 && std::string(argv[1]) == "--whole") {
      int64_t newest = 0;
      for (int i = 2; i < argc; ++i)
        newest = std::max(newest, bora::data::CheckpointReader(argv[i]).peek<int64_t>("updates"));
      std::printf("%lld\n", static_cast<long long>(newest));
      return 0;
    }
    if (argc < 3) throw bora::UsageError("usage: compare_checkpoints A.h5 B.h5 [NAME...]");
    std::set<std::string> but(argv + 3, argv + argc);
    but.insert("config");
    return compare(argv[1], argv[2], but);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
