// SPDX-License-Identifier: Apache-2.0
// What bench_data reads: files of real values in several layouts, and patches of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.hpp"
#include "core/tensor.hpp"
#include "data/hdf5.hpp"

namespace bora::bench {

/// A field of `size` cells made of the wind fields of a folder's samples, side by side; `first`:
/// the case to begin with.  Real values compress as real values do.  f32.
Tensor field_of_samples(const std::string& root, const Dims3& size, int first);

/// Writes `field` as data set "raw".
void write_field(const std::string& path, const Tensor& field, const data::hdf5::Storage& storage);

struct Patch {
  int file = 0;
  Dims3 begin, count;
};
/// At random places of random files, a pure function of the seed.
std::vector<Patch> random_patches(int n, int n_files, const Dims3& size, const Dims3& patch,
                                  uint64_t seed);
void write_table(const std::string& path, const std::vector<Patch>& patches);

struct Reading {
  double seconds = 0;
  double sum = 0;  ///< of every 4096th value of each patch, to compare with the peer's
};
/// Reads the patches on threads, each of which takes the next one as a loader's do; the file is
/// opened, read and closed for each, as VolumeDataset does it.
Reading read_patches(const std::vector<std::string>& files, const std::vector<Patch>& patches,
                     int n_threads);

/// Seconds that the threads together take to copy `bytes` between arrays of 64 MiB each.
double copy_time_s(int n_threads, int64_t bytes);
/// Seconds to read a file once, by the system's calls alone, each thread its part, into memory that
/// was used before.
double plain_read_time_s(const std::string& path, int n_threads);

}  // namespace bora::bench
