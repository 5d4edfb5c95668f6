#!/usr/bin/env python3
"""Write src/chem/elements_table.c from a table of isotopes: make_elements.py ELEMENTS.csv [--check OUT.c]"""
import csv
import pathlib
import sys


def generate(path):
    isotopes = {}
    for row in csv.DictReader(path.open(newline="")):
        isotopes.setdefault(row["symbol"], []).append((row["isotope_mass"], row["abundance"]))
    out = [
        "/* chem/elements_table.c - the isotopes of the elements. Made by tools/make_elements.py",
        " * from tests/data/ims/elements.csv: do not edit. */",
        '#include "chem/elements.h"',
        "",
        "/* clang-format off */",
        "const tg_isotope_entry tg_isotope_table[TG_N_ISOTOPES] = {",
    ]
    for symbol, entries in isotopes.items():
        out.append("    " + " ".join(f"{{{mass}, {abundance}}}," for mass, abundance in entries) + f" /* {symbol} */")
    out += ["};", "", "const tg_element tg_element_table[TG_N_ELEMENTS] = {"]
    first = 0
    for symbol, entries in isotopes.items():
        out.append(f'    {{"{symbol}", {first}, {len(entries)}}},')
        first += len(entries)
    out += ["};", ""]
    return "\n".join(out)


text = generate(pathlib.Path(sys.argv[1]))
if len(sys.argv) > 3 and sys.argv[2] == "--check":
    sys.exit(pathlib.Path(sys.argv[3]).read_text() != text)
sys.stdout.write(text)
