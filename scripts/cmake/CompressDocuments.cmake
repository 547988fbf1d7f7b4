# Run by cpack before it packs: Debian wants manual pages and changelogs compressed, without a date.
file(GLOB_RECURSE DOCUMENTS ${CPACK_TEMPORARY_DIRECTORY}/*.1 ${CPACK_TEMPORARY_DIRECTORY}/changelog*)
list(FILTER DOCUMENTS INCLUDE REGEX "/share/(man/man1/[^/]*\\.1|doc/[^/]*/changelog)$")
foreach(DOCUMENT ${DOCUMENTS})
  execute_process(COMMAND gzip -9n ${DOCUMENT} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
