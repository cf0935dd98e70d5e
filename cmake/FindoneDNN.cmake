# SPDX-License-Identifier: Apache-2.0
# oneDNN by hand: the package's own dnnl-config.cmake stops at find_dependency(OpenCL) on Debian, though
# the CPU engine does not need it. Gives target oneDNN::dnnl, oneDNN_FOUND and oneDNN_VERSION.
find_path(oneDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.hpp dnnl.hpp)
find_library(oneDNN_LIBRARY NAMES dnnl)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)

set(oneDNN_VERSION "")
foreach(header IN ITEMS oneapi/dnnl/dnnl_version.h dnnl_version.h)
  if(oneDNN_INCLUDE_DIR AND NOT oneDNN_VERSION AND EXISTS "${oneDNN_INCLUDE_DIR}/${header}")
    file(STRINGS "${oneDNN_INCLUDE_DIR}/${header}" lines REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
    string(REGEX REPLACE "[^0-9;]" "" oneDNN_VERSION "${lines}")
    string(REPLACE ";" "." oneDNN_VERSION "${oneDNN_VERSION}")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR
                                  VERSION_VAR oneDNN_VERSION)
if(oneDNN_FOUND AND NOT TARGET oneDNN::dnnl)
  add_library(oneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(oneDNN::dnnl PROPERTIES
    IMPORTED_LOCATION "${oneDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()
