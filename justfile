# The commands. `.ci/run` does those down to `guide` as CI does them.

# All tests.
test:
    cargo test --workspace --all-features

# Formatting and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# The models of the executor, under two checkers. `MODEL_SCHEDULES=5000 LOOM_MAX_PREEMPTIONS=3 just model` explores more.
model *args:
    RUSTFLAGS="--cfg shuttle" CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test -p monadic-dl-core --target-dir target/model --lib model:: {{ args }}
    RUSTFLAGS="--cfg loom" CARGO_PROFILE_DEV_OPT_LEVEL=1 cargo test -p monadic-dl-core --target-dir target/model --lib model:: {{ args }}

# The documentation, without a warning.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# The guide as a book, in `target/guide` (`cargo install mdbook`); its listings are doc tests of `dl::guide`.
guide:
    mdbook build docs

# The packages as the registry would get them, each built from what is in it; sizes go to the end.
package *args:
    cargo publish --workspace --dry-run --allow-dirty {{ args }}
    ls -l "${CARGO_TARGET_DIR:-target}"/package/*.crate

# The lower bounds of all dependencies are true (needs a nightly cargo to choose the versions): in a copy, which goes again.
minimal:
    tools/minimal

# What has changed for users since a commit or a tag (`cargo install cargo-semver-checks`).
semver baseline:
    cargo semver-checks --workspace --all-features --baseline-rev {{ baseline }}

# All benchmarks.
bench *args:
    cargo bench --workspace {{ args }}

# The main job: a gated network learns handwritten digits.
example *args:
    cargo run --release --example gated_net -- {{ args }}

# Many damaged files for every reader: `just fuzz 1000000`.
fuzz runs="100000":
    DL_FUZZ_RUNS={{ runs }} cargo test --release -p monadic-dl-data --all-features --test all mutations::
    DL_FUZZ_RUNS={{ runs }} cargo test --release -p monadic-dl-train --test all mutations::

# Random programs in bang notation: how many are compiled, and from which seed.
programs count="200" seed="7":
    DL_PROGRAMS={{ count }} DL_PROGRAMS_SEED={{ seed }} cargo test -p programs

# A training run that is killed again and again goes on to the same bits.
kill times="200":
    DL_KILLS={{ times }} cargo test -p monadic-dl-train --test all -- --nocapture kill::killed

# How fast whole workloads are: `just figures w1 w5 --threads 1`.
figures *args:
    cargo bench --bench figures -- {{ args }}

# The same beside other libraries: `just peers setup` once, then `just peers measure`.
peers *args:
    benches/peers/run.sh {{ args }}
