//! Promise 10: plain Rust stays plain Rust.
