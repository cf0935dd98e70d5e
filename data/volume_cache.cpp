// SPDX-License-Identifier: Apache-2.0
#include "data/volume_cache.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/hdf5.hpp"

namespace bora::data {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GiB", bytes / kGiB);
  return text;
}

Shape shape_of(const CachedField& f, const Dims3& count) {
  const Shape box{count.d, count.h, count.w};
  return f.channels > 0 ? box.append(f.channels) : box;
}

CacheKey key_of(const CachedField& f) {
  std::error_code ignored;
  const std::string path = std::filesystem::absolute(f.path, ignored).lexically_normal().string();
  CacheKey key{bora::detail::join(path, " | ", f.variable, " | from ", f.begin, ", ", f.count,
                                  " x ", f.channels, " | ", f.type, " | ", f.reading),
               bora::detail::join(f.stamp.bytes, " bytes, written at ", f.stamp.mtime_ns, " ns")};
  std::replace(key.field.begin(), key.field.end(), '\n', ' ');
  return key;
}

bool is_inside(const CachedField& f, const Dims3& begin, const Dims3& count) {
  const auto inside = [](int64_t first, int64_t n, int64_t from, int64_t all) {
    return first >= from && n >= 0 && first - from <= all - n;
  };
  return inside(begin.d, count.d, f.begin.d, f.count.d) &&
         inside(begin.h, count.h, f.begin.h, f.count.h) &&
         inside(begin.w, count.w, f.begin.w, f.count.w);
}

CacheBox box_of(const CachedField& f, const Dims3& begin, const Dims3& count) {
  return {.of = f.count,
          .begin = {begin.d - f.begin.d, begin.h - f.begin.h, begin.w - f.begin.w},
          .count = count,
          .cell_bytes = std::max<int64_t>(f.channels, 1) * static_cast<int64_t>(size_of(f.type))};
}

}  // namespace

void copy_box(const void* whole, const CacheBox& box, void* to) {
  const int64_t row = box.count.w * box.cell_bytes;
  if (row == 0) return;
  const auto* from = static_cast<const char*>(whole);
  auto* out = static_cast<char*>(to);
  for (int64_t x = 0; x < box.count.d; ++x)
    for (int64_t y = 0; y < box.count.h; ++y, out += row) {
      const int64_t line = (box.begin.d + x) * box.of.h + box.begin.h + y;
      std::memcpy(out, from + (line * box.of.w + box.begin.w) * box.cell_bytes,
                  static_cast<size_t>(row));
    }
}

int64_t CachedField::bytes() const {
  return count.count() * std::max<int64_t>(channels, 1) * static_cast<int64_t>(size_of(type));
}

std::unique_ptr<VolumeCache> VolumeCache::make(const CacheConfig& config,
                                               std::vector<CachedField> fields, Collective* ranks) {
  hdf5::set_chunk_cache(config.chunks_mib << 20);
  if (config.kind == "none") return nullptr;
  if (!(config.limit_gib > 0))
    throw UsageError(
        bora::detail::join(config.key, ".limit_gib is ", config.limit_gib, ": wanted > 0"));
  std::vector<int64_t> bytes;
  std::vector<CacheKey> keys;
  for (const CachedField& f : fields) {
    bytes.push_back(f.bytes());
    keys.push_back(key_of(f));
  }
  const auto limit = static_cast<int64_t>(std::min(config.limit_gib * kGiB, 0x1p62));
  std::unique_ptr<CacheStore> store;
  if (config.kind == "ram")
    store = make_ram_store(std::move(bytes), limit);
  else if (config.kind == "shared")
    store = make_shared_store(std::move(bytes), limit, config.key, ranks);
  else if (config.kind == "disk")
    store = make_disk_store(std::move(bytes), limit, std::move(keys), config, ranks);
  else
    throw UsageError(config.key + ".kind '" + config.kind + "': wanted none, ram, shared or disk");
  return std::make_unique<VolumeCache>(config, std::move(fields), std::move(store));
}

VolumeCache::VolumeCache(CacheConfig config, std::vector<CachedField> fields,
                         std::unique_ptr<CacheStore> store)
    : config_(std::move(config)), fields_(std::move(fields)), store_(std::move(store)) {
  BORA_CHECK(store_, "VolumeCache: wants a store");
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const auto [at, is_new] = first.emplace(key_of(fields_[i]).field, i);
    place_.push_back(at->second);
    if (is_new) wanted_bytes_ += store_->room_for(fields_[i].bytes());
  }
}

Tensor VolumeCache::read(size_t field, const Dims3& begin, const Dims3& count,
                         const ReadBox& from_file) {
  BORA_CHECK(field < fields_.size(), "VolumeCache: field ", field, " of ", fields_.size());
  const CachedField& f = fields_[field];
  require_unchanged(f.path, f.stamp);
  if (is_inside(f, begin, count)) {
    {
      Tensor box = Tensor::empty(shape_of(f, count), f.type);
      if (store_->read(place_[field], box_of(f, begin, count), box.raw())) {
        ++n_from_cache_;
        return box;
      }
    }  // no longer there while the file is read
    if (store_->claim(place_[field])) return read_whole_and_cut(field, begin, count, from_file);
  }
  ++n_from_file_;
  return from_file(begin, count);
}

Tensor VolumeCache::read_whole_and_cut(size_t field, const Dims3& begin, const Dims3& count,
                                       const ReadBox& from_file) {
  const CachedField& f = fields_[field];
  try {
    const Tensor whole = from_file(f.begin, f.count);
    BORA_CHECK(whole.dtype() == f.type && whole.shape() == shape_of(f, f.count), "'", f.path,
               "' gives ", whole.shape(), " ", whole.dtype(), ", its look at the start said ",
               shape_of(f, f.count), " ", f.type);
    require_unchanged(f.path, f.stamp);  // not while it was read, either
    // Before it is kept: if there is no memory for the box, the field is dropped, which may wipe
    // what others would read by then.
    Tensor box = Tensor::empty(shape_of(f, count), f.type);
    copy_box(whole.raw(), box_of(f, begin, count), box.raw());
    store_->put(place_[field], whole);
    ++n_kept_;
    return box;
  } catch (const std::exception& e) {
    store_->drop(place_[field]);
    // What is wrong elsewhere in the file, or with the store, is no reason to do without these
    // cells: they are read as without a cache, and told as without one if they are bad.
    if (!failure_told_.exchange(true))
      log_warn("cache: '", f.path, "' is not kept but read each time: ", e.what(),
               " (what else is not kept is not told)");
  }
  require_unchanged(f.path, f.stamp);
  ++n_from_file_;
  return from_file(begin, count);
}

VolumeCache::Counts VolumeCache::counts() const {
  return {.from_cache = n_from_cache_,
          .from_file = n_from_file_,
          .kept = n_kept_,
          .bytes = store_->bytes()};
}

VolumeCache::Memory VolumeCache::memory() const {
  const auto limit = static_cast<int64_t>(std::min(config_.limit_gib * kGiB, 0x1p62));
  const int64_t full = std::min(wanted_bytes_, limit);
  return {.of_rank = config_.kind == "ram" ? full : 0,
          .of_host = config_.kind == "shared" ? full : 0};
}

std::string VolumeCache::describe() const {
  const double limit = config_.limit_gib * kGiB, wanted = static_cast<double>(wanted_bytes_);
  std::string text = bora::detail::join(
      config_.kind, config_.only_looks && config_.kind == "disk" ? ", only looked at, " : " ",
      store_->where(), ", at most ", gib(limit), "; the data take ", gib(wanted));
  if (wanted <= limit) return text + ", all of them fit";
  char share[64];
  std::snprintf(share, sizeof share, ": %.0f %% of the reads come from it", 100 * limit / wanted);
  return text + share + ", the others from their files";
}

}  // namespace bora::data
