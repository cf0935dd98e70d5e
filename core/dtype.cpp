// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.hpp"

namespace bora {

DType dtype_from(std::string_view text) {
  for (DType t :
       {DType::f16, DType::bf16, DType::f32, DType::f64, DType::u8, DType::i32, DType::i64})
    if (text == name_of(t)) return t;
  throw UsageError(detail::join("unknown element type '", text,
                                "': wanted one of f16, bf16, f32, f64, u8, i32, i64"));
}

}  // namespace bora
