# Finds what Winnow stands on. Required: LibTorch, toml++, CLI11, nlohmann-json, fmt, zlib.
# Optional parts are left out with one line that says so.

find_package(Torch REQUIRED)
if(WINNOW_REQUIRE_CUDA AND NOT TORCH_CUDA_LIBRARIES AND NOT TARGET torch_cuda)
  message(FATAL_ERROR "The LibTorch in ${TORCH_INSTALL_PREFIX} has no CUDA. "
                      "Point CMAKE_PREFIX_PATH at one that has, or use the preset release.")
endif()
set(WINNOW_CUDA OFF)
if(TARGET torch_cuda)
  set(WINNOW_CUDA ON)
endif()

find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
# Newer LibTorch brings headers of its own fmt, which hide the system's: then no fmt library is linked.
set(WINNOW_FMT fmt::fmt)
foreach(directory ${TORCH_INCLUDE_DIRS})
  if(EXISTS ${directory}/fmt/format.h AND NOT directory STREQUAL "/usr/include")
    set(WINNOW_FMT fmt::fmt-header-only)
  endif()
endforeach()
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h REQUIRED)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_package(benchmark QUIET)

# Debian's LibTorch calls whatever libblas.so.3 is; linking OpenBLAS makes sure it is a fast one.
# A LibTorch that brings its own BLAS (MKL) needs nothing.
get_filename_component(torch_directory "${Torch_DIR}" REALPATH)
if(torch_directory MATCHES "^/usr/(lib|share)/")
  find_library(OPENBLAS_LIBRARY openblas)
  if(NOT OPENBLAS_LIBRARY)
    message(STATUS "winnow: OpenBLAS not found; training on a CPU will be two to four times slower")
  endif()
endif()

# Debian ships OpenCVConfig.cmake only in the package with all modules; we need three of them.
set(WINNOW_WITH_OPENCV OFF)
if(WINNOW_OPENCV)
  find_path(OPENCV_INCLUDE_DIR opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
  find_library(OPENCV_CORE opencv_core)
  find_library(OPENCV_IMGPROC opencv_imgproc)
  find_library(OPENCV_IMGCODECS opencv_imgcodecs)
  if(OPENCV_INCLUDE_DIR AND OPENCV_CORE AND OPENCV_IMGPROC AND OPENCV_IMGCODECS)
    set(WINNOW_WITH_OPENCV ON)
  endif()
endif()

set(WINNOW_LEFT_OUT "")
if(NOT WINNOW_WITH_OPENCV)
  list(APPEND WINNOW_LEFT_OUT "opencv (image folders and list files)")
endif()
if(NOT WINNOW_CUDA)
  list(APPEND WINNOW_LEFT_OUT "cuda (this LibTorch has none)")
endif()
list(JOIN WINNOW_LEFT_OUT ", " WINNOW_LEFT_OUT_TEXT)
if(WINNOW_LEFT_OUT_TEXT STREQUAL "")
  set(WINNOW_LEFT_OUT_TEXT "nothing")
endif()
message(STATUS "winnow: left out: ${WINNOW_LEFT_OUT_TEXT}")
