// SPDX-License-Identifier: Apache-2.0
#include "core/collective.hpp"

#include <algorithm>
#include <cstring>

namespace bora {

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

double Collective::all_reduce(double value, ReduceOp op, std::string_view label) {
  return all_reduce(std::vector<double>{value}, op, label)[0];
}

int64_t Collective::all_reduce(int64_t value, ReduceOp op, std::string_view label) {
  Tensor x = Tensor::scalar<int64_t>(value);
  control().all_reduce(x, op, label);
  return x.data<int64_t>()[0];
}

std::vector<double> Collective::all_reduce(std::vector<double> values, ReduceOp op,
                                           std::string_view label) {
  Tensor x = Tensor::from<double>({static_cast<int64_t>(values.size())}, values);
  control().all_reduce(x, op, label);
  return x.to_vector<double>();
}

Work Collective::send_async(Tensor, int to, std::string_view label) {
  BORA_FAIL("send '", label, "' to rank ", to, ": this collective does not send between pairs");
}

Work Collective::receive_async(Tensor, int from, std::string_view label) {
  BORA_FAIL("receive '", label, "' from rank ", from,
            ": this collective does not send between pairs");
}

void Collective::swap(const Tensor& out, int to, Tensor& in, int from, std::string_view label) {
  const Work arrives = receive_async(in, from, label);
  const Work leaves = send_async(out, to, label);
  arrives.wait();
  leaves.wait();
}

std::vector<std::string> Collective::all_gather_text(const std::string& text,
                                                     std::string_view label) {
  const int64_t mine = static_cast<int64_t>(text.size());
  const int64_t longest = all_reduce(mine, ReduceOp::max, label);
  // Each row: the length, then the bytes.
  Tensor row = Tensor::zeros({8 + longest}, DType::u8);
  std::memcpy(row.raw(), &mine, 8);
  std::memcpy(static_cast<char*>(row.raw()) + 8, text.data(), text.size());
  Tensor rows = Tensor::empty({size(), 8 + longest}, DType::u8);
  control().all_gather(row, rows, label);
  std::vector<std::string> out;
  for (int r = 0; r < size(); ++r) {
    const char* begin = static_cast<const char*>(rows.raw()) + r * (8 + longest);
    int64_t n = 0;
    std::memcpy(&n, begin, 8);
    out.emplace_back(begin + 8, static_cast<size_t>(n));
  }
  return out;
}

std::string Collective::broadcast_text(const std::string& text, int root, std::string_view label) {
  Tensor length = Tensor::scalar<int64_t>(static_cast<int64_t>(text.size()));
  control().broadcast(length, root, label);
  const int64_t n = length.data<int64_t>()[0];
  Tensor bytes = Tensor::zeros({n}, DType::u8);
  if (rank() == root && n > 0) std::memcpy(bytes.raw(), text.data(), text.size());
  if (n > 0) control().broadcast(bytes, root, label);
  return n > 0 ? std::string(static_cast<const char*>(bytes.raw()), static_cast<size_t>(n))
               : std::string();
}

namespace {

/// One text for what failed where: every rank has all texts (kind letter and message, empty where
/// nothing failed) and so makes the same.
std::string failure_text(std::string_view what, const std::vector<std::string>& all) {
  struct Cause {
    std::string message, ranks;
    size_t n = 0;
  };
  std::vector<Cause> causes;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const std::string message = all[r].substr(1);
    auto cause = std::find_if(causes.begin(), causes.end(),
                              [&](const Cause& c) { return c.message == message; });
    if (cause == causes.end()) cause = causes.insert(cause, Cause{message, {}, 0});
    cause->ranks += (cause->n++ > 0 ? ", " : "") + std::to_string(r);
  }
  if (causes.front().n == all.size()) return causes.front().message;
  constexpr size_t kMost = 3;  // of many different causes a few are enough
  std::string text(what);
  for (size_t i = 0; i < std::min(causes.size(), kMost); ++i)
    text += detail::join(i == 0 ? ": " : "; ", causes[i].n > 1 ? "ranks " : "rank ",
                         causes[i].ranks, " failed: ", causes[i].message);
  if (causes.size() > kMost)
    text += detail::join("; and ", causes.size() - kMost, " other messages on other ranks");
  return text;
}

}  // namespace

void Collective::agree(std::string_view what, const std::function<void()>& body) {
  std::string mine;  // kind letter and message; empty means fine
  try {
    body();
  } catch (const UsageError& e) {
    mine = std::string("u") + e.what();
  } catch (const std::exception& e) {
    mine = std::string("e") + e.what();
  } catch (...) {  // whatever it is, the other ranks must not wait for this one
    mine = "ean exception of unknown type";
  }
  const auto failed = all_reduce(static_cast<int64_t>(mine.empty() ? 0 : 1), ReduceOp::sum, what);
  if (failed == 0) return;
  const std::vector<std::string> all = all_gather_text(mine, what);
  const std::string text = failure_text(what, all);
  if (std::any_of(all.begin(), all.end(), [](const auto& t) { return t.starts_with('u'); }))
    throw UsageError(text);
  throw Error(text);
}

}  // namespace bora
