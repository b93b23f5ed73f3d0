# cmake --install puts the program, the library, its headers and its CMake package in place.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS winnow EXPORT winnow_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS winnow_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY src/winnow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/src/winnow/base/build_info.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/winnow/base)
install(EXPORT winnow_targets NAMESPACE winnow:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow
        FILE winnow_targets.cmake)
configure_package_config_file(cmake/winnow-config.cmake.in winnow-config.cmake
        INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow)
write_basic_package_version_file(winnow-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/winnow-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/winnow-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/winnow)
