# Packages as Debian ships them; scripts/setup installs what is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS program_options)
pkg_check_modules(capnp REQUIRED IMPORTED_TARGET capnp)
find_program(WEFT_CAPNP capnp REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
# What ZeroMQ itself was built with (Kerberos, PGM, libxml2) is nothing its users need, and pkg_check_modules() hands it on as include
# directories when it first runs and as options when it runs again: every file would be compiled anew.
find_path(WEFT_ZMQ_INCLUDE zmq.h HINTS ${zmq_INCLUDE_DIRS} REQUIRED)
set_target_properties(PkgConfig::zmq PROPERTIES INTERFACE_COMPILE_OPTIONS "" INTERFACE_INCLUDE_DIRECTORIES "${WEFT_ZMQ_INCLUDE}")
pkg_check_modules(slirp REQUIRED IMPORTED_TARGET slirp)
# Newer glibs ask for -pthread, which defines _REENTRANT: precompiled headers are for one set of definitions. Threads are linked anyway.
string(REPLACE "-pthread" "" SLIRP_OPTIONS "${slirp_CFLAGS_OTHER}")
set_target_properties(PkgConfig::slirp PROPERTIES INTERFACE_COMPILE_OPTIONS "${SLIRP_OPTIONS}")
pkg_check_modules(pcap REQUIRED IMPORTED_TARGET libpcap)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
if(WEFT_TESTS)
  find_package(GTest REQUIRED)
endif()
