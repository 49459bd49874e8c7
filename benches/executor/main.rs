//! The overhead of the executor, with a goal for each figure.
//!
//! ```sh
//! cargo bench --bench executor                    # everything
//! cargo bench --bench executor -- scalars nodes   # some sections
//! cargo bench --bench executor -- --rows          # print rows, too: workload,variant,threads,peer,value,unit
//! cargo bench --bench executor -- --quick         # short measurements, for a smoke test
//! ```
//!
//! The sections are `cores`, `scalars`, `shared`, `nodes`, `compiled`, `scale` and `parallel`.
//! Compared variants take turns in each round, and ratios and differences are taken within a round.
//! The figure is the median over the rounds. The second column is computed from the fastest runs
//! and is more reliable on a busy machine.

mod busy;
mod compiled;
mod cores;
mod nodes;
mod parallel;
mod report;
mod scalars;
mod scale;
mod shared;
mod timing;

use report::Report;
use timing::Clock;

fn main() {
    let (mut clock, mut report, mut sections) = (Clock::thorough(), Report::default(), Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => {} // passed by cargo
            "--quick" => clock = Clock::quick(),
            "--rows" => report = Report::with_rows(),
            section if SECTIONS.iter().any(|(name, _)| *name == section) => sections.push(argument),
            unknown => {
                eprintln!("`{unknown}` is neither a flag nor a section; see the head of benches/executor/main.rs");
                std::process::exit(2);
            }
        }
    }
    for (name, measure) in SECTIONS {
        if sections.is_empty() || sections.iter().any(|section| section == name) {
            measure(&clock, &mut report);
        }
    }
    report.end();
}

type Section = fn(&Clock, &mut Report);

const SECTIONS: [(&str, Section); 7] = [
    ("cores", cores::measure),
    ("scalars", scalars::measure),
    ("shared", shared::measure),
    ("nodes", nodes::measure),
    ("compiled", compiled::measure),
    ("scale", scale::measure),
    ("parallel", parallel::measure),
];
