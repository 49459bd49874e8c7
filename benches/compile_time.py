#!/usr/bin/env python3
"""Compile times: `python3 benches/compile_time.py`, or with `cold` or `macro` for one of the two measurements.

cold: clean development builds of crates that only depend on this library, on burn or on candle, in turns; and the number of
compiled crates. The sources are fetched before. Arguments for cargo may follow: `cold -j1`.

macro: the compile time of `#[differentiable]`. Generates crates of 200 functions of 30 lines, plain functions and layer functions, with
the macro and written by hand, and times `cargo check` and `cargo build` of that crate: the shortest of five, with proc-macros
optimised (the setting of the workspace and the docs) and without.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FUNCTIONS = 200
RUNS = 5

PLAIN = """
{attribute}
pub fn plain_{i}(values: &[f64], text: &str, limit: usize, flag: bool) -> Result<f64, std::num::ParseFloatError> {{
    let scale: f64 = text.trim().parse()?;
    let n = values.len();
    let mut total = 0.0;
    let mut largest = f64::MIN;
    for (i, value) in values.iter().enumerate() {{
        if i >= limit {{
            break;
        }}
        let weighted = value * scale + {i} as f64;
        total += weighted;
        if weighted > largest {{
            largest = weighted;
        }}
        if !flag && weighted < 0.0 {{
            continue;
        }}
        total = total - weighted * 0.5;
    }}
    let mean = if n == 0 {{ 0.0 }} else {{ total / n as f64 }};
    let spread: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let mut count = 0;
    let mut left = spread;
    while left > 1.0 {{
        left = left / 2.0 - mean * 0.001;
        count += 1;
        if count > 64 {{
            return Ok(largest);
        }}
    }}
    let bits = !(count as u64) & 0xFF;
    Ok(mean * scale + spread - largest * left + bits as f64)
}}
"""

ANNOTATED = """
#[differentiable]
pub fn layer_{i}(x: &Layer<f64>, net: &[Weight<f64>], limit: f64, n: usize) -> Layer<f64> {{
    let mut y = x * limit + 0.5;
    let mut rounds = 0;
    while !y < limit {{
        y = y + y * 0.25;
        rounds += 1;
        if rounds > n {{
            return y * {i} as f64;
        }}
    }}
    let a = !x;
    let b = !y;
    let first = &net[0];
    let second = &net[1];
    let left = first * x + y;
    let right = second * y - x;
    let chosen = if a > b {{
        left * 2.0
    }} else {{
        right * 3.0
    }};
    let v = !chosen;
    let result = match rounds {{
        0 => chosen + v,
        1 => {{
            let square = y * chosen;
            square + x
        }}
        _ => chosen - x * v,
    }};
    let error = result - limit;
    error * error
}}
"""

BY_HAND = """
pub fn layer_{i}(x: &Layer<f64>, net: &[Weight<f64>], limit: f64, n: usize) -> Layer<f64> {{
    let (x, net) = (x.clone(), net.to_vec());
    Layer::dynamic(move || {{
        let (x, net) = (x.clone(), net.clone());
        async move {{
            let mut y = &x * limit + 0.5;
            let mut rounds = 0;
            while y.extract().await? < limit {{
                y = &y + &y * 0.25;
                rounds += 1;
                if rounds > n {{
                    return Ok(y * {i} as f64);
                }}
            }}
            let (a, b) = futures::try_join!(x.extract(), y.extract())?;
            let left = &net[0] * &x + &y;
            let right = &net[1] * &y - &x;
            let chosen = if a > b {{
                left * 2.0
            }} else {{
                right * 3.0
            }};
            let v = chosen.extract().await?;
            let result = match rounds {{
                0 => &chosen + v,
                1 => &y * &chosen + &x,
                _ => &chosen - &x * v,
            }};
            let error = result - limit;
            Ok(&error * &error)
        }}
    }})
}}
"""

USE = "#![allow(unused_imports)]\nuse dl::prelude::*;\n"
SOURCES = {
    "plain": USE + "".join(PLAIN.format(i=i, attribute="") for i in range(FUNCTIONS)),
    "plain, annotated": USE + "".join(PLAIN.format(i=i, attribute="#[differentiable]") for i in range(FUNCTIONS)),
    "layers by hand": USE + "".join(BY_HAND.format(i=i) for i in range(FUNCTIONS)),
    "layers, annotated": USE + "".join(ANNOTATED.format(i=i) for i in range(FUNCTIONS)),
}
MANIFEST = """
[package]
name = "measured"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
dl = {{ package = "monadic-dl", path = "{root}" }}
futures = "0.3"
[profile.dev]
incremental = false
[profile.dev.build-override]
opt-level = {level}
"""


def seconds(crate, command, env):
    """The shortest time of a command on the crate for each source; dependencies are built, and the sources take turns."""
    times = {name: [] for name in SOURCES}
    for run in range(RUNS + 1):
        for name, source in SOURCES.items():
            (crate / "src/lib.rs").write_text(source)
            start = time.monotonic()
            subprocess.run(["cargo", command, "--quiet", "--offline"], cwd=crate, env=env, check=True)
            if run > 0:
                times[name].append(time.monotonic() - start)
    return {name: min(found) for name, found in times.items()}


COLD = {
    "dl": 'dl = {{ package = "monadic-dl", path = "{root}" }}',
    "candle": 'candle-core = "=0.11.1"\ncandle-nn = "=0.11.1"',
    # the features for training on the CPU; burn has no backend by default
    "burn": 'burn = {{ version = "=0.22.1", default-features = false, features = ["std", "autodiff", "ndarray"] }}',
    "burn, default features": 'burn = {{ version = "=0.22.1", features = ["autodiff", "ndarray"] }}',
}
COLD_MANIFEST = """
[package]
name = "measured"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
"""


def cold(arguments):
    """How long a development build from nothing takes, in all and of the processor, and how many crates it compiles."""

    def processor():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    print("| library | crates compiled | cold `cargo build` | processor time | `target` |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for name, dependencies in COLD.items():
            crate = pathlib.Path(directory) / name.replace(" ", "_").replace(",", "")
            (crate / "src").mkdir(parents=True)
            (crate / "Cargo.toml").write_text(COLD_MANIFEST + dependencies.format(root=ROOT))
            (crate / "src/lib.rs").write_text("")
            env = dict(os.environ, CARGO_TARGET_DIR=str(crate / "target"))
            subprocess.run(["cargo", "fetch", "--quiet"], cwd=crate, env=env, check=True)
            command = ["cargo", "build", "--quiet", "--offline", "--message-format", "json", *arguments]
            start, before = time.monotonic(), processor()
            built = subprocess.run(command, cwd=crate, env=env, check=True, stdout=subprocess.PIPE, text=True)
            seconds, worked = time.monotonic() - start, processor() - before
            artifacts = (json.loads(line) for line in built.stdout.splitlines())
            crates = {
                message["package_id"]
                for message in artifacts
                if message["reason"] == "compiler-artifact" and "custom-build" not in message["target"]["kind"]
            }
            size = sum(file.stat().st_size for file in (crate / "target").rglob("*") if file.is_file())
            # without the crate that depends on it
            print(f"| {name} | {len(crates) - 1} | {seconds:.0f} s | {worked:.0f} s | {size / 2**20:.0f} MiB |", flush=True)


def macro():
    with tempfile.TemporaryDirectory() as directory:
        for level in (2, 0):
            print(f"proc-macros with opt-level = {level}")
            crate = pathlib.Path(directory) / f"level{level}"
            (crate / "src").mkdir(parents=True)
            (crate / "Cargo.toml").write_text(MANIFEST.format(root=ROOT, level=level))
            (crate / "Cargo.lock").write_text((ROOT / "Cargo.lock").read_text())
            env = dict(os.environ, CARGO_TARGET_DIR=str(crate / "target"), CARGO_INCREMENTAL="0")
            for command in ("check", "build"):
                found = seconds(crate, command, env)
                for name, time_taken in found.items():
                    print(f"  cargo {command:<6} {name:<20} {time_taken:6.2f} s")
                print(f"  cargo {command:<6} plain  {found['plain, annotated'] / found['plain']:5.2f}× (at most 2)")
                print(f"  cargo {command:<6} layers {found['layers, annotated'] / found['layers by hand']:5.2f}× (at most 1.5)")


if __name__ == "__main__":
    which, *arguments = sys.argv[1:] or ["both"]
    if which in ("cold", "both"):
        cold(arguments)
    if which in ("macro", "both"):
        macro()
