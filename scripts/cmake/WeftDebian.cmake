# cpack -G DEB: the packages weft (programs, drop-in libraries, documents) and weft-dev (headers, archives). scripts/package makes and
# tests them in a build with the prefix /usr.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(WEFT_PACKAGE_CONTACT "Weft maintainers <maintainers@weft.invalid>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_CONTACT ${WEFT_PACKAGE_CONTACT})
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL weft dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_WEFT_PACKAGE_NAME weft)
set(CPACK_DEBIAN_WEFT_PACKAGE_SECTION net)
set(CPACK_DEBIAN_WEFT_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_WEFT_PACKAGE_RECOMMENDS "ibverbs-utils")
set(CPACK_DEBIAN_WEFT_DESCRIPTION "channel-based I/O fabric in user space, with RDMA for stock programs
Hosts, I/O units and switches are ordinary processes. RDMA programs run
unmodified under weft run, without RDMA hardware, kernel module or root.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME weft-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "weft (= ${PROJECT_VERSION}), libzmq3-dev, libfmt-dev, libcapnp-dev, libboost-program-options-dev, libslirp-dev, libpcap-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "channel-based I/O fabric in user space: C++ headers and archives
Channel adapters, queue pairs, registered memory, links and switches as
C++20 libraries, with a pkg-config file and a CMake package.")

# Debian policy requires a copyright file and a changelog in every package.
set(DEBIAN_FILES ${CMAKE_BINARY_DIR}/debian)
string(TIMESTAMP DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(CONFIGURE OUTPUT ${DEBIAN_FILES}/copyright @ONLY CONTENT
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Weft

Files: *
Copyright: 2026 Weft maintainers
License: Apache-2.0
 The whole text is in /usr/share/common-licenses/Apache-2.0.
")
file(CONFIGURE OUTPUT ${DEBIAN_FILES}/changelog @ONLY CONTENT
"weft (@PROJECT_VERSION@) unstable; urgency=medium

  * Built from the sources of this version.

 -- @CPACK_PACKAGE_CONTACT@  @DATE@
")
foreach(COMPONENT weft dev)
  string(REPLACE "dev" "weft-dev" PACKAGE ${COMPONENT})
  install(FILES ${DEBIAN_FILES}/copyright ${DEBIAN_FILES}/changelog DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${PACKAGE}
    COMPONENT ${COMPONENT} EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/scripts/cmake/CompressDocuments.cmake)
include(CPack)
