# Language level, warnings, sanitizers and the compiler cache for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Paths below the tree are compared relative to the build folder, so that a preset finds what another one
# compiled with the same flags.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(baton_ccache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${baton_ccache})
endif()

# Half the time of the default linker, for some eighty binaries; it comes with Debian's binutils.
find_program(GOLD_PROGRAM ld.gold)
if(GOLD_PROGRAM)
  add_link_options(-fuse-ld=gold)
endif()

# What asserts names its file from the top of the tree. Beside reading better, that makes the objects of two checkouts
# the same, so that one finds in the cache what the other compiled.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")

# Release keeps assertions of third-party headers off and symbols small; CHECK is always on.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")

# GCC collects garbage each time its heap has doubled, from 128 MiB on. Allowed half a gigabyte (in KiB here)
# it rarely has to, which takes a twentieth off the time of a compilation.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=524288>")
endif()

# Clang, which only fuzzing needs, knows other warnings than GCC, whose the sources are held to.
add_library(baton_warnings INTERFACE)
if(NOT BATON_FUZZ)
  target_compile_options(baton_warnings INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wno-missing-field-initializers)
endif()

if(BATON_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BATON_FUZZ needs clang and its libFuzzer; type: scripts/fuzz")
  endif()
  add_compile_options(-O1)  # tests/fuzz instruments what it fuzzes
  add_link_options(-fsanitize=address,undefined)
elseif(BATON_SANITIZE STREQUAL "address")
  # Compiling is most of the time of a sanitizer's run, and -Og takes a third off it. Functions with many accesses
  # check them by calls, which compiles faster and sees the same. What is checked at every access by a pointer
  # (null, alignment, size and type of the object) would take another third. Null pointers stop the process anyway, and
  # what lies outside of an object AddressSanitizer sees; a pointer of wrong alignment or type stays unseen.
  add_compile_options(-fsanitize=address,undefined
    -fno-sanitize=null,alignment,object-size,vptr,nonnull-attribute,returns-nonnull-attribute
    -fno-sanitize-recover=all -fno-omit-frame-pointer -Og
    "SHELL:--param asan-instrumentation-with-call-threshold=200")
  add_link_options(-fsanitize=address,undefined)
elseif(BATON_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=thread)
elseif(NOT BATON_SANITIZE STREQUAL "")
  message(FATAL_ERROR "BATON_SANITIZE is '${BATON_SANITIZE}'; expected address, thread or nothing")
endif()
