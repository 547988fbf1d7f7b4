# Toolchain of the presets for clang: the compiler that scripts/clang finds.
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../clang clang++ OUTPUT_VARIABLE WEFT_CLANG OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
set(CMAKE_CXX_COMPILER ${WEFT_CLANG})
