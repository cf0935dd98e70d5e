// SPDX-License-Identifier: Apache-2.0
// MPI's own all-reduction, with our types and our rules for NaN.
#include "comm/engine.hpp"
#include "comm/mpi_transport.hpp"

#include <algorithm>

namespace bora {
namespace {

// MPI hands a user's operation no more than the data, so there is one for each type and operation.
template <class T, ReduceOp op>
void combine(void* in, void* inout, int* n, MPI_Datatype*) {
  reduce_rows(dtype_of<T>, op, {in, inout}, inout, *n);
}

template <class T>
MPI_User_function* function_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return combine<T, ReduceOp::min>;
    case ReduceOp::max:
      return combine<T, ReduceOp::max>;
    default:
      return combine<T, ReduceOp::sum>;
  }
}

/// MPI's own type and operation where they do what we promise, else ours.
struct MpiTypeAndOp {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  bool own_type = false, own_op = false;

  MpiTypeAndOp(DType t, ReduceOp reduce_op) {
    switch (t) {
      case DType::f32:
        type = MPI_FLOAT;
        break;
      case DType::f64:
        type = MPI_DOUBLE;
        break;
      case DType::i32:
        type = MPI_INT32_T;
        break;
      case DType::i64:
        type = MPI_INT64_T;
        break;
      case DType::u8:
        type = MPI_UINT8_T;
        break;
      default:  // f16, bf16
        own_type = true;
        BORA_MPI(MPI_Type_contiguous(static_cast<int>(size_of(t)), MPI_BYTE, &type));
        BORA_MPI(MPI_Type_commit(&type));
    }
    const bool sum = reduce_op == ReduceOp::sum || reduce_op == ReduceOp::mean;
    // MPI's min and max may lose NaN; Open MPI 4.1 adds bytes with saturation where it has AVX.
    own_op = own_type || (is_float(t) && !sum) || t == DType::u8;
    if (!own_op) {
      op = sum ? MPI_SUM : reduce_op == ReduceOp::min ? MPI_MIN : MPI_MAX;
      return;
    }
    dispatch_any(t, [&]<class T>() {
      BORA_MPI(MPI_Op_create(function_of<T>(reduce_op), /*commute=*/1, &op));
    });
  }
  ~MpiTypeAndOp() {
    if (own_op) BORA_MPI_WARN(MPI_Op_free(&op));
    if (own_type) BORA_MPI_WARN(MPI_Type_free(&type));
  }
  MpiTypeAndOp(const MpiTypeAndOp&) = delete;
  MpiTypeAndOp& operator=(const MpiTypeAndOp&) = delete;
};

}  // namespace

void Engine::all_reduce_library(Operation& op) {
  const auto* mpi = dynamic_cast<const MpiTransport*>(transport_.get());
  BORA_CHECK(mpi != nullptr, op.describe(),
             ": the library's own way is MPI's, this group runs over ", transport_->name());
  const DType type = op.in.dtype();
  const int64_t item = size_of(type);
  const MpiTypeAndOp with(type, op.reduce_op);
  const int64_t per_call = std::max<int64_t>(options_.message_bytes / item, 1);
  for (int64_t begin = 0; begin < op.count(); begin += per_call) {
    char* data = static_cast<char*>(op.in.raw()) + begin * item;
    const int n = static_cast<int>(std::min(per_call, op.count() - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const MpiGate gate = mpi_gate();
      BORA_MPI(MPI_Iallreduce(MPI_IN_PLACE, data, n, with.type, with.op, mpi->comm(), &request));
    }
    requests_.assign(1, MpiTransport::wrap(request));
    wait_requests(op, false);
  }
  if (op.reduce_op == ReduceOp::mean) divide(type, op.in.raw(), size_, op.count());
}

}  // namespace bora
