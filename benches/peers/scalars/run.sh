#!/usr/bin/env bash
# Scalar workloads, this library beside others: builds all, runs them in turns, and prints one table of medians.
#
#   benches/peers/scalars/run.sh        # needs a registry for the first build; ROUNDS=5 for more rounds
#
# Standard error shows lines CHECK with losses, values and gradients, which must agree between all of them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}/peers
rows=$(mktemp) log=$(mktemp)
trap 'rm -f "$rows" "$log"' EXIT
trap 'cat "$log" >&2' ERR
export RAYON_NUM_THREADS=1

cargo build --release --quiet --manifest-path "$here/Cargo.toml" --target-dir "$target"
cargo bench --quiet --manifest-path "$root/Cargo.toml" --bench executor --no-run
for _ in $(seq "${ROUNDS:-3}"); do
    cargo bench --quiet --manifest-path "$root/Cargo.toml" --bench executor -- --rows scalars 2>>"$log" |
        grep -E '^w2[abc],[^,]+,1,' >>"$rows"
    for peer in dfdx candle limit; do
        "$target/release/$peer" >>"$rows" 2>>"$log"
    done
done
grep ^CHECK "$log" | sort -u >&2

# Input: workload,variant,threads,peer,value,unit. A ratio says how many times faster `dl` is.
sort -t, -k1,1 -k4,4 -k5,5g "$rows" | awk -F, '
    { key = $1 FS $4; values[key, ++count[key]] = $5; name[$1] = $2; unit[$1] = $6 }
    function median(workload, peer,   key) { key = workload FS peer; return values[key, int((count[key] + 1) / 2)] }
    function ratio(workload, peer) {
        if (unit[workload] == "it/s") return median(workload, "dl") / median(workload, peer)
        return median(workload, peer) / median(workload, "dl")
    }
    END {
        printf "%-20s %-6s %12s %12s %12s %12s %9s %9s %9s\n",
            "workload", "unit", "dl", "dfdx", "candle", "limit", "dl:dfdx", "dl:candle", "dl:limit"
        for (i = 1; i <= split("w2a w2b w2c", workloads, " "); i++) {
            w = workloads[i]
            printf "%-20s %-6s %12.1f %12.1f %12.1f %12.1f %9.2f %9.2f %9.3f\n", w " " name[w], unit[w],
                median(w, "dl"), median(w, "dfdx"), median(w, "candle"), median(w, "limit"),
                ratio(w, "dfdx"), ratio(w, "candle"), ratio(w, "limit")
        }
    }'
