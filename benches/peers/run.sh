#!/usr/bin/env bash
# Compares this library with others on the same workloads and numbers (benches/README.md).
#
#   benches/peers/run.sh setup                            # builds and installs all peers; takes long and about 10 GB
#   benches/peers/run.sh measure [workload…] [--quick]    # measures, compares the losses, prints the table
#   benches/peers/run.sh table                            # the table of the last measurement, as Markdown
#   benches/peers/run.sh operations [word…] [--quick]     # every operation on tensors beside PyTorch, on two threads
#   benches/peers/run.sh catalog                          # writes these ratios into the table of operations
#
# Environment: PEERS_FOLDER, the output folder (target/peers); THREADS="1 2"; LIBRARIES="dl limit …", see below;
# ROUNDS=3 measures each workload three times with all libraries in turns and takes medians (ROUNDS_w4=9 for one workload): for shared machines;
# KEEP=1 keeps earlier rows: a row that is measured again replaces the earlier one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${PEERS_FOLDER:-$root/target/peers}
python=$folder/python/bin/python
all="dl limit gemm torch-eager torch-compile jax burn-flex burn-ndarray candle dfdx"
libraries=${LIBRARIES:-$all}
mkdir -p "$folder"

build() { # crate, generic or native
    local flags=""
    [ "$2" = native ] && flags="-C target-cpu=native"
    # one at a time: cargo would unify the features of shared dependencies
    (cd "$here" && RUSTFLAGS=$flags cargo build --locked --release -p "$1-peer" --target-dir "$folder/$2")
}

setup() {
    [ -x "$python" ] || python3 -m venv "$folder/python"
    "$python" -m pip install --quiet -r "$here/python/requirements.txt"
    for crate in burn candle dfdx; do
        build $crate generic
        build $crate native
    done
    build gemm generic
    # for AVX2 and AVX-512 only
    build limit native || echo "no limit on this machine" >&2
}

# Sets `command` to the command that runs a library; empty if it is not installed.
command_of() { # library, generic or native, threads
    command=()
    local threads=$3
    case $1 in
    dl) command=("$figures" --bench --rows --threads "$threads") ;;
    torch-*) command=("$python" "$here/python/torch_peer.py" "$threads" "$1") ;;
    jax) command=("$python" "$here/python/jax_peer.py" "$threads" jax) ;;
    gemm) command=("$folder/generic/release/gemm-peer" "$threads" gemm) ;;
    limit) command=("$folder/native/release/limit-peer" "$threads" limit) ;;
    *) command=("$folder/$2/release/${1%%-*}-peer" "$threads" "$1@$2") ;;
    esac
    [ -x "${command[0]}" ] || command=()
}

builds_of() {
    case $1 in
    dl | limit | gemm | torch-* | jax) echo one ;;
    *) echo "generic native" ;;
    esac
}

# Runs a command on the given number of cores, with the thread-count variables of the libraries set to match.
on_cores() { # threads, command…
    local threads=$1 cores
    shift
    cores=0-$((threads - 1))
    env OMP_NUM_THREADS="$threads" MKL_NUM_THREADS="$threads" RAYON_NUM_THREADS="$threads" MATMUL_NUM_THREADS="$threads" \
        taskset -c "$cores" "$@"
}

# A library that fails does not stop the others; its rows are missing from the table, and the log has the reason.
row_of() {
    if "$@" >"$folder/rows.new" 2>>"$folder/log.txt"; then
        tee -a "$folder/run.csv" <"$folder/rows.new"
    else
        echo "FAIL: $*" | tee -a "$folder/log.txt" >&2
    fi
}

# Builds a benchmark of this library, and prints its path.
bench_of() {
    (cd "$root" && cargo bench --bench "$1" --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
}

operations() {
    local bench threads=${THREADS:-2}
    bench=$(bench_of operations)
    [ "${KEEP:-0}" = 1 ] || rm -f "$folder/operations.csv"
    on_cores "$threads" "$python" "$here/python/operations.py" measure "$bench" "$threads" "${ROUNDS:-3}" "$folder/operations.csv" "$@"
    python3 "$here/python/operations.py" table "$folder/operations.csv"
}

measure() {
    local workloads=() flags=() keep=() argument threads workload rounds
    for argument in "$@"; do
        case $argument in
        --*) flags+=("$argument") ;;
        *) workloads+=("$argument") ;;
        esac
    done
    [ ${#workloads[@]} -gt 0 ] || workloads=(w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 gated_net)
    figures=$(bench_of figures)
    if [ "${KEEP:-0}" = 1 ]; then
        keep=(--keep)
        touch "$folder/log.txt"
        sed -i /^FAIL/d "$folder/log.txt"
    else
        : >"$folder/log.txt"
    fi
    rm -f "$folder/run.csv"
    for threads in ${THREADS:-1 2}; do
        for workload in "${workloads[@]}"; do
            rounds=ROUNDS_$workload
            for _ in $(seq "${!rounds:-${ROUNDS:-1}}"); do
                measure_workload "$threads" "$workload"
            done
        done
    done
    echo
    python3 "$here/table.py" "$folder" --new "${keep[@]}"
}

# Measures one workload round by round with all libraries, so that their conditions are similar.
measure_workload() { # threads, workload
    local threads=$1 workload=$2 library kind tuned
    for library in $libraries; do
        for kind in $(builds_of "$library"); do
            [ "$workload" != gated_net ] || [ "$library" = dl ] || continue
            command_of "$library" "$kind" "$threads"
            [ ${#command[@]} -gt 0 ] || continue
            # other Rust libraries return large buffers to the system and allocate them again in each step, unless malloc is
            # configured not to; this library is measured without configuration
            tuned=()
            [ "$kind" = one ] || tuned=(env MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296)
            row_of on_cores "$threads" "${tuned[@]}" "${command[@]}" "$workload" "${flags[@]}"
            case $workload,$kind in
            w[56],one | w[56],generic | w9,one | w1[01],one)
                row_of on_cores "$threads" python3 "$here/peak.py" "$workload" "$threads" "$library" "${command[@]}" "$workload" --quick
                ;;
            esac
        done
    done
}

case ${1:-} in
setup) setup ;;
measure) measure "${@:2}" ;;
operations) operations "${@:2}" ;;
catalog) python3 "$here/python/operations.py" catalog "$folder/operations.csv" "$root/dl-nd/src/ops/catalog.md" ;;
table) python3 "$here/table.py" "$folder" --markdown ;;
*) sed -n '2,/^set/{/^#/!d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" ;;
esac
