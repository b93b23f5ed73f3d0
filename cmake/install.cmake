# cmake --install puts two components in place: `program` (the program, its manual page, completion and
# documents) and `development` (the library, its headers and its CMake package); where there is MPI also `mpi`
# (winnow-mpi, which stands beside the program), where there is gRPC `net` (winnow-net, likewise), and `python`
# (python/CMakeLists.txt), the Python package. Of these three, those are left out that have not been built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS winnow_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(WINNOW_WITH_MPI)
  install(TARGETS winnow_mpi_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT mpi OPTIONAL)
endif()
if(WINNOW_WITH_NET)
  install(TARGETS winnow_net_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT net OPTIONAL)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)
install(FILES README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs experiments examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# Printed by the program when it is installed, so that they are what it is.
set(texts ${CMAKE_BINARY_DIR}/texts)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" \"-DPROGRAM=$<TARGET_FILE:winnow_program>\"
  \"-DOUTPUT=${texts}\" -P \"${PROJECT_SOURCE_DIR}/cmake/texts.cmake\" COMMAND_ERROR_IS_FATAL ANY)"
  COMPONENT program)
# Debian's zsh looks for those of packages in a folder of its own.
set(zsh_folder zsh/site-functions)
if(EXISTS /etc/debian_version)
  set(zsh_folder zsh/vendor-completions)
endif()
install(FILES ${texts}/winnow.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${texts}/winnow DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${texts}/_winnow DESTINATION ${CMAKE_INSTALL_DATADIR}/${zsh_folder} COMPONENT program)
install(FILES ${texts}/winnow.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)

install(TARGETS winnow_core winnow_report winnow_cli winnow EXPORT winnow_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY src/winnow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "mpi" EXCLUDE PATTERN "net" EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/src/winnow/base/build_info.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/winnow/base COMPONENT development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libwinnow-dev RENAME copyright COMPONENT development)
install(EXPORT winnow_targets NAMESPACE winnow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow
        FILE winnow_targets.cmake COMPONENT development)
configure_package_config_file(cmake/winnow-config.cmake.in winnow-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow)
write_basic_package_version_file(winnow-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/winnow-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/winnow-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(cmake/package.cmake)
endif()
