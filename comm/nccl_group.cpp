// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_group.hpp"

#include "comm/arguments.hpp"
#include "comm/nccl_pairs.hpp"

#include <cuda_runtime_api.h>

#include <bit>
#include <exception>

namespace bora {

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::u8:
      return ncclUint8;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
  }
  BORA_FAIL("NCCL: unknown type ", static_cast<int>(type));
}

NcclGroup::NcclGroup(std::shared_ptr<NcclEngine> engine, Collective& host,
                     std::unique_ptr<Collective> owned_host, const NcclOptions& options)
    : owned_host_(std::move(owned_host)),
      host_(host),
      options_(options),
      engine_(std::move(engine)),
      pairs_(std::make_shared<NcclPairs>(engine_, host_, options_)),
      exceptions_(std::uncaught_exceptions()) {}

NcclGroup::~NcclGroup() {
  pairs_->close();
  // Finalising waits for the others, which may never come when this rank is on its way out.
  if (std::uncaught_exceptions() > exceptions_) engine_->abort("an exception is on its way");
  engine_->finalise(options_.timeout_s);
}

void NcclGroup::check_device(const Tensor& x, const char* op, std::string_view label) const {
  check_tensor(*this, x, op, label);
  BORA_CHECK(x.device().index == device(), op, " '", label, "': the tensor is on ", x.device(),
             ", this rank's communicator works on cuda:", device());
}

ncclRedOp_t NcclGroup::native(ReduceOp op, DType type, const char* what,
                              std::string_view label) const {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::mean:
      break;
  }
  BORA_CHECK(type != DType::u8, what, " '", label,
             "': no mean of u8, since the sum would not fit; convert to a wider type");
  const bool is_short = type == DType::f16 || type == DType::bf16;
  BORA_CHECK(!is_short || std::has_single_bit(static_cast<unsigned>(size())), what, " '", label,
             "': mean of ", type, " over ", size(), " ranks: NCCL would multiply by 1/", size(),
             " rounded to ", type, "; reduce in f32, or sum and scale");
  return ncclAvg;
}

uint64_t NcclGroup::announce(const NcclRequest& request, bool compare_now) {
  engine_->throw_if_failed();
  const std::string text =
      describe_operation(request.kind, request.label, engine_->log().number() + 1,
                         request.reduce_op, request.type, request.count, request.root);
  const uint64_t number = engine_->log().add(text);
  const auto every = static_cast<uint64_t>(options_.check_every);
  if (compare_now || (every > 0 && number % every == 0)) compare(number, text);
  return number;
}

void NcclGroup::compare(uint64_t number, const std::string& text) {
  if (size() == 1) return;
  IssueLog& log = engine_->log();
  const auto hash = static_cast<int64_t>(log.hash());
  const Tensor mine =
      Tensor::from<int64_t>({2}, std::vector<int64_t>{static_cast<int64_t>(number), hash});
  Tensor all = Tensor::empty({size(), 2}, DType::i64);
  try {
    host_.all_gather(mine, all, "comparison before an operation on devices");
  } catch (const std::exception& e) {  // some rank has not come
    engine_->abort(detail::join("before ", text, ": ", e.what()));
    engine_->throw_if_failed();
  }
  bool same = true;
  for (int r = 0; r < size(); ++r) {
    const int64_t* row = all.data<int64_t>() + 2 * r;
    same = same && row[0] == static_cast<int64_t>(number) && row[1] == hash;
  }
  if (same) return;
  const std::string difference =
      compare_logs(host_.all_gather_text(log.text(engine_->place()), "differing operations"));
  // Before each operation: nothing has moved, all ranks know, and the communicator is still good.
  log.forget();
  if (options_.check_every != 1) engine_->abort(detail::join("before ", text, ": ", difference));
  BORA_FAIL(engine_->who(), ": before ", text, ": ", difference);
}

Work NcclGroup::submit(const NcclRequest& request, std::vector<Tensor> tensors,
                       const NcclEngine::Enqueue& enqueue) {
  pairs_->flush();
  const uint64_t number = announce(request);
  if (request.count == 0) return {};
  NcclNote note;
  note.sequence = number;
  note.operation = name_of(request.kind);
  note.label = request.label;
  note.type = request.type;
  note.count = request.count;
  note.root = request.root;
  note.limit_s = options_.timeout_s;
  note.text = describe_operation(request.kind, request.label, number, request.reduce_op,
                                 request.type, request.count, request.root);
  return Work(engine_->issue(std::move(note), std::move(tensors), enqueue));
}

Work NcclGroup::all_reduce_async(Tensor x, ReduceOp op, std::string_view label) {
  check_device(x, "all_reduce", label);
  const ncclRedOp_t red = native(op, x.dtype(), "all_reduce", label);
  const NcclRequest request{OperationKind::all_reduce, label, x.dtype(), x.numel(), op};
  return submit(request, {x}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(x.raw(), x.raw(), static_cast<size_t>(x.numel()), nccl_type(x.dtype()),
                         red, comm, stream);
  });
}

void NcclGroup::broadcast(Tensor& x, int root, std::string_view label) {
  check_device(x, "broadcast", label);
  check_root(*this, root, "broadcast", label);
  const NcclRequest request{
      OperationKind::broadcast, label, x.dtype(), x.numel(), ReduceOp::sum, root};
  submit(request, {x}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(x.raw(), x.raw(), static_cast<size_t>(x.numel()), nccl_type(x.dtype()),
                         root, comm, stream);
  }).wait();
}

void NcclGroup::all_gather(const Tensor& x, Tensor& out, std::string_view label) {
  check_rows(*this, x, out, "all_gather", label);
  check_device(x, "all_gather", label);
  check_device(out, "all_gather", label);
  const NcclRequest request{OperationKind::all_gather, label, x.dtype(), x.numel()};
  submit(request, {x.detach(), out.detach()}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(x.raw(), out.raw(), static_cast<size_t>(x.numel()), nccl_type(x.dtype()),
                         comm, stream);
  }).wait();
}

void NcclGroup::gather(const Tensor& x, Tensor& out, int root, std::string_view label) {
  check_device(x, "gather", label);
  check_root(*this, root, "gather", label);
  const bool is_root = rank() == root;
  if (is_root) {
    check_rows(*this, x, out, "gather", label);
    check_device(out, "gather", label);
  }
  const NcclRequest request{OperationKind::gather, label, x.dtype(), x.numel(),
                            ReduceOp::sum,         root};
  std::vector<Tensor> tensors{x.detach()};
  if (is_root) tensors.push_back(out.detach());
  submit(request, std::move(tensors), [&](ncclComm_t comm, cudaStream_t stream) {
    const auto n = static_cast<size_t>(x.numel());
    const ncclDataType_t type = nccl_type(x.dtype());
    ncclResult_t code = ncclGroupStart();
    if (NcclStatus::ok(code) && !is_root) code = ncclSend(x.raw(), n, type, root, comm, stream);
    for (int r = 0; is_root && r < size() && NcclStatus::ok(code); ++r) {
      char* row = static_cast<char*>(out.raw()) + r * x.bytes();
      if (r != root)
        code = ncclRecv(row, n, type, r, comm, stream);
      else if (cudaMemcpyAsync(row, x.raw(), static_cast<size_t>(x.bytes()),
                               cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
        code = ncclUnhandledCudaError;
    }
    const ncclResult_t end = ncclGroupEnd();  // always, or the group would stay open
    return NcclStatus::ok(code) ? end : code;
  }).wait();
}

void NcclGroup::reduce(Tensor& x, int root, ReduceOp op, std::string_view label) {
  check_device(x, "reduce", label);
  check_root(*this, root, "reduce", label);
  const ncclRedOp_t red = native(op, x.dtype(), "reduce", label);
  const NcclRequest request{OperationKind::reduce, label, x.dtype(), x.numel(), op, root};
  submit(request, {x}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduce(x.raw(), rank() == root ? x.raw() : nullptr, static_cast<size_t>(x.numel()),
                      nccl_type(x.dtype()), red, root, comm, stream);
  }).wait();
}

void NcclGroup::reduce_scatter(const Tensor& x, Tensor& out, ReduceOp op, std::string_view label) {
  check_rows(*this, out, x, "reduce_scatter", label);
  check_device(x, "reduce_scatter", label);
  check_device(out, "reduce_scatter", label);
  const ncclRedOp_t red = native(op, x.dtype(), "reduce_scatter", label);
  const NcclRequest request{OperationKind::reduce_scatter, label, x.dtype(), out.numel(), op};
  submit(request, {x.detach(), out.detach()}, [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(x.raw(), out.raw(), static_cast<size_t>(out.numel()),
                             nccl_type(x.dtype()), red, comm, stream);
  }).wait();
}

Work NcclGroup::send_async(Tensor x, int to, std::string_view label) {
  check_device(x, "send", label);
  check_peer(*this, to, "send", label);
  return pairs_->send(std::move(x), to, label, options_.timeout_s);
}

Work NcclGroup::receive_async(Tensor x, int from, std::string_view label) {
  check_device(x, "receive", label);
  check_peer(*this, from, "receive", label);
  return pairs_->receive(std::move(x), from, label, options_.timeout_s);
}

void NcclGroup::barrier(std::string_view label) {
  pairs_->flush();
  engine_->drain();
  // The comparison is an exchange over the host group, which knows who is missing.
  announce({OperationKind::barrier, label}, /*compare_now=*/true);
}

void NcclGroup::check() {
  engine_->poll();
  engine_->throw_if_failed();
}

void NcclGroup::synchronize() {
  pairs_->flush();
  engine_->drain();
}

void NcclGroup::set_timeout(double seconds) {
  BORA_CHECK(seconds > 0, "set_timeout: wants more than 0 seconds, got ", seconds);
  options_.timeout_s = seconds;
}

}  // namespace bora
