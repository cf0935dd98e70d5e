# SPDX-License-Identifier: Apache-2.0
# Makes find_package(Bora) work from an installed tree.
get_property(bora_libraries GLOBAL PROPERTY BORA_LIBRARIES)
if(NOT bora_libraries)
  return()
endif()
set(bora_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Bora)
install(EXPORT BoraTargets NAMESPACE Bora:: DESTINATION ${bora_config_dir})
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/BoraConfig.cmake.in" "${PROJECT_BINARY_DIR}/BoraConfig.cmake"
  INSTALL_DESTINATION ${bora_config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/BoraConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/BoraConfig.cmake" "${PROJECT_BINARY_DIR}/BoraConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindcuDNN.cmake"
        DESTINATION ${bora_config_dir})
install(DIRECTORY "${BORA_GENERATED_DIR}/" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bora
        FILES_MATCHING PATTERN "*.hpp")
