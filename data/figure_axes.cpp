// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "data/figure.hpp"

namespace bora::data {

std::vector<double> detail::ticks(double low, double high, int n) {
  BORA_CHECK(std::isfinite(low) && std::isfinite(high) && low < high && n >= 1,
             "ticks: wants low < high and n >= 1, got [", low, ", ", high, "], n = ", n);
  const double rough = (high - low) / n;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (const double m : {2.0, 2.5, 5.0, 10.0})  // the nearest by ratio
    if (std::abs(std::log(m * power / rough)) < std::abs(std::log(step / rough))) step = m * power;
  std::vector<double> out;
  const double slack = 1e-9 * (high - low);  // so that the ends count in spite of rounding
  for (double k = std::ceil((low - slack) / step); k * step <= high + slack; ++k)
    out.push_back(k == 0 ? 0.0 : k * step);
  return out;
}

std::vector<std::string> detail::tick_texts(const std::vector<double>& ticks) {
  const auto print = [](double x, int digits, bool exponent) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, exponent ? "%.*e" : "%.*f", digits, x);
    return std::string(buffer);
  };
  double largest = 0;
  for (const double x : ticks) largest = std::max(largest, std::abs(x));
  const bool exponent = largest >= 1e6 || (largest > 0 && largest < 1e-3);
  std::vector<std::string> out;
  for (int digits = 0; digits <= 12; ++digits) {
    out.clear();
    bool exact = true;
    for (const double x : ticks) {
      out.push_back(print(x, digits, exponent));
      exact = exact && std::abs(std::strtod(out.back().c_str(), nullptr) - x) <= 1e-6 * largest;
    }
    if (exact) break;
  }
  return out;
}

}  // namespace bora::data
