# The three functions with which every CMakeLists.txt of the tree is written.

set(TG_WARNINGS
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
  -Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wconversion -Wno-sign-conversion)

# tg_module(name SOURCES file... DEPS other... PKGS pkg-config-name...):
# one folder of src/, built alone. It links only the modules it names, so a test
# of a lower layer cannot reach a higher one. With no SOURCES it is an empty layer.
function(tg_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PKGS" ${ARGN})
  list(TRANSFORM arg_DEPS PREPEND tg_)
  if(arg_SOURCES)
    set(kind PUBLIC)
    add_library(tg_${name} STATIC ${arg_SOURCES})
    target_compile_options(tg_${name} PRIVATE ${TG_WARNINGS})
    set_property(GLOBAL APPEND PROPERTY TG_MODULES tg_${name})
  else()
    set(kind INTERFACE)
    add_library(tg_${name} INTERFACE)
  endif()
  target_include_directories(tg_${name} ${kind} ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(tg_${name} ${kind} _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64)
  target_compile_definitions(tg_${name} ${kind} TG_PLANT=${TG_PLANT})
  foreach(pkg IN LISTS arg_PKGS)
    string(MAKE_C_IDENTIFIER ${pkg} id)
    pkg_check_modules(TG_PKG_${id} REQUIRED IMPORTED_TARGET GLOBAL ${pkg})
    target_link_libraries(tg_${name} ${kind} PkgConfig::TG_PKG_${id})
    set_property(TARGET tg_${name} APPEND PROPERTY TG_PKGS ${pkg})
  endforeach()
  target_link_libraries(tg_${name} ${kind} ${arg_DEPS} Threads::Threads m)
endfunction()

# tg_test(name SOURCES file... DEPS module... [LABELS label...] [ARGS arg...] [TIMEOUT s]):
# one test program; its exit status 77 means skipped (tests/skips.txt lists the reasons allowed).
function(tg_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS;ARGS" ${ARGN})
  list(TRANSFORM arg_DEPS PREPEND tg_)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(test_${name} PRIVATE ${TG_WARNINGS})
  target_compile_definitions(test_${name} PRIVATE TG_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
  target_link_libraries(test_${name} PRIVATE ${arg_DEPS})
  add_test(NAME ${name} COMMAND test_${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT}
    LABELS "${arg_LABELS}")
endfunction()

# tg_fuzz(name SOURCES file DEPS module... CORPUS dir): a function
# LLVMFuzzerTestOneInput. Always built with tests/fuzz/replay.c and run over its
# committed corpus by ctest; with TG_BUILD_FUZZERS also as a libFuzzer program.
function(tg_fuzz name)
  cmake_parse_arguments(arg "" "CORPUS" "SOURCES;DEPS" ${ARGN})
  list(TRANSFORM arg_DEPS PREPEND tg_)
  add_executable(replay_${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
  target_include_directories(replay_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(replay_${name} PRIVATE ${TG_WARNINGS})
  target_link_libraries(replay_${name} PRIVATE ${arg_DEPS})
  add_test(NAME fuzz_${name} COMMAND replay_${name} ${arg_CORPUS})
  set_tests_properties(fuzz_${name} PROPERTIES TIMEOUT 120 LABELS fuzz)
  if(TG_BUILD_FUZZERS)
    add_executable(fuzz_${name} ${arg_SOURCES})
    target_include_directories(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(fuzz_${name} PRIVATE ${arg_DEPS})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
