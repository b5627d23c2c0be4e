"""Proves that the engine is sans-IO: its library depends on memory and the C++ runtime, and on nothing else.

    python tools/purity.py build/test/libopenmrc_engine.a

A clock, socket, thread, file, lock, environment variable or random source would appear as an undefined symbol. The list
below has the allowed symbols with reasons; any other is a failure that names the object file and the symbol.
"""

from __future__ import annotations

import re
import subprocess
import sys

ALLOWED = {
    "copying and comparing memory": r"mem(cpy|move|set|cmp|chr)|bcmp|strlen|strcmp|__mem(cpy|move|set)_chk",
    "operator new and delete": r"_Zn[wa]m(St11align_val_t)?(RKSt9nothrow_t)?|_Zd[la]Pv(m)?(St11align_val_t)?"
    r"(RKSt9nothrow_t)?|_ZSt7nothrow",
    "exceptions and run-time types": r"__cxa_(allocate_exception|free_exception|throw|rethrow|begin_catch|end_catch"
    r"|pure_virtual|call_unexpected|throw_bad_array_new_length|bad_cast|guard_(acquire|release|abort)|init_primary_exception)"
    r"|__gxx_personality_v0|_Unwind_Resume|_ZSt9terminatev|_ZSt\d+__throw_\w+|_ZTVN10__cxxabiv1\w+|_ZT[ISV]St\w+"
    r"|_ZNSt(9exception|11logic_error|13runtime_error|12length_error|12out_of_range|16invalid_argument|9bad_alloc"
    r"|20bad_array_new_length|17bad_function_call)\w*|_ZNKSt(9exception|11logic_error|13runtime_error|9bad_alloc)\w*",
    "std::string": r"_ZNK?St7__cxx1112basic_stringI\w+|_ZSt\w*basic_string\w*|_ZNSt7__cxx119to_string\w*",
    "red-black trees and hash tables": r"_ZSt(18_Rb_tree_(in|de)crement\w+|29_Rb_tree_insert_and_rebalance\w+"
    r"|28_Rb_tree_rebalance_for_erase\w+)|_ZNKSt8__detail20_Prime_rehash_policy\w+|_ZSt11_Hash_bytes\w+"
    r"|_ZNSt8__detail15_List_node_base\w+",
    # Decides between plain and atomic counting only.
    "reference counts of std::shared_ptr": r"__libc_single_threaded",
    "stack protector": r"__stack_chk_fail",
    "position-independent code": r"_GLOBAL_OFFSET_TABLE_|__dso_handle|__tls_get_addr",
    "what the processor can do": r"__cpu_model2?|__cpu_features2?|__cpu_indicator_init|__aarch64_\w+|getauxval",
    "arithmetic that the processor lacks": r"__(u?(div|mod|divmod)|mul|ashl|ashr|lshr)[td]i[34]"
    r"|__(popcount|clz|ctz)[dt]i2",
}


def symbols(archive: str, *options: str) -> list[tuple[str, str]]:
    """(object file, symbol) pairs listed by nm."""
    output = subprocess.run(["nm", "-A", *options, archive], check=True, capture_output=True, text=True).stdout
    pairs = []
    for line in output.splitlines():
        place, _, rest = line.partition(": ") if ": " in line else line.rpartition(":")
        if rest.split():
            pairs.append((place.split(":")[-1].split()[0], rest.split()[-1]))
    return pairs


def violations(undefined: list[tuple[str, str]], defined: set[str]) -> list[tuple[str, str]]:
    """The undefined symbols that no rule allows."""
    allowed = re.compile("|".join(f"(?:{pattern})" for pattern in ALLOWED.values()))
    return sorted({(o, s) for o, s in undefined if s not in defined and not allowed.fullmatch(s)})


def main(archives: list[str]) -> int:
    if len(archives) != 1:
        print("usage: purity.py LIBRARY.a", file=sys.stderr)
        return 2
    undefined = symbols(archives[0], "-u")
    defined = {symbol for _, symbol in symbols(archives[0], "--defined-only")}
    if not defined:
        print(f"{archives[0]} defines nothing: wrong file?", file=sys.stderr)
        return 2
    bad = violations(undefined, defined)
    for place, symbol in bad:
        print(f"not pure: {place} needs {symbol}", file=sys.stderr)
    if not bad:
        print(f"pure: {len(defined)} symbols, {len({s for _, s in undefined} - defined)} from outside, all allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
