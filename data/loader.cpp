// SPDX-License-Identifier: Apache-2.0
#include "data/loader.hpp"

#include <new>

namespace bora::data {

LoaderOptions checked(LoaderOptions options) {
  constexpr int kMaxThreads = 256;  // more is a typing error: each holds a whole sample
  if (options.n_threads < 0 || options.n_threads > kMaxThreads)
    throw UsageError(bora::detail::join("Loader: n_threads must be in [0, ", kMaxThreads, "], got ",
                                        options.n_threads));
  if (options.queue_depth < 0)
    throw UsageError(
        bora::detail::join("Loader: queue_depth must not be negative, got ", options.queue_depth));
  if (!(options.timeout_s >= 0 && options.tell_s > 0))
    throw UsageError(
        bora::detail::join("Loader: timeout_s must not be negative, tell_s must be positive, got ",
                           options.timeout_s, " and ", options.tell_s));
  if (options.n_threads == 0 && options.queue_depth > 0)
    throw UsageError(
        bora::detail::join("Loader: queue_depth is ", options.queue_depth,
                           ", but there are no threads to fill the queue (n_threads = 0)"));
  if (options.queue_depth == 0) options.queue_depth = 2 * options.n_threads;
  if (options.queue_depth < options.n_threads)
    throw UsageError(bora::detail::join("Loader: queue_depth ", options.queue_depth,
                                        " keeps some of the ", options.n_threads,
                                        " threads idle for ever; it must be at least n_threads"));
  return options;
}

std::exception_ptr loader_error(std::exception_ptr cause, const Slot& slot,
                                const std::string& sample) {
  const std::string prefix = bora::detail::join(
      "reading sample ", sample.empty() ? "number " + std::to_string(slot.index) : sample, ": ");
  try {
    std::rethrow_exception(std::move(cause));
  } catch (const UsageError& e) {
    return std::make_exception_ptr(UsageError(prefix + e.what()));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(
        Error(prefix + "out of memory; fewer loader.threads or a shorter loader.queue need less"));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(Error(prefix + e.what()));
  } catch (...) {
    return std::make_exception_ptr(Error(prefix + "an exception of unknown type"));
  }
}

std::atomic<bool>& a_read_hangs() {
  static std::atomic<bool> hangs{false};
  return hangs;
}

std::string slow_text(const std::string& sample, double waited_s,
                      const std::vector<ReadUnderWay>& reads) {
  const auto seconds = [](double s) { return static_cast<int64_t>(10 * s + 0.5) / 10.0; };
  if (reads.empty())
    return bora::detail::join("reading sample ", sample, " has taken ", seconds(waited_s), " s");
  std::string text = bora::detail::join("waiting for sample ", sample, " for ", seconds(waited_s),
                                        " s; being read");
  for (size_t i = 0; i < reads.size(); ++i)
    text += bora::detail::join(i == 0 ? ": " : ", ", reads[i].sample, " for ",
                               seconds(reads[i].seconds), " s");
  return text;
}

}  // namespace bora::data
