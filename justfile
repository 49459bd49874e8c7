# The commands. `.ci/run` does all but the last two as CI does them.

# All tests.
test:
    cargo test --workspace

# Formatting and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The models of the executor, under two checkers. `MODEL_SCHEDULES=5000 LOOM_MAX_PREEMPTIONS=3 just model` explores more.
model *args:
    RUSTFLAGS="--cfg shuttle" cargo test -p monadic-dl-core --target-dir target/model --lib model:: {{ args }}
    RUSTFLAGS="--cfg loom" cargo test -p monadic-dl-core --target-dir target/model --lib model:: {{ args }}

# The documentation, without a warning.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# All benchmarks.
bench *args:
    cargo bench --workspace {{ args }}

# The main job: a gated network learns handwritten digits.
example *args:
    cargo run --release --example gated_net -- {{ args }}
