#!/usr/bin/env python3
"""Compiles the kernels for CUDA to sm_90 and reports registers, stacks and spills. No GPU is needed.

cargo run -p monadic-dl-gpu --example cuda -- target/cuda
python3 dl-gpu/examples/cuda/compile.py target/cuda

The compiler is that of the wheel `nvidia-cuda-nvrtc`, which is looked for among the packages of
Python and in NVRTC, a folder. Without it nothing is checked.
"""

import ctypes
import glob
import os
import re
import site
import sys

OPTIONS = [
    "--gpu-architecture=sm_90",
    "-default-device",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--ptxas-options=-v",
]


def library():
    folders = [os.environ.get("NVRTC", "")] + site.getsitepackages() + [site.getusersitepackages()]
    for folder in filter(None, folders):
        found = glob.glob(os.path.join(folder, "**", "libnvrtc.so.*"), recursive=True)
        if found:
            # its helper is found by name
            for helper in glob.glob(os.path.join(os.path.dirname(found[0]), "libnvrtc-builtins.so*")):
                ctypes.CDLL(helper, ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(found[0])
    return None


def compiled(nvrtc, text, name):
    """Whether the text compiles, and the log."""
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name, 0, None, None):
        sys.exit("no program can be made")
    options = (ctypes.c_char_p * len(OPTIONS))(*(option.encode() for option in OPTIONS))
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return not failed, log.value.decode()


def main():
    nvrtc = library()
    if nvrtc is None:
        print("there is no `nvidia-cuda-nvrtc`: kernels for CUDA are not compiled")
        return
    version = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(version[0]), ctypes.byref(version[1]))
    print(f"NVRTC {version[0].value}.{version[1].value}")
    only = sys.argv[2:]
    bad = 0
    for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.cu"))):
        name = os.path.basename(path)
        if only and not any(name.startswith(start) for start in only):
            continue
        with open(path, "rb") as file:
            ok, log = compiled(nvrtc, file.read(), name.encode())
        if not ok:
            bad += 1
            print(f"{name} does not compile:\n{log}")
            continue
        # a kernel is named, then its stack and spills, then its registers
        for kernel, stack, stores, loads, registers in re.findall(
            r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
            r"(\d+) bytes spill loads.*?Used (\d+) registers",
            log,
            re.DOTALL,
        ):
            spills = int(stores) + int(loads)
            bad += spills > 0
            if spills or "library" in name:
                print(f"{name} {kernel}: {registers} registers, {stack} bytes of stack, {spills} bytes of spills")
    sys.exit(f"{bad} kernels do not compile, or spill" if bad else None)


main()
