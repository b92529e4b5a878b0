"""No AVX-512 instruction outside what the avx512 path alone calls, and no AMX instruction outside
what the amx path alone calls. Usage: isa_test.py LIBRARY

A kernel compiled for AVX2 that contains one would crash the machines that need it, and a machine
with AVX-512 or AMX cannot notice by running it."""
import re
import subprocess
import sys

# Highway's namespace of the avx512 kernels, and the loops that measure its peak.
ALLOWED = re.compile(r"N_AVX3|Avx512\w+Loop|DotLoop")
AVX512 = re.compile(r"%zmm|%k[1-7]\b|%[xy]mm(1[6-9]|2\d|3[01])\b")
# Of these, those whose names say so.
ALLOWED_AMX = re.compile(r"Amx")
AMX = re.compile(r"%tmm|ldtilecfg|tilerelease")


def offenders(disassembly):
    function, found, kernels = "", set(), 0
    for line in disassembly:
        if line.endswith(">:\n"):
            function = line.split("<", 1)[1][:-3]
            kernels += "N_AVX2" in function
        elif AVX512.search(line) and not ALLOWED.search(function):
            found.add(function)
        elif AMX.search(line) and not ALLOWED_AMX.search(function):
            found.add(function)
    return found, kernels


def main():
    command = ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", sys.argv[1]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        found, kernels = offenders(process.stdout)
    if process.returncode != 0 or kernels == 0:
        sys.exit(f"cannot read the AVX2 kernels of {sys.argv[1]}")
    if found:
        sys.exit("AVX-512 or AMX instructions in:\n  " + "\n  ".join(sorted(found)))
    print(f"{kernels} functions for AVX2, none with AVX-512 or AMX instructions")


main()
