// SPDX-License-Identifier: Apache-2.0
// Errors: one exception type with a message a stranger can act on, and the checks that raise it.
#pragma once

#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace bora {

/// Something failed: a file, a device, a shape, another rank.  Programs end with exit code 1.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

/// The user asked for something that cannot be: a wrong flag, key or value.  Programs end with exit
/// code 2.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message) {}
};

namespace detail {

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void throw_error(const std::string& message, const std::source_location& where);

}  // namespace detail

/// Throws Error with the joined parts (anything with operator<<) and the place in the source.
#define BORA_FAIL(...) \
  ::bora::detail::throw_error(::bora::detail::join(__VA_ARGS__), std::source_location::current())

/// Throws Error unless `cond` holds.  Message: the op, what was given, what was wanted.  Always on.
#define BORA_CHECK(cond, ...) \
  do {                        \
    if (!(cond)) [[unlikely]] \
      BORA_FAIL(__VA_ARGS__); \
  } while (false)

/// Inner invariants; debug builds only.
#if defined(NDEBUG)
#define BORA_ASSERT(cond) static_cast<void>(0)
#else
#define BORA_ASSERT(cond) BORA_CHECK(cond, "internal invariant violated: " #cond)
#endif

/// Runs `body`; an Error that escapes it gets `prefix` (joined with ": ") in front and keeps its
/// type. Use: `with_context("reading " + path, [&] { ... });`
template <class Body>
decltype(auto) with_context(const std::string& prefix, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const UsageError& e) {
    throw UsageError(prefix + ": " + e.what());
  } catch (const Error& e) {
    throw Error(prefix + ": " + e.what());
  }
}

}  // namespace bora
