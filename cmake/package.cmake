# cpack makes Debian packages, one for each component: winnow, libwinnow-dev, winnow-mpi, winnow-net and python3-winnow
# (scripts/package). Only over Debian's own LibTorch, which a package can depend on; over another one it makes an archive.
set(CPACK_PACKAGE_NAME winnow)
set(CPACK_PACKAGE_VENDOR "The Winnow authors")
set(CPACK_PACKAGE_CONTACT "The Winnow authors")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL program development)
if(WINNOW_WITH_MPI)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
if(WINNOW_WITH_NET)
  list(APPEND CPACK_COMPONENTS_ALL net)
endif()
if(WINNOW_WITH_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()
set(CPACK_GENERATOR TGZ)
if(torch_directory MATCHES "^/usr/(lib|share)/")
  set(CPACK_GENERATOR DEB)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME winnow)
# The summary before them is the project's.
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Winnow simulates a federation or takes part in a real one, injects the noise that
research studies, records every corruption in a ledger, and compares methods under the
same seed, bit for bit.")
# The libraries that the program is linked with, by the packages that hold them here.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS dataset-fashion-mnist)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "libwinnow-dev, python3-torch")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libwinnow-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "The static library, its headers and its CMake package, find_package(winnow), for
programs with methods of their own.")
set(development_depends libtorch-dev nlohmann-json3-dev libfmt-dev zlib1g-dev)
if(OPENBLAS_LIBRARY)
  list(APPEND development_depends libopenblas-dev)
endif()
if(WINNOW_WITH_ONEDNN)
  list(APPEND development_depends libdnnl-dev)
endif()
if(WINNOW_WITH_OPENCV)
  list(APPEND development_depends libopencv-core-dev libopencv-imgproc-dev libopencv-imgcodecs-dev)
endif()
list(JOIN development_depends ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)

set(CPACK_DEBIAN_MPI_PACKAGE_NAME winnow-mpi)
set(CPACK_DEBIAN_MPI_DESCRIPTION "The program behind winnow --engine mpi: one run on many cores and machines, with
the bits of a run in one process.")
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "winnow (= ${PROJECT_VERSION}), openmpi-bin")

set(CPACK_DEBIAN_NET_PACKAGE_NAME winnow-net)
set(CPACK_DEBIAN_NET_DESCRIPTION "The program behind winnow pki, serve and join: a federation between machines whose
data stays where it is, over gRPC with mutual TLS.")
set(CPACK_DEBIAN_NET_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_NET_PACKAGE_DEPENDS "winnow (= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-winnow)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "import winnow: experiments on arrays and tensors, rules as Python functions, results as
frames, models as modules.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
# The modules are built for one version of Python.
math(EXPR next_minor "0${Python3_VERSION_MINOR} + 1")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.${Python3_VERSION_MINOR}), python3 (<< 3.${next_minor}), python3-torch, python3-numpy")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS python3-pandas)
include(CPack)
