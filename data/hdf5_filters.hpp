// SPDX-License-Identifier: Apache-2.0
// The filters through which the chunks of a data set went: as the library lists them, and as our
// own reader undoes them.  For data/hdf5*.cpp only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/hdf5_decode.hpp"

namespace bora::data::hdf5::detail {

struct ListedFilter {
  int id = 0;                        ///< H5Z_filter_t
  std::string name;                  ///< what the file or the library calls it; may be empty
  size_t n_values = 0;               ///< what it was told, of which
  std::array<unsigned, 8> values{};  ///< the first ones; 0 where there are none
};
/// Those of a creation list (H5Dget_create_plist), in the order of writing.  The caller holds the
/// Lock.  Throws Error where the library cannot say.
std::vector<ListedFilter> list_filters(int64_t creation_list);

/// One as our reader knows it, or nothing.
std::optional<Filter> filter_of(const ListedFilter& listed);

/// The same for our reader; nothing, with `why`, if one is not ours or stands twice.
std::optional<std::vector<Filter>> filters_of(int64_t creation_list, std::string& why);

}  // namespace bora::data::hdf5::detail
