# cmake --install: programs, libraries, headers and the exported package Weft (targets Weft::base ... Weft::sim).
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DOCDIR ${CMAKE_INSTALL_DATADIR}/doc/weft)
get_property(LIBRARIES GLOBAL PROPERTY WEFT_LIBRARIES)
get_property(PROGRAMS GLOBAL PROPERTY WEFT_PROGRAMS)

set_target_properties(weft_options PROPERTIES EXPORT_NAME options)
install(TARGETS ${LIBRARIES} weft_options EXPORT WeftTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/weft COMPONENT dev)
if(PROGRAMS)
  install(TARGETS ${PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
set(FOLDERS base messages fabric control management adapter session hca rdma_cm tca node host_driver iou_driver sim)
# Installed headers include each other as <weft/FOLDER/...>, as their users do, so that a user may have folders of the same names.
install(CODE "set(WEFT_FOLDERS ${FOLDERS})\nset(WEFT_SOURCE ${CMAKE_SOURCE_DIR})\nset(WEFT_HEADERS ${CMAKE_BINARY_DIR}/installed_headers)"
  COMPONENT dev)
install(SCRIPT ${CMAKE_SOURCE_DIR}/scripts/cmake/InstalledHeaders.cmake COMPONENT dev)
install(DIRECTORY ${CMAKE_BINARY_DIR}/installed_headers/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT dev)
# The archives in link order: users before the libraries that they use.
set(WEFT_PC_LIBRARIES)
foreach(LIBRARY ${LIBRARIES})
  if(NOT LIBRARY MATCHES "^weft_(tools|sim|host_driver|iou_driver|node.*)$")
    list(PREPEND WEFT_PC_LIBRARIES -l${LIBRARY})
  endif()
endforeach()
list(JOIN WEFT_PC_LIBRARIES " " WEFT_PC_LIBRARIES)
configure_file(${CMAKE_SOURCE_DIR}/scripts/cmake/weft.pc.in ${CMAKE_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(EXPORT WeftTargets NAMESPACE Weft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft COMPONENT dev)
configure_package_config_file(${CMAKE_SOURCE_DIR}/scripts/cmake/WeftConfig.cmake.in
  ${CMAKE_BINARY_DIR}/WeftConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/WeftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/WeftConfig.cmake ${CMAKE_BINARY_DIR}/WeftConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Weft COMPONENT dev)
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.toml" PATTERN "*.c" PATTERN "*.cc" PATTERN "*.h" PATTERN Containerfile PATTERN man EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tools/suppressions/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
install(FILES ${CMAKE_SOURCE_DIR}/tools/wireshark/weft.lua DESTINATION ${CMAKE_INSTALL_DATADIR}/weft/wireshark)
if(EXISTS ${CMAKE_SOURCE_DIR}/docs/man)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    FILES_MATCHING PATTERN "*.1")
endif()
configure_file(${CMAKE_SOURCE_DIR}/tools/systemd/weft.service ${CMAKE_BINARY_DIR}/weft.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weft.service DESTINATION lib/systemd/user)
install(FILES ${CMAKE_SOURCE_DIR}/tools/systemd/standing.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/weft)
