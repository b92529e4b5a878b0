# The two shapes of target in this tree. Each folder's CMakeLists.txt is a list of dependencies.

# Much of the time of a compilation goes into third-party headers, so the sources of a target are
# compiled sixteen at a time. A source with compile options of its own is still compiled alone.
option(BATON_UNITY "Compile the sources of a target sixteen at a time" ON)
function(baton_compile_together name)
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${BATON_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  if(BATON_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes every included file for a header, where such a class would be a defect; headers_test.py
    # asks for this warning.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()

# baton_library(NAME [COLD] SOURCES a.cc ... DEPS target ...)
# Adds static library NAME (or an INTERFACE library when it has no sources) and the alias baton::NAME
# without its "baton_" prefix. Headers are included by their path from the repository root. COLD is code
# that no request or step waits for: it is optimized less, which takes a fifth off its compile time.
function(baton_library name)
  cmake_parse_arguments(arg "COLD" "" "SOURCES;DEPS" ${ARGN})
  string(REGEX REPLACE "^baton_" "" alias ${name})
  if(arg_SOURCES)
    add_library(${name} STATIC ${arg_SOURCES})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE baton_warnings)
    baton_compile_together(${name})
    if(arg_COLD AND NOT BATON_SANITIZE)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${arg_DEPS})
  endif()
  add_library(baton::${alias} ALIAS ${name})
endfunction()

# CI runs most unit tests once, under AddressSanitizer: `shipped` leaves them out of the build without sanitizers, except
# in folders that set BATON_TEST_SHIPPED.
set(BATON_UNIT_TESTS all CACHE STRING "all, or shipped: without those that preset cpu-asan is enough for")
if(NOT BATON_UNIT_TESTS MATCHES "^(all|shipped)$")
  message(FATAL_ERROR "BATON_UNIT_TESTS is '${BATON_UNIT_TESTS}'; expected all or shipped")
endif()

# baton_test(NAME [SERIAL] SOURCES a_test.cc ... DEPS target ... [LABELS unit|process|sim ...] [TIMEOUT seconds])
# One GoogleTest binary and one ctest entry. The default label is "unit". Target LABEL_tests builds all
# tests of a label. SERIAL says that one thread at a time runs what is tested, or those of OpenMP, whose barriers
# ThreadSanitizer does not see: it finds nothing there, and its presets leave these tests out. (The threads that load
# a model are what load_cache_test and model_test test.)
function(baton_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(arg_SERIAL AND BATON_SANITIZE STREQUAL "thread")
    return()
  endif()
  if(BATON_UNIT_TESTS STREQUAL "shipped" AND "unit" IN_LIST arg_LABELS AND NOT BATON_TEST_SHIPPED)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  baton_compile_together(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE BATON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} GTest::gmock GTest::gtest_main baton_warnings)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(BATON_SANITIZE)
    math(EXPR arg_TIMEOUT "4 * ${arg_TIMEOUT}")  # code is that much slower there
  endif()
  foreach(label ${arg_LABELS})
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${name})
  endforeach()
  # No test leaves anything in the folders of whoever runs it.
  set(environment GOMP_SPINCOUNT=1000 XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test_cache)
  if(BATON_SANITIZE STREQUAL "thread")
    # ThreadSanitizer does not see the barriers of Debian's libgomp.
    list(APPEND environment OMP_THREAD_LIMIT=1)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "${environment}")
endfunction()

# baton_gpu_test(NAME SOURCES ... DEPS ...): needs a GPU, and a build with BATON_CUDA. Built
# everywhere and enabled where a driver is; elsewhere ctest lists it as disabled. tests/gpu/run runs
# the binaries themselves.
if(EXISTS /dev/nvidiactl)
  set(gpu_is_here ON)
else()
  set(gpu_is_here OFF)
endif()
option(BATON_GPU_TESTS "Run the tests that need a GPU" ${gpu_is_here})
function(baton_gpu_test name)
  baton_test(${name} ${ARGN} LABELS gpu TIMEOUT 600)
  if(NOT BATON_GPU_TESTS)
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
  endif()
endfunction()
