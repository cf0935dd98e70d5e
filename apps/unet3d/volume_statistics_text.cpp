// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/volume_statistics_text.hpp"

#include <charconv>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "core/state.hpp"

namespace bora::unet3d {
namespace {

template <class T>
std::string text_of_number(T value) {
  char buffer[64];  // the shortest text that reads back as the same value
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  BORA_CHECK(error == std::errc{}, "a number as text: wanted fewer than 64 characters");
  return {buffer, end};
}

template <class T>
std::vector<T> numbers(const std::string& key, const std::string& text) {
  std::vector<T> out;
  const char* at = text.data();
  const char* const last = at + text.size();
  while (at != last) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    T value{};
    const auto [end, error] = std::from_chars(at, last, value);
    BORA_CHECK(error == std::errc{} && (end == last || *end == ' '), key, " is '", text,
               "', wanted numbers");
    out.push_back(value);
    at = end;
  }
  return out;
}

/// Gives a normaliser its moments back, as a checkpoint would.
class Moments final : public StateVisitor {
 public:
  explicit Moments(const std::function<std::string(const std::string&)>& text_of)
      : text_of_(text_of) {}
  bool loading() const override { return true; }
  bool has_entry(std::string_view) const override { return true; }
  void tensor(std::string_view name, Tensor&, std::string_view) override { refuse(name); }
  void value(std::string_view name, int64_t&) override { refuse(name); }
  void value(std::string_view name, uint64_t&) override { refuse(name); }
  void value(std::string_view name, double&) override { refuse(name); }
  void value(std::string_view name, bool&) override { refuse(name); }
  void value(std::string_view, std::string&) override {}  // the mode is the settings'
  void value(std::string_view name, std::vector<double>& v) override {
    v = numbers<double>(key(name), text_of_(key(name)));
    for (const double x : v)
      BORA_CHECK(std::isfinite(x), key(name), " is ", x, ", wanted a finite number");
  }
  void value(std::string_view name, std::vector<int64_t>& v) override {
    v = numbers<int64_t>(key(name), text_of_(key(name)));
  }
  void value(std::string_view name, std::vector<std::string>&) override { refuse(name); }
  void enter(std::string_view group) override { prefix_ += std::string(group) + "."; }
  void leave() override { prefix_.erase(prefix_.rfind('.', prefix_.size() - 2) + 1); }

 private:
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  void refuse(std::string_view name) const {
    BORA_FAIL("the statistics of images have a value '", key(name), "' that no text holds");
  }
  const std::function<std::string(const std::string&)>& text_of_;
  std::string prefix_;
};

}  // namespace

void statistics_to_texts(const data::VolumeNormaliser& images, const std::string& prefix,
                         data::TextMap& texts) {
  if (images.moments().empty()) return;
  std::string n, mean, m2;
  for (const data::Moments& m : images.moments()) {
    const std::string space = n.empty() ? "" : " ";
    n += space + text_of_number(m.n);
    mean += space + text_of_number(m.mean);
    m2 += space + text_of_number(m.m2);
  }
  texts[prefix + "normalisation.n"] = n;
  texts[prefix + "normalisation.mean"] = mean;
  texts[prefix + "normalisation.m2"] = m2;
}

void statistics_from_texts(data::VolumeNormaliser& images,
                           const std::function<std::string(const std::string&)>& text_of) {
  Moments visitor(text_of);
  images.state(visitor);
}

}  // namespace bora::unet3d
