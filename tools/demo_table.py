#!/usr/bin/env python3
"""Print the JSON of a benchmark or a recording as a few lines. usage: demo_table.py limits|record|bench FILE"""
import json
import sys

MIB = 1 << 20


def limits(answer):
    machine = answer["machine"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / (1 << 30):.0f} GiB, "
          f"{machine['file_system']}, Linux {machine['kernel']}")
    for key, words in (("memcpy", "memcpy, one thread"), ("crc32c", "crc32c, one thread"),
                       ("direct_ring4", "disk: O_DIRECT, ring of 4"), ("direct_one", "disk: O_DIRECT, one block at a time"),
                       ("buffered", "disk: write(2) and fsync")):
        rate = answer[key].get("mib_per_s")
        print(f"  {words:38} {f'{rate:8.0f} MiB/s' if rate else 'not to be had here'}")


def record(answer):
    print(f"  {answer['published']} of {answer['offered']} frames in {answer['seconds']:.2f} s: "
          f"{answer['mib_per_s']:.0f} MiB/s, append p99 {answer['append_us']['p99'] / 1e3:.2f} ms, "
          f"memory peak {answer['rss_bytes_peak'] / MIB:.0f} MiB of {answer['budget_bytes'] / MIB:.0f} + 16")


def bench(answer):
    for scenario in answer["scenarios"]:
        print(scenario["words"])
        limit = scenario["contenders"][0]
        for contender in scenario["contenders"]:
            rate = contender["mib_per_s"]
            print(f"  {contender['name']:32} {rate:7.0f} MiB/s  {rate / limit['mib_per_s']:5.2f} of the limit  "
                  f"{contender['rss_bytes_peak'] / MIB:5.0f} MiB peak")


{"limits": limits, "record": record, "bench": bench}[sys.argv[1]](json.load(open(sys.argv[2])))
