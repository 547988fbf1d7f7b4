# cpack runs this before it packs: Debian policy asks for manual pages and changelogs that are compressed and contain no time stamp.
file(GLOB_RECURSE DOCUMENTS ${CPACK_TEMPORARY_DIRECTORY}/*.1 ${CPACK_TEMPORARY_DIRECTORY}/changelog*)
list(FILTER DOCUMENTS INCLUDE REGEX "/share/(man/man1/[^/]*\\.1|doc/[^/]*/changelog)$")
foreach(DOCUMENT ${DOCUMENTS})
  execute_process(COMMAND gzip -9n ${DOCUMENT} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
