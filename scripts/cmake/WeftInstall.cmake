# cmake --install: programs, libraries, headers and the exported package Weft (targets Weft::base ... Weft::sim).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(LIBRARIES GLOBAL PROPERTY WEFT_LIBRARIES)
get_property(PROGRAMS GLOBAL PROPERTY WEFT_PROGRAMS)

set_target_properties(weft_options PROPERTIES EXPORT_NAME options)
install(TARGETS ${LIBRARIES} weft_options EXPORT WeftTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft)
if(PROGRAMS)
  install(TARGETS ${PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(FOLDER base messages fabric control adapter session hca tca node host_driver iou_driver sim)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${FOLDER} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT WeftTargets NAMESPACE Weft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
configure_package_config_file(${CMAKE_SOURCE_DIR}/scripts/cmake/WeftConfig.cmake.in
  ${CMAKE_BINARY_DIR}/WeftConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/WeftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/WeftConfig.cmake ${CMAKE_BINARY_DIR}/WeftConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EXISTS ${CMAKE_SOURCE_DIR}/docs/man)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    FILES_MATCHING PATTERN "*.1")
endif()
