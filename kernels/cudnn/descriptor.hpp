// SPDX-License-Identifier: Apache-2.0
// Owner of one descriptor of cuDNN's C graph API, with typed attributes, and cuDNN's status codes
// as errors.
#pragma once

#include <cudnn.h>

#include <string>
#include <vector>

#include "core/handle.hpp"
#include "core/status.hpp"

namespace bora::kernels::cudnn {

struct CudnnStatus {
  using Code = cudnnStatus_t;
  static constexpr const char* name = "cuDNN";
  static bool ok(Code code) { return code == CUDNN_STATUS_SUCCESS; }
  /// The code's name, and what the library says about the last failure on this thread.
  static std::string text(Code code);
};

/// BORA_CUDNN(cudnnCreate(&h)) throws Error naming the call and cuDNN's reason if it fails.
#define BORA_CUDNN(call) ::bora::check<::bora::kernels::cudnn::CudnnStatus>((call), #call)

/// The attribute type that goes with a C++ type.
template <class T>
struct AttributeType;
template <cudnnBackendAttributeType_t Type>
struct AttributeTypeIs {
  static constexpr cudnnBackendAttributeType_t value = Type;
};
template <>
struct AttributeType<int64_t> : AttributeTypeIs<CUDNN_TYPE_INT64> {};
template <>
struct AttributeType<int32_t> : AttributeTypeIs<CUDNN_TYPE_INT32> {};
template <>
struct AttributeType<bool> : AttributeTypeIs<CUDNN_TYPE_BOOLEAN> {};
template <>
struct AttributeType<float> : AttributeTypeIs<CUDNN_TYPE_FLOAT> {};
template <>
struct AttributeType<char> : AttributeTypeIs<CUDNN_TYPE_CHAR> {};
template <>
struct AttributeType<void*> : AttributeTypeIs<CUDNN_TYPE_VOID_PTR> {};
template <>
struct AttributeType<cudnnDataType_t> : AttributeTypeIs<CUDNN_TYPE_DATA_TYPE> {};
template <>
struct AttributeType<cudnnConvolutionMode_t> : AttributeTypeIs<CUDNN_TYPE_CONVOLUTION_MODE> {};
template <>
struct AttributeType<cudnnBackendHeurMode_t> : AttributeTypeIs<CUDNN_TYPE_HEUR_MODE> {};
template <>
struct AttributeType<cudnnPointwiseMode_t> : AttributeTypeIs<CUDNN_TYPE_POINTWISE_MODE> {};
template <>
struct AttributeType<cudnnBackendKnobType_t> : AttributeTypeIs<CUDNN_TYPE_KNOB_TYPE> {};
template <>
struct AttributeType<cudnnBackendNumericalNote_t> : AttributeTypeIs<CUDNN_TYPE_NUMERICAL_NOTE> {};
template <>
struct AttributeType<cudnnBackendBehaviorNote_t> : AttributeTypeIs<CUDNN_TYPE_BEHAVIOR_NOTE> {};

/// Made, given attributes, finalised, then read or named by other descriptors, which must not
/// outlive it.  Move-only.  All calls throw Error with cuDNN's reason if it refuses.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set_raw(name, AttributeType<T>::value, 1, &value);
  }
  template <class T>
  Descriptor& set_all(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return set_raw(name, AttributeType<T>::value, static_cast<int64_t>(values.size()),
                   values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other);
  Descriptor& set_all(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& v);
  void finalize();
  /// Empty, or why cuDNN refuses: for engines, which may not support a problem.
  std::string try_finalize();

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    get_raw(name, AttributeType<T>::value, 1, &value);
    return value;
  }
  /// As many values as there are.
  template <class T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name) const {
    std::vector<T> values(static_cast<size_t>(count(name, AttributeType<T>::value)));
    if (values.empty()) return values;
    const int64_t n =
        get_raw(name, AttributeType<T>::value, static_cast<int64_t>(values.size()), values.data());
    values.resize(static_cast<size_t>(n));
    return values;
  }
  /// The descriptors behind an attribute, as new ones of `type`.  At most `capacity`; negative: as
  /// many as cuDNN counts, which it does not do for all attributes.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type,
                                          int64_t capacity = -1) const;

  cudnnBackendDescriptor_t raw() const { return handle_.get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

 private:
  static void destroy(cudnnBackendDescriptor_t descriptor) noexcept;
  Descriptor& set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                      const void* values);
  int64_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t capacity, void* values) const;
  int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;

  Handle<cudnnBackendDescriptor_t, &Descriptor::destroy> handle_;
};

}  // namespace bora::kernels::cudnn
