# Every public header compiles alone (house style 2): one generated source per header, compiled, never linked.
file(GLOB HEADERS CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  ${CMAKE_SOURCE_DIR}/base/*.h ${CMAKE_SOURCE_DIR}/messages/*.h ${CMAKE_SOURCE_DIR}/fabric/*.h ${CMAKE_SOURCE_DIR}/channel/*.h
  ${CMAKE_SOURCE_DIR}/hca/*.h ${CMAKE_SOURCE_DIR}/tca/*.h ${CMAKE_SOURCE_DIR}/host_driver/*.h
  ${CMAKE_SOURCE_DIR}/iou_driver/*.h ${CMAKE_SOURCE_DIR}/sim/*.h)
foreach(HEADER ${HEADERS})
  string(REPLACE "/" "_" NAME ${HEADER})
  set(SOURCE ${CMAKE_BINARY_DIR}/header_check/${NAME}.cc)
  file(CONFIGURE OUTPUT ${SOURCE} CONTENT "#include \"@HEADER@\"\n" @ONLY)
  list(APPEND SOURCES ${SOURCE})
endforeach()
add_library(header_check OBJECT ${SOURCES})
target_compile_options(header_check PRIVATE -fsyntax-only)
target_link_libraries(header_check PRIVATE weft_options fmt::fmt)
