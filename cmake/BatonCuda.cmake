# The CUDA language and what the CUDA backend is built with; included only with BATON_CUDA=ON.
#
# scripts/cuda_toolkit finds a toolkit or fetches one. Nothing of it is linked but the static runtime:
# cuBLASLt and NCCL are loaded when a GPU is used (kernels/cuda/device/shared_library.h), so that the binaries
# start on a machine without any of it and say what is missing.
set(BATON_CUDA_ARCHITECTURES "90a-real" CACHE STRING
  "GPU architectures to compile for, as CMAKE_CUDA_ARCHITECTURES; 90a-real is Hopper")

find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/cuda_toolkit
  OUTPUT_VARIABLE baton_cuda_found RESULT_VARIABLE baton_cuda_result)
if(NOT baton_cuda_result EQUAL 0)
  message(FATAL_ERROR "No CUDA toolkit for BATON_CUDA=ON: see above. Without it, use preset cpu.")
endif()
foreach(key CUDA_ROOT CUDA_VERSION CUDA_ORIGIN NCCL_ROOT FLASHINFER_INCLUDE)
  string(REGEX MATCH "${key}=([^\n]*)" matched "${baton_cuda_found}")
  set(BATON_${key} "${CMAKE_MATCH_1}")
endforeach()
message(STATUS "CUDA ${BATON_CUDA_VERSION} from ${BATON_CUDA_ORIGIN}: ${BATON_CUDA_ROOT}")
message(STATUS "NCCL: ${BATON_NCCL_ROOT}")
message(STATUS "GPU architectures: ${BATON_CUDA_ARCHITECTURES}")

set(CMAKE_CUDA_COMPILER ${BATON_CUDA_ROOT}/bin/nvcc)
set(CMAKE_CUDA_ARCHITECTURES ${BATON_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(CCACHE_PROGRAM)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${baton_ccache})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has it.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")

# Headers of the runtime and of cuBLASLt, the static runtime. (CMake 3.25's FindCUDAToolkit fails with
# CUDA 13: it expects a library that 13 no longer has.)
find_library(BATON_CUDART_STATIC cudart_static NO_CACHE REQUIRED NO_DEFAULT_PATH
  PATHS ${BATON_CUDA_ROOT}/lib64 ${BATON_CUDA_ROOT}/lib ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
add_library(baton_cuda_runtime_api INTERFACE)
target_include_directories(baton_cuda_runtime_api SYSTEM INTERFACE
  ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(baton_cuda_runtime_api INTERFACE
  ${BATON_CUDART_STATIC} Threads::Threads ${CMAKE_DL_LIBS} rt)
add_library(baton::cuda_runtime_api ALIAS baton_cuda_runtime_api)

# nccl.h; its functions are looked up at run time.
add_library(baton_nccl_headers INTERFACE)
target_include_directories(baton_nccl_headers SYSTEM INTERFACE ${BATON_NCCL_ROOT}/include)
target_link_libraries(baton_nccl_headers INTERFACE baton::cuda_runtime_api)
add_library(baton::nccl_headers ALIAS baton_nccl_headers)

add_library(baton_flashinfer INTERFACE)
target_include_directories(baton_flashinfer SYSTEM INTERFACE ${BATON_FLASHINFER_INCLUDE})
add_library(baton::flashinfer ALIAS baton_flashinfer)

# Binaries of the build tree find the fetched libraries; installed ones look beside themselves,
# and where the image has them.
list(APPEND CMAKE_BUILD_RPATH ${BATON_CUDA_ROOT}/lib64 ${BATON_NCCL_ROOT}/lib)
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../lib" "$ORIGIN/../lib/baton")

# baton_cuda_library(NAME SOURCES a.cc b.cu ... DEPS target ...)
# As baton_library, for sources of which some are CUDA. Kernels (.cu) include their own launch headers,
# CUDA, FlashInfer and plain headers of kernels, none of which include absl.
function(baton_cuda_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  string(REGEX REPLACE "^baton_" "" alias ${name})
  add_library(${name} STATIC ${arg_SOURCES})
  baton_compile_together(${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_DEPS})
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast
      -Wno-missing-field-initializers>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --expt-extended-lambda -Werror=all-warnings
      -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter>)
  add_library(baton::${alias} ALIAS ${name})
endfunction()
