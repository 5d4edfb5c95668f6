#!/bin/sh
# plants.sh [NUMBER...]: builds the library with each planted bug (docs/testing.md) and demands
# that a test named for it fails, by what it found: a test that ran out of time has found nothing.
# Part of make soak. Exit 1: a bug was not caught.
set -u
cd "$(dirname "$0")/../.." || exit 1
missed=0

plant() { # plant NUMBER TARGETS TESTS: one of the tests (a regular expression) must fail
    number=$1
    case " $wanted " in *" $number "*) ;; *) return ;; esac
    build=build/plant-$number
    # shellcheck disable=SC2086
    if ! cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTG_PLANT="$number" >"$build.log" 2>&1 ||
        ! ninja -C "$build" $2 >>"$build.log" 2>&1; then
        echo "FAIL plant $number: does not build (whole output: $build.log)"
        missed=$((missed + 1))
        return
    fi
    ctest --test-dir "$build" -R "$3" >>"$build.log" 2>&1
    # A test that passes, is skipped, cannot be found or ran out of time has caught nothing.
    caught=$(grep -cE '\*\*\*(Failed|Exception)' "$build.log")
    late=$(grep -c '\*\*\*Timeout' "$build.log")
    if [ "$caught" -gt 0 ]; then
        echo "ok   plant $number: caught by $caught of $3"
    else
        echo "FAIL plant $number: not caught by $3 ($late ran out of time)"
        missed=$((missed + 1))
    fi
}

wanted=${*:-1 2 3 4 5 6 7 8 11 12 13 14 15}
rigs='tg_shim fs_shutdown store_victim'
plant 1 "$rigs" '^fault_store_powercut_'
plant 2 'test_contract_store_faults' '^contract_store_faults$'
plant 3 'test_contract_store_faults' '^contract_store_faults$'
plant 4 "$rigs tidegate check_recording" '^sweep_record_(errno|powercut_)'
plant 5 'test_stream_flow' '^stream_flow$'
plant 6 'test_stream_record test_stream_layout' '^stream_(record|layout)$'
plant 7 "$rigs tidegate check_recording" '^sweep_record_errno$'
plant 8 'test_zarr_shard_index' '^zarr_shard_index$'
plant 11 test_exec_pool '^exec_pool$'
plant 12 test_base_mem '^base_mem$'
plant 13 test_exec_budget '^exec_budget$'
plant 14 test_base_journal '^base_journal$'
plant 15 test_region_engine '^region_engine$'
[ "$missed" = 0 ]
