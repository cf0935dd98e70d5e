# SPDX-License-Identifier: Apache-2.0
# Every third-party package is looked for here, once; the folders only name the targets:
#   OpenMP::OpenMP_CXX  Threads::Threads  MPI::MPI_C  oneDNN::dnnl  Eigen3::Eigen  hdf5::hdf5  ZLIB::ZLIB
#   PNG::PNG  PkgConfig::cairo  PkgConfig::libdeflate  CLI11::CLI11  tomlplusplus::tomlplusplus  nlohmann_json::nlohmann_json
#   GTest::gtest  GTest::gmock  CUDA::cudart  NCCL::nccl  cuDNN::cudnn

# bora_need(<what> <debian package> <found>): stops with the package's name if <found> is false.
function(bora_need what package)
  if(NOT ARGN)
    message(FATAL_ERROR "${what} was not found. On Debian: apt-get install ${package} "
                        "(scripts/bootstrap.sh installs everything that is missing).")
  endif()
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
bora_need("A thread library" libc6-dev ${Threads_FOUND})
find_package(OpenMP QUIET COMPONENTS CXX)
bora_need("OpenMP for C++" g++ ${OpenMP_CXX_FOUND})
find_package(MPI QUIET COMPONENTS C)
bora_need("MPI (C)" "libopenmpi-dev openmpi-bin" ${MPI_C_FOUND})
# Without these, C++ sources refer to the deprecated C++ bindings and fail to link.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
find_package(oneDNN QUIET)
bora_need("oneDNN" libdnnl-dev ${oneDNN_FOUND})
find_package(Eigen3 QUIET NO_MODULE)
bora_need("Eigen 3" libeigen3-dev ${Eigen3_FOUND})
set(HDF5_PREFER_PARALLEL OFF)  # the MPI build is not thread-safe, and loader threads read files
find_package(HDF5 QUIET COMPONENTS C)
bora_need("HDF5 (serial, C)" libhdf5-dev ${HDF5_FOUND})
if(HDF5_IS_PARALLEL)
  message(FATAL_ERROR "Found an MPI build of HDF5, which is not thread-safe. On Debian: apt-get install "
                      "libhdf5-dev, and configure with -DHDF5_ROOT pointing to the serial build.")
endif()
find_package(ZLIB QUIET)
bora_need("zlib" zlib1g-dev ${ZLIB_FOUND})
find_package(PNG QUIET)
bora_need("libpng" libpng-dev ${PNG_FOUND})
find_package(PkgConfig QUIET)
bora_need("pkg-config" pkg-config ${PKG_CONFIG_FOUND})
pkg_check_modules(cairo QUIET IMPORTED_TARGET cairo)
bora_need("cairo" libcairo2-dev ${cairo_FOUND})
pkg_check_modules(libdeflate QUIET IMPORTED_TARGET libdeflate)
bora_need("libdeflate" libdeflate-dev ${libdeflate_FOUND})
find_package(CLI11 QUIET CONFIG)
bora_need("CLI11" libcli11-dev ${CLI11_FOUND})
find_package(tomlplusplus QUIET CONFIG)
bora_need("toml++" libtomlplusplus-dev ${tomlplusplus_FOUND})
find_package(nlohmann_json QUIET CONFIG)
bora_need("nlohmann/json" nlohmann-json3-dev ${nlohmann_json_FOUND})
if(BORA_TESTS)
  find_package(GTest QUIET)
  bora_need("GoogleTest" "libgtest-dev libgmock-dev" ${GTest_FOUND})
endif()
if(BORA_CUDA)
  find_package(CUDAToolkit 12 REQUIRED)
  find_package(NCCL QUIET)
  bora_need("NCCL" "libnccl-dev (from NVIDIA's repository)" ${NCCL_FOUND})
  find_package(cuDNN 9.8 QUIET)
  bora_need("cuDNN 9.8 or newer" "libcudnn9-dev-cuda-12 or -13 (from NVIDIA's repository)" ${cuDNN_FOUND})
elseif(BORA_TESTS)
  # Headers are enough for the tests of the NCCL communicator over doubles; the test of cuDNN's plans
  # needs the library, but no device and no driver.
  find_package(CUDAToolkit 12 QUIET)
  find_package(NCCL QUIET)
  find_package(cuDNN 9.8 QUIET)
endif()
