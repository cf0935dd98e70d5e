// SPDX-License-Identifier: Apache-2.0
// The peer of bench_data: a Python process that reads the same patches with h5py.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace bora::bench {

class H5pyPeer {
 public:
  /// Starts `python script processes`; throws Error if it does not answer (no h5py there).
  H5pyPeer(const std::string& python, const std::string& script, int processes);
  ~H5pyPeer();
  H5pyPeer(const H5pyPeer&) = delete;
  H5pyPeer& operator=(const H5pyPeer&) = delete;

  /// "h5py 3.9.0 HDF5 1.14.2".
  const std::string& version() const { return version_; }
  void open(const std::vector<std::string>& paths);
  struct Answer {
    double seconds = 0, sum = 0;
  };
  /// Reads the patches that a table file lists (data_h5py.py says how).
  Answer read(const std::string& table);

 private:
  std::string ask(const std::string& line);
  int process_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
  std::string version_;
};

}  // namespace bora::bench
