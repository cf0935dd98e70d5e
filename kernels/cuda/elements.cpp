// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elements.hpp"

#include "kernels/for_each.hpp"
#include "kernels/map.hpp"

namespace bora::kernels::cuda {
namespace {

template <class T>
struct Fill {
  T* dst;
  T value;
  BORA_HD void operator()(int64_t i) const { dst[i] = value; }
};

struct Same {
  template <class A>
  BORA_HD A operator()(A x) const {
    return x;
  }
};

struct Sum {
  template <class A, class B>
  BORA_HD A operator()(A sum, B x) const {
    return sum + static_cast<A>(x);
  }
};

/// Any type to any other, one element a thread: for the pairs that no step needs.  One kernel with
/// a switch instead of one for each pair.
struct CastAny {
  void* dst;
  const void* src;
  DType dst_type, src_type;

  template <class V>
  BORA_HD void store(int64_t i, V x) const {
    switch (dst_type) {
      case DType::f16:
        static_cast<Half*>(dst)[i] = static_cast<Half>(static_cast<float>(x));
        break;
      case DType::bf16:
        static_cast<BFloat16*>(dst)[i] = static_cast<BFloat16>(static_cast<float>(x));
        break;
      case DType::f32:
        static_cast<float*>(dst)[i] = static_cast<float>(x);
        break;
      case DType::f64:
        static_cast<double*>(dst)[i] = static_cast<double>(x);
        break;
      case DType::u8:
        static_cast<uint8_t*>(dst)[i] = static_cast<uint8_t>(x);
        break;
      case DType::i32:
        static_cast<int32_t*>(dst)[i] = static_cast<int32_t>(x);
        break;
      case DType::i64:
        static_cast<int64_t*>(dst)[i] = static_cast<int64_t>(x);
        break;
    }
  }
  BORA_HD void operator()(int64_t i) const {
    switch (src_type) {
      case DType::f16:
        return store(i, load(static_cast<const Half*>(src)[i]));
      case DType::bf16:
        return store(i, load(static_cast<const BFloat16*>(src)[i]));
      case DType::f32:
        return store(i, static_cast<const float*>(src)[i]);
      case DType::f64:
        return store(i, static_cast<const double*>(src)[i]);
      case DType::u8:
        return store(i, static_cast<const uint8_t*>(src)[i]);
      case DType::i32:
        return store(i, static_cast<const int32_t*>(src)[i]);
      case DType::i64:
        return store(i, static_cast<const int64_t*>(src)[i]);
    }
  }
};

bool is_step_type(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

/// Calls f.template operator()<T>() for the three types of steps.
template <class F>
void dispatch_step(DType type, const char* what, F&& f) {
  switch (type) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    default:
      throw_host_only(what);
  }
}

}  // namespace

void fill_elements(Stream stream, void* dst, DType type, double value, int64_t n) {
  dispatch_any(type, [&]<class T>() {
    for_each(stream, n,
             Fill<T>{static_cast<T*>(dst), static_cast<T>(static_cast<acc_t<T>>(value))});
  });
}

void cast_elements(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                   int64_t n) {
  if (!is_step_type(dst_type) || !is_step_type(src_type))
    return for_each(stream, n, CastAny{dst, src, dst_type, src_type});
  dispatch_step(dst_type, "cast", [&]<class To>() {
    dispatch_step(src_type, "cast", [&]<class From>() {
      map_n(stream, n, Same{}, static_cast<To*>(dst), static_cast<const From*>(src));
    });
  });
}

void accumulate_elements(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                         int64_t n) {
  dispatch_step(dst_type, "accumulate", [&]<class To>() {
    dispatch_step(src_type, "accumulate", [&]<class From>() {
      To* const sum = static_cast<To*>(dst);
      map_n(stream, n, Sum{}, sum, static_cast<const To*>(sum), static_cast<const From*>(src));
    });
  });
}

}  // namespace bora::kernels::cuda
