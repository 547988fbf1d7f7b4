# Compiler settings and the functions that make targets. Flags go on targets, never into global variables.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=pch_defines,time_macros ${WEFT_CCACHE})
endif()

# weft_options holds what users of the installed libraries need as well; warnings and the like are only for our own sources.
add_library(weft_options INTERFACE)
target_compile_features(weft_options INTERFACE cxx_std_20)
target_include_directories(weft_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
add_compile_options(-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual)
if(WEFT_WERROR)
  add_compile_options(-Werror)
endif()
# No function of ours is replaced at load time, so position-independent code may inline them.
add_compile_options(-fno-semantic-interposition)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_compile_options(-march=x86-64-v2)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  add_compile_options(-march=armv8-a+crc)
endif()
if(WEFT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(WEFT_SANITIZE)
  # Two checks are left out because they take a tenth of the compilation: uses of null references and pointers that touch no memory, and
  # accesses beyond an object within its allocation. Accesses through null pointers end a program in any case.
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize=null,object-size -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE})
  target_compile_definitions(weft_options INTERFACE WEFT_DEEP_CHECKS=1)
endif()

# Standard headers that most sources include are precompiled: parsing them took half of a clean build. Each source still includes what
# it needs (house style 2). The debug preset and the static checks of scripts/test build without them and find missing includes.
set(WEFT_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cstring> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <unordered_map> <variant> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "// Nothing: precompiled headers belong to a target with a source.\n")
# weft_precompiled(HOLDER HEADER...): a target that holds these precompiled headers, for targets with the same flags.
function(weft_precompiled HOLDER)
  add_library(${HOLDER} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${HOLDER} PRIVATE weft_options fmt::fmt)
  target_precompile_headers(${HOLDER} PRIVATE ${ARGN})
endfunction()
# weft_use_precompiled(TARGET HOLDER): TARGET uses the precompiled headers of HOLDER.
function(weft_use_precompiled TARGET HOLDER)
  if(WEFT_PRECOMPILED_HEADERS)
    target_precompile_headers(${TARGET} REUSE_FROM ${HOLDER})
    # As the headers were compiled, also in a target that does not link with fmt.
    target_compile_definitions(${TARGET} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
    # g++ 12 warns about code inlined from precompiled system headers as if it were ours.
    target_compile_options(${TARGET} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread;-Wno-stringop-overflow>")
  endif()
endfunction()

# weft_precompiled_program(TARGET): the same for a program. It is compiled with the flags of libraries, so that all share one set of
# headers.
function(weft_precompiled_program TARGET)
  if(WEFT_PRECOMPILED_HEADERS)
    set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${TARGET} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
    weft_use_precompiled(${TARGET} weft_library_headers)
  endif()
endfunction()

# weft_batch(TARGET SOURCE...): in a build from clean, WEFT_BATCH sources are compiled as one, because reading the headers is most of
# the work.
function(weft_batch TARGET)
  if(WEFT_BATCH LESS_EQUAL 1)
    return()
  endif()
  set(COUNT 0)
  foreach(SOURCE ${ARGN})
    math(EXPR GROUP "${COUNT} / ${WEFT_BATCH}")
    math(EXPR COUNT "${COUNT} + 1")
    set_source_files_properties(${SOURCE} PROPERTIES UNITY_GROUP batch_${GROUP})
  endforeach()
  weft_sources_as_one(${TARGET})
endfunction()

# weft_sources_as_one(TARGET): compiles the sources of each UNITY_GROUP as one.
function(weft_sources_as_one TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Fields of a class that no header has may have types that no other file has.
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# weft_library(NAME SOURCES ... [PATH ...] LINK ... [PRIVATE_LINK ...]): one target per folder; LINK names the targets that it may use.
# The sources after PATH, which every cell passes, are compiled as one, so that calls between them are inlined, unless WEFT_BATCH is 0.
function(weft_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;PATH;LINK;PRIVATE_LINK" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SOURCES} ${ARG_PATH})
  if(WEFT_BATCH GREATER 0 AND ARG_PATH)
    weft_sources_as_one(${NAME})
    set_source_files_properties(${ARG_PATH} PROPERTIES UNITY_GROUP path)
  endif()
  weft_batch(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PUBLIC weft_options ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  weft_use_precompiled(${NAME} weft_library_headers)
  string(REPLACE "weft_" "" SHORT ${NAME})
  set_target_properties(${NAME} PROPERTIES EXPORT_NAME ${SHORT})
  add_library(Weft::${SHORT} ALIAS ${NAME})
  set_property(GLOBAL APPEND PROPERTY WEFT_LIBRARIES ${NAME})
endfunction()

# weft_quick_build(TARGET LEVEL): optimises code that need not be fast less, in the builds of CI: -O0, or -O1, at which g++ 12 warns
# falsely of uninitialised values.
function(weft_quick_build TARGET LEVEL)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" OR WEFT_SANITIZE)
    target_compile_options(${TARGET} PRIVATE ${LEVEL} $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # g++ 13 and newer reject headers that were precompiled at another level; that only costs time.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
      set_target_properties(${TARGET} PROPERTIES PCH_WARN_INVALID OFF)
    endif()
  endif()
endfunction()

# weft_no_lines(TARGET): no line numbers in the reports of sanitizers about code of tests: a tenth of its compilation.
function(weft_no_lines TARGET)
  if(WEFT_SANITIZE)
    target_compile_options(${TARGET} PRIVATE -g0)
  endif()
endfunction()

# weft_capnp(TARGET SCHEMA...): compiles Cap'n Proto schemas of the current folder into TARGET. Include the result as
# "generated/FOLDER/NAME.capnp.h", only in source files (decisions 5.7). Generated code counts as a system header.
function(weft_capnp TARGET)
  file(RELATIVE_PATH FOLDER ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(OUT ${CMAKE_BINARY_DIR}/generated/generated/${FOLDER})
  file(MAKE_DIRECTORY ${OUT})
  foreach(SCHEMA ${ARGN})
    add_custom_command(OUTPUT ${OUT}/${SCHEMA}.c++ ${OUT}/${SCHEMA}.h
      COMMAND ${WEFT_CAPNP} compile -oc++:${OUT} --src-prefix=${CMAKE_CURRENT_SOURCE_DIR}
              ${CMAKE_CURRENT_SOURCE_DIR}/${SCHEMA}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${SCHEMA} VERBATIM)
    set_source_files_properties(${OUT}/${SCHEMA}.c++ PROPERTIES COMPILE_OPTIONS -w SKIP_LINTING ON
      SKIP_PRECOMPILE_HEADERS ON)
    target_sources(${TARGET} PRIVATE ${OUT}/${SCHEMA}.c++ ${OUT}/${SCHEMA}.h)
  endforeach()
  target_include_directories(${TARGET} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${TARGET} PRIVATE PkgConfig::capnp)
endfunction()

# weft_program(NAME SOURCES ... LINK ...): a program that will be installed.
function(weft_program NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE weft_options ${ARG_LINK})
  weft_batch(${NAME} ${ARG_SOURCES})
  weft_precompiled_program(${NAME})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  set_property(GLOBAL APPEND PROPERTY WEFT_PROGRAMS ${NAME})
endfunction()

# weft_test_code(TARGET): compiled quickly, and three times as many sources at once as of the product: their templates are those of
# GoogleTest, which each batch instantiates anew.
function(weft_test_code TARGET)
  weft_quick_build(${TARGET} -O0)
  weft_no_lines(${TARGET})
  weft_use_precompiled(${TARGET} weft_test_headers)
  if(WEFT_BATCH GREATER 1)
    math(EXPR SIZE "3 * ${WEFT_BATCH}")
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${SIZE})
  endif()
endfunction()

# weft_tests(FOLDER LINK ... [TIMEOUT seconds]): makes of all .cc files below tests/FOLDER one GoogleTest program, one CTest entry, and
# one record file for scripts/clauses. A program that runs longer than TIMEOUT (default 120) is ended; three times that under sanitizers,
# and twelve times under an emulator.
function(weft_tests FOLDER)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LINK;LABELS" ${ARGN})
  file(GLOB SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${FOLDER}/*.cc)
  if(NOT SOURCES)
    return()
  endif()
  string(REPLACE "/" "_" NAME "test_${FOLDER}")
  add_executable(${NAME} ${SOURCES})
  target_link_libraries(${NAME} PRIVATE weft_options weft_test_support ${ARG_LINK} GTest::gtest_main GTest::gmock)
  weft_test_code(${NAME})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    math(EXPR ARG_TIMEOUT "12 * ${ARG_TIMEOUT}")
  elseif(WEFT_SANITIZE)
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  add_dependencies(test_programs ${NAME})
  string(REPLACE "_" "/" LABEL ${FOLDER})
  add_test(NAME ${FOLDER} COMMAND ${NAME} --gtest_output=json:${CMAKE_BINARY_DIR}/records/${NAME}.json)
  # A core is two processors of CTest (tests/system/CMakeLists.txt).
  set_tests_properties(${FOLDER} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${FOLDER};${ARG_LABELS}" PROCESSORS 2
    ENVIRONMENT "WEFT_BIN=${CMAKE_BINARY_DIR}/bin;WEFT_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()
