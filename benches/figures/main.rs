//! The speed of whole workloads: one row each, `workload,variant,threads,library,value,unit`, and a
//! table at the end.
//!
//! ```sh
//! cargo bench --bench figures                    # everything, on one thread and on two
//! cargo bench --bench figures -- w1 w5           # some workloads
//! cargo bench --bench figures -- w1 --variants ';skip'   # variants with this in their name
//! cargo bench --bench figures -- --threads 1     # on one thread only; a list such as `1,2,4` is possible
//! cargo bench --bench figures -- --rows          # the rows without the table
//! cargo bench --bench figures -- --quick         # short measurements, for a smoke test
//! cargo bench --bench figures --features view -- --trace step.json   # writes a trace of two threads in a step of the paper's network
//! ```
//!
//! The workloads are defined in `benches/README.md`. Other libraries run them with the same numbers
//! (`benches/peers`). Results for a comparison are printed to standard error.

#[path = "../peers/common/src/lib.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "the peers, which are crates of their own, use all of it"
)]
mod common;
mod conv;
mod dense;
mod gated_net;
mod generation;
mod mlp;
mod paper;
mod pointwise;
mod prediction;
mod products;
mod scalars;
mod table;
#[cfg(feature = "view")]
mod trace;
#[cfg(not(feature = "view"))]
mod trace {
    pub(crate) fn save(path: &str) -> dl::Result<()> {
        Err(dl::Error::invalid(format!("to write `{path}` needs `--features view`")))
    }
}
mod transformers;
mod tree_lstm;

// the network and the data of the example
#[path = "../../examples/common/digits.rs"]
mod digits;
#[path = "../../examples/gated_net/network.rs"]
#[allow(dead_code, reason = "the example counts what it builds")]
mod network;

use common::{Bench, Pace};

fn main() {
    let Arguments { workloads, variants, threads, pace, rows, trace } =
        Arguments::parse(std::env::args().skip(1)).unwrap_or_else(|what| fail(&what));
    if let Some(path) = trace {
        return trace::save(&path).unwrap_or_else(|error| fail(&format!("no trace: {error}")));
    }
    let mut all = Vec::new();
    for threads in threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let mut bench = Bench::new("dl", threads, pace);
        bench.chosen.clone_from(&workloads);
        bench.variants.clone_from(&variants);
        pool.install(|| {
            for (name, measure) in WORKLOADS {
                bench.run(name, measure);
            }
        });
        all.extend(bench.rows);
    }
    if !rows {
        table::print(&all);
    }
}

/// Prints an error and exits.
fn fail(what: &str) -> ! {
    eprintln!("{what}; see the head of benches/figures/main.rs");
    std::process::exit(2);
}

type Workload = fn(&mut Bench);

const WORKLOADS: [(&str, Workload); 12] = [
    ("w1", paper::measure),
    ("w2", scalars::measure),
    ("w3", pointwise::measure),
    ("w4", products::measure),
    ("w5", mlp::measure),
    ("w6", conv::measure),
    ("w7", tree_lstm::measure),
    ("w8", prediction::measure),
    ("w9", transformers::encode),
    ("w10", transformers::train),
    ("w11", generation::measure),
    ("gated_net", gated_net::measure),
];

struct Arguments {
    workloads: Vec<String>,
    variants: String,
    threads: Vec<usize>,
    pace: Pace,
    rows: bool,
    trace: Option<String>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Arguments {
            workloads: Vec::new(),
            variants: String::new(),
            threads: vec![1, 2],
            pace: Pace::THOROUGH,
            rows: false,
            trace: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => {} // passed by cargo
                "--quick" => arguments.pace = Pace::QUICK,
                "--rows" => arguments.rows = true,
                "--trace" => arguments.trace = Some(words.next().ok_or("--trace takes the path of a file")?),
                "--variants" => arguments.variants = words.next().ok_or("--variants takes a part of their names")?,
                "--threads" => {
                    let numbers = words.next().unwrap_or_default();
                    let numbers = numbers.split(',').map(|number| number.parse().ok().filter(|&number| number > 0));
                    arguments.threads =
                        numbers.collect::<Option<_>>().ok_or("--threads takes numbers: `1` or `1,2`")?;
                }
                workload if WORKLOADS.iter().any(|(name, _)| *name == workload) => arguments.workloads.push(word),
                _ => return Err(format!("`{word}` is neither a flag nor a workload")),
            }
        }
        Ok(arguments)
    }
}
