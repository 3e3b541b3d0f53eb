#!/usr/bin/env python3
"""Checks the shape of the sources: who includes whom, how long files are, and that nothing large lies among them.

The arrows between layers are read from the dyad_layer(... DEPENDS ...) lines of CMakeLists.txt, so they
are written down once. Prints every violation as file:line: message and exits with 1 if there is any.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 800
MAX_BYTES = 1 << 20     # of any file that git has: results and models of a run are easily added by mistake

# Third-party headers and the only places that may include them. ".cpp" means: never in a header.
THIRD_PARTY = [
    (r"llvm(-c)?/", ["dyad/codegen/llvm/"], ""),
    (r"(dnnl|oneapi)", ["dyad/runtime/cpu/", "tests/runtime/", "bench/"], ""),
    (r"(lapack|cblas|lapacke)\.h", ["dyad/runtime/cpu/"], ".cpp"),
    (r"omp\.h", ["dyad/runtime/", "bench/"], ""),
    (r"google/protobuf/|.*\.pb\.h", ["dyad/onnx/", "tests/onnx/"], ""),
    (r"nlohmann/", ["dyad/io/", "dyad/debug/", "tests/", "bench/", "tools/"], ".cpp"),
    (r"zlib\.h", ["dyad/data/", "dyad/io/", "tests/"], ".cpp"),
    (r"fmt/", ["dyad/", "tests/", "bench/", "tools/"], ".cpp"),
    (r"CLI/", ["tools/", "bench/"], ".cpp"),
    (r"g(test|mock)/", ["tests/"], ""),
    (r"benchmark/", ["bench/"], ""),
    (r"torch/", ["bench/peers/"], ""),
]
# Headers of the system that are no part of the C++ library.
SYSTEM = re.compile(r"(sys|linux|bits|asm)/|(unistd|fcntl|dlfcn|elf|link|pthread|sched|poll|termios|cxxabi|"
                    r"execinfo|glob|ftw|dirent|malloc|immintrin|cpuid|x86intrin|features|locale|signal|"
                    r"errno|math|string|stdio|stdlib|stdint|stddef|inttypes|float|limits|time)\.h$")

# Folders in which a header may include a third-party one; then no public header may reach it.
PRIVATE_HEADERS = ("dyad/codegen/llvm/", "dyad/runtime/cpu/", "dyad/onnx/")

# Where the standard library has its names. Layers are compiled with its headers precompiled, so that the
# compiler would not miss one; here it is missed.
STANDARD = {
    "algorithm": "all_of any_of binary_search clamp copy copy_backward copy_if copy_n count count_if equal equal_range "
                 "fill fill_n find find_first_of find_if find_if_not for_each generate includes inplace_merge "
                 "is_sorted lexicographical_compare lower_bound max max_element merge min min_element minmax "
                 "minmax_element mismatch next_permutation none_of nth_element partial_sort partition ranges "
                 "remove remove_if replace reverse reverse_copy rotate search set_difference set_intersection "
                 "set_union shuffle sort stable_partition stable_sort swap_ranges transform unique upper_bound",
    "array": "array to_array",
    "atomic": "atomic atomic_ref memory_order memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero endian has_single_bit popcount rotl rotr",
    "charconv": "chars_format from_chars to_chars",
    "chrono": "chrono",
    "cmath": "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor "
             "fma fmax fmin fmod frexp hypot isfinite isinf isnan ldexp lgamma llround log log10 log1p log2 lround "
             "modf nearbyint nextafter pow remainder rint round scalbn signbit sin sinh sqrt tan tanh tgamma trunc",
    "complex": "complex",
    "concepts": "constructible_from convertible_to derived_from floating_point integral invocable same_as "
                "signed_integral unsigned_integral",
    "condition_variable": "condition_variable",
    "cstdlib": "abort abs exit free getenv malloc strtod strtol",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strerror strlen",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception terminate uncaught_exceptions",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream",
    "functional": "equal_to function greater hash invoke less multiplies negate plus reference_wrapper",
    "initializer_list": "initializer_list",
    "iterator": "back_inserter inserter make_move_iterator",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "addressof default_delete enable_shared_from_this make_shared make_unique shared_ptr "
              "static_pointer_cast unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "numbers": "numbers",
    "numeric": "accumulate exclusive_scan gcd iota lcm partial_sum reduce",
    "optional": "make_optional nullopt optional",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "source_location": "source_location",
    "span": "as_bytes as_writable_bytes span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "domain_error invalid_argument length_error logic_error out_of_range runtime_error",
    "string": "getline stod stof stoi stol stoll stoull string to_string",
    "string_view": "string_view",
    "thread": "jthread this_thread thread",
    "tuple": "apply forward_as_tuple make_tuple tie tuple tuple_cat tuple_element_t tuple_size_v",
    "type_traits": "conditional_t decay_t false_type integral_constant is_arithmetic_v is_const_v is_enum_v "
                   "is_floating_point_v is_integral_v is_invocable_r_v is_invocable_v is_same_v is_signed_v "
                   "is_unsigned_v is_void_v make_signed_t make_unsigned_t remove_cvref_t remove_reference_t "
                   "true_type type_identity underlying_type_t void_t",
    "typeindex": "type_index",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "declval exchange in_place index_sequence integer_sequence make_index_sequence make_pair pair",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HOME_OF = {name: header for header, names in STANDARD.items() for name in names.split()}
# Headers that are bound to bring another one, by what they declare.
BRINGS = {"string": {"string_view"}, "filesystem": {"string", "string_view"}, "fstream": {"string", "string_view"},
          "sstream": {"string", "string_view"}, "map": {"utility"}, "unordered_map": {"utility"}, "tuple": {"utility"},
          "concepts": {"type_traits"}, "optional": {"utility"}, "mutex": {"chrono"}, "thread": {"chrono"},
          "cmath": {"cstdlib"}}  # both have std::abs

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def allowed_arrows():
    """layer -> the layers it may include, itself included."""
    text = (ROOT / "CMakeLists.txt").read_text()
    allowed = {}
    for name, rest in re.findall(r"^dyad_layer\((\w+)\s*([^)]*)\)", text, re.M):
        found = re.search(r"DEPENDS((?: +[a-z]\w*)+)", rest)
        allowed[name] = {name}.union(*(allowed[d] for d in (found[1].split() if found else [])))
    return allowed


def sources():
    for top in ("dyad", "tests", "examples", "bench", "tools"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".h", ".inl", ".cpp"):
                yield path.relative_to(ROOT).as_posix()


def includes_of(path):
    """(line number, included name, whether in quotes) of each include."""
    found = []
    for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match[1] or match[2], match[1] is not None))
    return found


def check():
    allowed = allowed_arrows()
    problems = []
    graph = {path: includes_of(path) for path in sources()}

    def problem(path, number, text):
        problems.append(f"{path}:{number}: {text}")

    for path, includes in graph.items():
        parts = path.split("/")
        layer = parts[1] if parts[0] == "dyad" and len(parts) > 2 else None
        if layer and layer not in allowed:
            problem(path, 1, f"dyad/{layer} is no layer: add dyad_layer({layer} ...) to CMakeLists.txt")
            continue
        lines = (ROOT / path).read_text(errors="replace").count("\n")
        if lines > MAX_LINES:
            problem(path, MAX_LINES, f"{lines} lines; the limit is {MAX_LINES}: split it along its seams")
        if path.endswith(".h") and not re.search(r"^#(pragma once|ifndef DYAD_)", (ROOT / path).read_text(), re.M):
            problem(path, 1, "no #pragma once")
        # This way each header that has a source is compiled before anything that could hide what it lacks.
        own = path[:-4] + ".h"
        if layer and path.endswith(".cpp") and own in graph and (not includes or includes[0][1] != own):
            problem(path, includes[0][0] if includes else 1, f'the first include must be "{own}"')

        for number, name, quoted in includes:
            if name.startswith("dyad/") and not name.endswith(".pb.h"):
                if name not in graph:
                    problem(path, number, f"{name} does not exist")
                target = name.split("/")
                if layer and len(target) > 2 and target[1] not in allowed[layer]:
                    problem(path, number, f"layer {layer} may not include {name}: {layer} sees only "
                            + ", ".join(l for l in allowed if l in allowed[layer]))
                continue
            for pattern, folders, suffix in THIRD_PARTY:
                if re.match(pattern, name):
                    if not path.startswith(tuple(folders)):
                        problem(path, number, f"<{name}> belongs to {' '.join(folders)} only")
                    elif suffix and path.startswith("dyad/") and not path.endswith(suffix):
                        problem(path, number, f"<{name}> is for {suffix} files: public headers include no third-party header")
                    break
            else:
                if quoted:
                    beside = not layer and (ROOT / path).parent.joinpath(name).exists()
                    if not beside and not (ROOT / name).exists():
                        problem(path, number, f'"{name}" does not exist: included paths start at the root, as "dyad/..."')
                elif ("/" in name or name.endswith(".h")) and not SYSTEM.match(name):
                    problem(path, number, f"<{name}> is an unknown third-party header: give it its place in tests/repo/layers.py")

    check_public(graph, problem)
    check_cycles(graph, problem)
    check_standard(graph, problem)
    return problems


def check_standard(graph, problem):
    """Each file of a layer includes the standard headers of the names that it uses, itself or through Dyad's."""
    reached = {}

    def headers_of(path):
        if path not in reached:
            reached[path] = set()  # circles are reported elsewhere
            for _, name, quoted in graph.get(path, []):
                if quoted:
                    reached[path] |= headers_of(name)
                else:
                    reached[path] |= {name} | BRINGS.get(name, set())
        return reached[path]

    for path in graph:
        # What is compiled without them, or is a part of a source, needs no check.
        if not path.startswith("dyad/") or path.startswith("dyad/codegen/llvm/") or path.endswith(".inl"):
            continue
        has, missed = headers_of(path), set()
        for number, line in enumerate((ROOT / path).read_text(errors="replace").splitlines(), 1):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]
            for name in re.findall(r"\bstd::(\w+)", code):
                home = HOME_OF.get(name)
                if home and home not in has and home not in missed:
                    missed.add(home)
                    problem(path, number, f"std::{name} needs #include <{home}>")


def check_public(graph, problem):
    """No public header may reach a private one, and so a third-party one, through its includes."""
    for path, includes in graph.items():
        if path.startswith("dyad/") and path.endswith(".h") and not path.startswith(PRIVATE_HEADERS):
            for number, name, _ in includes:
                if name.startswith(PRIVATE_HEADERS) and reaches_third_party(graph, name, set()):
                    problem(path, number, f"a public header may not include {name}, which includes a third-party header")


def reaches_third_party(graph, path, seen):
    seen.add(path)
    for _, name, _ in graph.get(path, []):
        if any(re.match(pattern, name) for pattern, _, _ in THIRD_PARTY):
            return True
        if name in graph and name not in seen and reaches_third_party(graph, name, seen):
            return True
    return False


def check_cycles(graph, problem):
    headers = {p: [(n, i) for n, i, _ in inc if i in graph] for p, inc in graph.items() if p.endswith(".h")}
    state = collections.defaultdict(int)  # 0 new, 1 on the way, 2 done

    def visit(path, trail):
        state[path] = 1
        for number, name in headers[path]:
            if state[name] == 1:
                problem(path, number, "includes go in a circle: " + " -> ".join(trail[trail.index(name):] + [name]))
            elif state[name] == 0 and name in headers:
                visit(name, trail + [name])
        state[path] = 2

    for path in headers:
        if state[path] == 0:
            visit(path, [path])


def large_files():
    """Of what git has, if this is a repository (an archive is none)."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.stat().st_size > MAX_BYTES:
            yield "%s: %d bytes; more than %d does not belong into the repository" % (
                name, path.stat().st_size, MAX_BYTES)


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    found = check() + list(large_files())
    print("\n".join(found) if found else "layers, third-party headers and file lengths are in order")
    sys.exit(1 if found else 0)
