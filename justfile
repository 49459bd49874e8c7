# The five commands. `.ci/run` does the first three as CI does them.

# All tests.
test:
    cargo test --workspace

# Formatting and lints.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# The documentation, without a warning.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# All benchmarks.
bench *args:
    cargo bench --workspace {{ args }}

# The main job: a gated network learns handwritten digits.
example *args:
    cargo run --release --example gated_net -- {{ args }}
