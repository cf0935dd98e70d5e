// SPDX-License-Identifier: Apache-2.0
#include "core/collective.hpp"

#include <cstring>
#include <optional>

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
  all_reduce(x, op, label);
  return x.data<int64_t>()[0];
}

std::vector<double> Collective::all_reduce(std::vector<double> values, ReduceOp op,
                                           std::string_view label) {
  Tensor x = Tensor::from<double>({static_cast<int64_t>(values.size())}, values);
  all_reduce(x, op, label);
  return x.to_vector<double>();
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
  all_gather(row, rows, label);
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
  broadcast(length, root, label);
  const int64_t n = length.data<int64_t>()[0];
  Tensor bytes = Tensor::zeros({n}, DType::u8);
  if (rank() == root && n > 0) std::memcpy(bytes.raw(), text.data(), text.size());
  if (n > 0) broadcast(bytes, root, label);
  return n > 0 ? std::string(static_cast<const char*>(bytes.raw()), static_cast<size_t>(n))
               : std::string();
}

void Collective::agree(std::string_view what, const std::function<void()>& body) {
  std::string mine;  // kind letter and message; empty means fine
  std::optional<UsageError> usage;
  std::optional<Error> error;
  try {
    body();
  } catch (const UsageError& e) {
    usage = e;
    mine = std::string("u") + e.what();
  } catch (const Error& e) {
    error = e;
    mine = std::string("e") + e.what();
  } catch (const std::exception& e) {
    error = Error(e.what());
    mine = std::string("e") + e.what();
  } catch (...) {  // whatever it is, the other ranks must not wait for this one
    error = Error("an exception of unknown type");
    mine = std::string("e") + error->what();
  }
  const auto failed = all_reduce(static_cast<int64_t>(mine.empty() ? 0 : 1), ReduceOp::sum, what);
  if (failed == 0) return;
  const std::vector<std::string> all = all_gather_text(mine, what);
  if (usage) throw *usage;
  if (error) throw *error;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const std::string message = detail::join(what, ": rank ", r, " failed: ", all[r].substr(1));
    if (all[r][0] == 'u') throw UsageError(message);
    throw Error(message);
  }
}

}  // namespace bora
