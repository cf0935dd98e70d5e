// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <set>

#include "core/backend.hpp"
#include "core/pinned.hpp"
#include "data/checkpoint.hpp"
#include "data/checkpoint_format.hpp"
#include "data/checkpoint_image.hpp"

namespace bora::data {

using detail::CheckpointEntry;
using Element = CheckpointEntry::Element;

namespace {

/// Memory that is kept from one copy to the next.
class Buffer {
 public:
  std::byte* of(int64_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();  // the old one first: both at once might not fit
      capacity_ = 0;
      memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      capacity_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  int64_t capacity_ = 0;
};

}  // namespace

struct CheckpointWriter::Impl {
  /// One entry's copy: on the host, or on its way from a device.
  struct Copy {
    Buffer own;
    Tensor pinned;
    Event arrived;
  };
  detail::NamePrefix prefix;
  std::set<std::string> names;
  std::vector<CheckpointEntry> entries;
  std::vector<Copy> copies;  // by entry; more than entries after clear()
  std::optional<detail::CheckpointImage> image;
  int64_t bytes = 0;
  std::atomic<int64_t> progress{0};

  /// The next entry, without its bytes.
  CheckpointEntry& add(std::string_view name, const char* kind, Element element) {
    BORA_CHECK(!image, "checkpoint: '", name, "' comes after commit(); clear() goes before");
    const std::string full = prefix.full(name);
    // HDF5 reads '/' as a step into a group, and "." as the group itself.
    BORA_CHECK(!name.empty() && full.find('/') == std::string::npos &&
                   full.find('\0') == std::string::npos && full != ".",
               "checkpoint: '", full, "' cannot be the name of an entry");
    BORA_CHECK(names.insert(full).second, "checkpoint: two entries are called '", full, "'");
    CheckpointEntry& entry = entries.emplace_back();
    entry.name = full;
    entry.kind = kind;
    entry.element = element;
    if (copies.size() < entries.size()) copies.emplace_back();
    return entry;
  }
  /// Copies the bytes of the entry that was added last.
  void copy(const void* data, int64_t n) {
    std::byte* to = copies[entries.size() - 1].own.of(n);
    if (n > 0) std::memcpy(to, data, static_cast<size_t>(n));
    entries.back().data = to;
    entries.back().bytes = n;
    bytes += n;
  }

  template <class T>
  void add_value(std::string_view name, Element element, const T& value) {
    add(name, detail::kind_of<T>, element);
    copy(&value, sizeof value);
  }
  template <class T>
  void add_list(std::string_view name, Element element, const std::vector<T>& values) {
    add(name, detail::kind_of<std::vector<T>>, element).extents = {
        static_cast<int64_t>(values.size())};
    copy(values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
  }
  /// Text in elements of equal width, padded with zeros; which text must therefore not contain.
  void add_text(std::string_view name, const char* kind, const std::string* values, size_t n,
                std::vector<int64_t> extents) {
    size_t width = 1;
    for (size_t i = 0; i < n; ++i) {
      BORA_CHECK(values[i].find('\0') == std::string::npos, "checkpoint: the text '",
                 prefix.full(name), "' contains a zero byte");
      width = std::max(width, values[i].size());
    }
    std::string padded;
    for (size_t i = 0; i < n; ++i) padded.append(values[i]).resize((i + 1) * width);
    CheckpointEntry& entry = add(name, kind, Element::text);
    entry.extents = std::move(extents);
    entry.width = static_cast<int64_t>(width);
    copy(padded.data(), static_cast<int64_t>(padded.size()));
  }
  /// All of one stream's copies are done when the last one is: waits once.
  void await_copies() {
    for (size_t i = entries.size(); i-- > 0;)
      if (copies[i].pinned.defined() && !copies[i].arrived.done()) copies[i].arrived.synchronize();
  }
};

CheckpointWriter::CheckpointWriter() : impl_(std::make_unique<Impl>()) {}
CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::clear() {
  impl_->image.reset();
  impl_->names.clear();
  impl_->entries.clear();
  impl_->prefix = {};
  impl_->bytes = 0;
  // The pinned pool keeps the memory, and knows which copies are still under way.
  for (Impl::Copy& copy : impl_->copies) copy.pinned = Tensor();
}

int64_t CheckpointWriter::bytes() const { return impl_->bytes; }
int64_t CheckpointWriter::progress() const { return impl_->progress; }

void CheckpointWriter::commit(const std::string& path, const std::string& keep_as) {
  with_context("saving checkpoint '" + path + "'", [&] {
    if (!impl_->image) {
      impl_->await_copies();
      impl_->image.emplace(impl_->entries);
    }
    AtomicFile file(path);
    impl_->image->write(file, impl_->progress);
    file.commit(keep_as);
    ++impl_->progress;
  });
}

void CheckpointWriter::tensor(std::string_view name, Tensor& value, std::string_view axes) {
  BORA_CHECK(value.defined(), "checkpoint: tensor '", impl_->prefix.full(name), "' is undefined");
  CheckpointEntry& entry = impl_->add(name, detail::kTensorKind, Element::tensor);
  entry.axes = axes;
  entry.type = value.dtype();
  for (int i = 0; i < value.rank(); ++i) entry.extents.push_back(value.size(i));
  if (value.device() == cpu()) return impl_->copy(value.raw(), value.bytes());
  Impl::Copy& copy = impl_->copies[impl_->entries.size() - 1];
  copy.pinned = pinned_pool(value.device()).tensor(value.shape(), value.dtype());
  const Stream stream = value.stream();
  if (value.numel() > 0)
    backend(value.device().type)
        .copy(stream, copy.pinned.raw(), cpu(), value.raw(), value.device(), value.bytes());
  copy.arrived = stream.record();
  // A writer that goes without commit() gives the memory back with the copy under way.
  pinned_pool(value.device()).guard(copy.pinned, copy.arrived);
  entry.data = copy.pinned.raw();
  entry.bytes = value.bytes();
  impl_->bytes += value.bytes();
}

void CheckpointWriter::value(std::string_view name, int64_t& value) {
  impl_->add_value(name, Element::i64, value);
}
void CheckpointWriter::value(std::string_view name, uint64_t& value) {
  impl_->add_value(name, Element::u64, value);
}
void CheckpointWriter::value(std::string_view name, double& value) {
  impl_->add_value(name, Element::f64, value);
}
void CheckpointWriter::value(std::string_view name, bool& value) {
  static_assert(sizeof(bool) == 1);
  impl_->add_value(name, Element::boolean, value);
}
void CheckpointWriter::value(std::string_view name, std::string& value) {
  impl_->add_text(name, detail::kind_of<std::string>, &value, 1, {});
}
void CheckpointWriter::value(std::string_view name, std::vector<double>& value) {
  impl_->add_list(name, Element::f64, value);
}
void CheckpointWriter::value(std::string_view name, std::vector<int64_t>& value) {
  impl_->add_list(name, Element::i64, value);
}
void CheckpointWriter::value(std::string_view name, std::vector<std::string>& value) {
  impl_->add_text(name, detail::kind_of<std::vector<std::string>>, value.data(), value.size(),
                  {static_cast<int64_t>(value.size())});
}
void CheckpointWriter::enter(std::string_view group) { impl_->prefix.enter(group); }
void CheckpointWriter::leave() { impl_->prefix.leave(); }

}  // namespace bora::data
