// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/descriptor.hpp"

#include <array>

namespace bora::kernels::cudnn {

std::string CudnnStatus::text(Code code) {
  std::array<char, 1024> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  std::string text = detail::join(cudnnGetErrorString(code), " (", static_cast<int>(code), ')');
  if (reason[0] != '\0') text += std::string(": ") + reason.data();
  return text;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  BORA_CUDNN(cudnnBackendCreateDescriptor(type, &made));
  handle_ = Handle<cudnnBackendDescriptor_t, &Descriptor::destroy>(made);
}

void Descriptor::destroy(cudnnBackendDescriptor_t descriptor) noexcept {
  check_warn<CudnnStatus>(cudnnBackendDestroyDescriptor(descriptor),
                          "cudnnBackendDestroyDescriptor");
}

Descriptor& Descriptor::set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                int64_t n, const void* values) {
  const cudnnStatus_t status = cudnnBackendSetAttribute(raw(), name, type, n, values);
  if (!CudnnStatus::ok(status))
    BORA_FAIL("cuDNN: setting attribute ", static_cast<int>(name),
              " failed: ", CudnnStatus::text(status));
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
  const cudnnBackendDescriptor_t value = other.raw();
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

Descriptor& Descriptor::set_all(cudnnBackendAttributeName_t name,
                                const std::vector<const Descriptor*>& v) {
  std::vector<cudnnBackendDescriptor_t> values;
  for (const Descriptor* d : v) values.push_back(d->raw());
  return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()),
                 values.data());
}

void Descriptor::finalize() { BORA_CUDNN(cudnnBackendFinalize(raw())); }

std::string Descriptor::try_finalize() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw());
  return CudnnStatus::ok(status) ? std::string() : CudnnStatus::text(status);
}

int64_t Descriptor::get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t capacity, void* values) const {
  int64_t n = 0;
  const cudnnStatus_t status = cudnnBackendGetAttribute(raw(), name, type, capacity, &n, values);
  if (!CudnnStatus::ok(status))
    BORA_FAIL("cuDNN: reading attribute ", static_cast<int>(name),
              " failed: ", CudnnStatus::text(status));
  return n;
}

int64_t Descriptor::count(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type) const {
  return get_raw(name, type, 0, nullptr);
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type,
                                                    int64_t capacity) const {
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> raws;
  for (int64_t n = capacity < 0 ? count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR) : capacity; n > 0;
       --n) {
    found.emplace_back(type);
    raws.push_back(found.back().raw());
  }
  if (found.empty()) return found;
  // cuDNN fills those that are handed in, perhaps fewer than it counted.
  const int64_t n =
      get_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raws.size()), raws.data());
  found.resize(static_cast<size_t>(n));
  return found;
}

}  // namespace bora::kernels::cudnn
