// SPDX-License-Identifier: Apache-2.0
#include "apps/common/upload.hpp"

#include <cstring>

#include "core/allocator.hpp"
#include "core/backend.hpp"
#include "core/error.hpp"

namespace bora::apps {
namespace {

constexpr int64_t kAlignment = 256;  // of each tensor, as an allocator's
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Uploader::Uploader(Device device) : device_(device) {
  BORA_CHECK(device.type != DeviceType::cpu, "Uploader: wants a device, got ", device);
  copy_stream_ = backend(device.type).make_stream(device, /*urgent=*/false);
}

Uploader::~Uploader() {
  Backend& b = backend(device_.type);
  // Copies may be under way from and to what goes now.
  try {
    copy_stream_.synchronize();
  } catch (const std::exception&) {  // the device is lost: there is nothing to wait for
  }
  for (Pinned& p : pinned_)
    if (p.data != nullptr) b.free_pinned(p.data, p.bytes);
  arrived_ = staging_free_ = Event();
  b.destroy_stream(copy_stream_);
}

void Uploader::reserve(Pinned& pinned, int64_t bytes) const {
  if (pinned.bytes >= bytes) return;
  Backend& b = backend(device_.type);
  if (pinned.data != nullptr) b.free_pinned(pinned.data, pinned.bytes);
  pinned.data = nullptr;
  pinned.data = b.allocate_pinned(bytes);
  pinned.bytes = bytes;
}

void Uploader::reserve(int64_t bytes) {
  if (staging_.defined() && staging_.bytes() >= bytes) return;
  // Larger lists come at the start of a run, if at all: then both streams may be waited for.
  copy_stream_.synchronize();
  current_stream(device_).synchronize();
  const AllocationTag tag("batches");
  staging_ = Tensor::empty({bytes}, DType::u8, device_);
  fixed_ = Tensor::empty({bytes}, DType::u8, device_);
  staging_free_ = current_stream(device_).record();  // where new memory is filled (memory poison)
}

void Uploader::send(const std::vector<Tensor>& tensors) {
  BORA_CHECK(!sent_, "Uploader: send() while a list is under way; take() it first");
  parts_.clear();
  bytes_ = 0;
  for (const Tensor& t : tensors) {
    BORA_CHECK(t.defined() && t.device() == cpu(), "Uploader: wants tensors on the host, got ",
               t.defined() ? "one on a device" : "an undefined one");
    parts_.push_back({t.shape(), t.dtype(), bytes_});
    bytes_ += aligned(t.bytes());
  }
  sent_ = true;
  if (bytes_ == 0) return;
  reserve(bytes_);
  Pinned& pinned = pinned_[next_pinned_++ % pinned_.size()];
  if (!pinned.copied.done()) pinned.copied.synchronize();
  reserve(pinned, bytes_);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].bytes() > 0)
      std::memcpy(static_cast<char*>(pinned.data) + parts_[i].offset, tensors[i].raw(),
                  static_cast<size_t>(tensors[i].bytes()));
  copy_stream_.wait(staging_free_);
  backend(device_.type).copy(copy_stream_, staging_.raw(), device_, pinned.data, cpu(), bytes_);
  arrived_ = pinned.copied = copy_stream_.record();
}

std::vector<Tensor> Uploader::take() {
  BORA_CHECK(sent_, "Uploader: take() without send()");
  sent_ = false;
  if (bytes_ > 0) {
    const Stream compute = current_stream(device_);
    compute.wait(arrived_);
    backend(device_.type).copy(compute, fixed_.raw(), device_, staging_.raw(), device_, bytes_);
    staging_free_ = compute.record();
  }
  std::vector<Tensor> out;
  for (const Part& p : parts_) {
    const int64_t bytes = p.shape.numel() * size_of(p.type);
    // Views of another type than the memory's; they keep it alive.
    char* at = bytes > 0 ? static_cast<char*>(fixed_.raw()) + p.offset : nullptr;
    out.push_back(Tensor::wrap(at, p.shape, p.type, device_, [keep = fixed_] {}));
  }
  return out;
}

}  // namespace bora::apps
