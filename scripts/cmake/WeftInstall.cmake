# cmake --install: programs, libraries, headers and the exported package Weft::.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
get_property(LIBRARIES GLOBAL PROPERTY WEFT_LIBRARIES)
get_property(PROGRAMS GLOBAL PROPERTY WEFT_PROGRAMS)
