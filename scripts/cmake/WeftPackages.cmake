# Packages as Debian ships them; scripts/setup installs what is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS program_options)
pkg_check_modules(capnp REQUIRED IMPORTED_TARGET capnp)
find_program(WEFT_CAPNP capnp REQUIRED)
pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
# Users of ZeroMQ do not need the dependencies that it was built with (Kerberos, PGM, libxml2). pkg_check_modules() reports them as
# include directories in its first run and as options in later runs, which would recompile every file.
find_path(WEFT_ZMQ_INCLUDE zmq.h HINTS ${zmq_INCLUDE_DIRS} REQUIRED)
set_target_properties(PkgConfig::zmq PROPERTIES INTERFACE_COMPILE_OPTIONS "" INTERFACE_INCLUDE_DIRECTORIES "${WEFT_ZMQ_INCLUDE}")
pkg_check_modules(slirp REQUIRED IMPORTED_TARGET slirp)
# Newer glibs ask for -pthread, which defines _REENTRANT and would make the precompiled headers invalid. Threads are linked anyway.
string(REPLACE "-pthread" "" SLIRP_OPTIONS "${slirp_CFLAGS_OTHER}")
set_target_properties(PkgConfig::slirp PROPERTIES INTERFACE_COMPILE_OPTIONS "${SLIRP_OPTIONS}")
pkg_check_modules(pcap REQUIRED IMPORTED_TARGET libpcap)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
if(WEFT_TESTS)
  find_package(GTest REQUIRED)
endif()
