#!/bin/sh
# Checks the device of this machine, which needs no Rust: run.sh CHECK [--small]. CHECK is the binary
# that `cargo build --release -p monadic-dl-gpu --example check` makes. Takes less than 8 minutes.
set -u
check=$1
shift
here=$(dirname "$0")
ls /etc/OpenCL/vendors 2>/dev/null || echo "no driver of OpenCL is registered in /etc/OpenCL/vendors"
timeout 120 "$check" bits "$@"
bits=$?
timeout 180 "$check" bench "$@"
timeout 60 "$check" ratios
timeout 170 "${PYTHON:-python3}" "$here/peers.py" --compile "$@" || echo "peers: PyTorch was not measured"
exit $bits
