// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_filters.hpp"

#include <hdf5.h>
#include <string.h>

#include "core/error.hpp"
#include "data/hdf5.hpp"

namespace bora::data::hdf5::detail {

std::vector<ListedFilter> list_filters(int64_t creation_list) {
  std::vector<ListedFilter> filters;
  const int n = BORA_HDF5(H5Pget_nfilters(creation_list));
  for (int i = 0; i < n; ++i) {
    ListedFilter f;
    f.n_values = f.values.size();
    unsigned flags = 0, config = 0;
    char name[64] = "";
    f.id = BORA_HDF5(H5Pget_filter2(creation_list, static_cast<unsigned>(i), &flags, &f.n_values,
                                    f.values.data(), sizeof name, name, &config));
    f.name.assign(name, ::strnlen(name, sizeof name - 1));
    filters.push_back(f);
  }
  return filters;
}

std::optional<Filter> filter_of(const ListedFilter& listed) {
  if (listed.id == H5Z_FILTER_DEFLATE) return Filter{Filter::Kind::deflate};
  if (listed.id == H5Z_FILTER_FLETCHER32) return Filter{Filter::Kind::fletcher32};
  if (listed.id == H5Z_FILTER_SHUFFLE && listed.n_values > 0)
    return Filter{Filter::Kind::shuffle, listed.values[0]};
  return std::nullopt;
}

std::optional<std::vector<Filter>> filters_of(int64_t creation_list, std::string& why) {
  std::vector<Filter> filters;
  for (const ListedFilter& listed : list_filters(creation_list)) {
    const std::optional<Filter> f = filter_of(listed);
    if (!f) {
      why = bora::detail::join("filter ", listed.id, " '", listed.name, "'");
      return std::nullopt;
    }
    for (const Filter& other : filters)
      if (other.kind == f->kind) {
        why = "a filter that stands twice";
        return std::nullopt;
      }
    filters.push_back(*f);
  }
  return filters;
}

}  // namespace bora::data::hdf5::detail
