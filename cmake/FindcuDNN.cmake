# SPDX-License-Identifier: Apache-2.0
# Finds cuDNN 9, by itself, below cuDNN_ROOT or in the CUDA toolkit (look for that first): cuDNN::cudnn,
# cuDNN_FOUND, cuDNN_INCLUDE_DIR, cuDNN_LIBRARY, cuDNN_VERSION. The library opens its sub-libraries when it needs
# them and finds them beside itself.
find_path(cuDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(cuDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(cuDNN_INCLUDE_DIR cuDNN_LIBRARY)

if(cuDNN_INCLUDE_DIR)
  file(STRINGS "${cuDNN_INCLUDE_DIR}/cudnn_version.h" cudnn_numbers
       REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" cudnn_numbers "${cudnn_numbers}")
  string(REPLACE ";" "." cuDNN_VERSION "${cudnn_numbers}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR
                                  VERSION_VAR cuDNN_VERSION)
if(cuDNN_FOUND AND NOT TARGET cuDNN::cudnn)
  add_library(cuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(cuDNN::cudnn PROPERTIES
    IMPORTED_LOCATION "${cuDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${cuDNN_INCLUDE_DIR};${CUDAToolkit_INCLUDE_DIRS}")
endif()
