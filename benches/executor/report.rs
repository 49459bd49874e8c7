//! Output of figures with their goals, and as rows in the format of `benches/peers`.

use crate::timing::Seen;

/// Prints each figure when it is measured, and the rows, if requested, at the end.
#[derive(Default)]
pub(crate) struct Report {
    rows: Option<Vec<String>>,
    reached: usize,
    missed: Vec<String>,
}

/// The goal of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// No goal: printed for comparison only.
    None,
}

/// One figure. `workload`, `variant` and `threads` name it in the rows, `text` for the reader.
pub(crate) struct Figure<'a> {
    pub(crate) workload: &'a str,
    pub(crate) variant: &'a str,
    pub(crate) threads: usize,
    pub(crate) text: &'a str,
    pub(crate) seen: Seen,
    pub(crate) unit: &'a str,
    pub(crate) goal: Goal,
    /// Further measurements, for the reader only.
    pub(crate) also: String,
}

impl Report {
    pub(crate) fn with_rows() -> Self {
        Report { rows: Some(Vec::new()), ..Report::default() }
    }

    pub(crate) fn section(&self, title: &str) {
        println!("\n{title:<62} {:>9} {:>9}", "median", "fastest");
    }

    pub(crate) fn figure(&mut self, figure: Figure<'_>) {
        let Figure { workload, variant, threads, text, seen, unit, goal, also } = figure;
        let value = seen.median;
        let (wanted, reached) = match goal {
            Goal::AtLeast(least) => (format!("at least {}", number(least)), Some(value >= least)),
            Goal::AtMost(most) => (format!("at most {}", number(most)), Some(value <= most)),
            Goal::None => (String::new(), None),
        };
        let verdict = match reached {
            Some(true) => "reached",
            Some(false) => "missed",
            None => "",
        };
        let (median, fastest) = (number(value), number(seen.fastest));
        let line = format!("  {text:<60} {median:>9} {fastest:>9} {unit:<6} {wanted:<19} {verdict:<8} {also}");
        println!("{}", line.trim_end());
        match reached {
            Some(true) => self.reached += 1,
            Some(false) => self.missed.push(format!("{workload}, {variant}")),
            None => {}
        }
        self.row(workload, variant, threads, value, unit);
    }

    /// Adds a row without a line for the reader.
    pub(crate) fn row(&mut self, workload: &str, variant: &str, threads: usize, value: f64, unit: &str) {
        if let Some(rows) = &mut self.rows {
            rows.push(format!("{workload},{variant},{threads},dl,{value:.6},{unit}"));
        }
    }

    pub(crate) fn end(self) {
        println!("\n{} of {} goals reached", self.reached, self.reached + self.missed.len());
        if !self.missed.is_empty() {
            println!("missed: {}", self.missed.join("; "));
        }
        if let Some(rows) = self.rows {
            println!("\nworkload,variant,threads,peer,value,unit");
            rows.iter().for_each(|row| println!("{row}"));
        }
    }
}

/// Prints results to standard error, by which the libraries are checked against each other.
pub(crate) fn check(workload: &str, variant: &str, results: &[f32]) {
    let results: Vec<String> = results.iter().map(|result| format!("{result:.6}")).collect();
    eprintln!("CHECK {workload},{variant},dl,{}", results.join(" "));
}

/// A number with few significant digits and thousands separators.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 1_000.0 {
        let digits = if value.abs() < 10.0 { 2 } else { 1 };
        let text = format!("{value:.digits$}");
        return text.strip_suffix(".0").unwrap_or(&text).to_owned();
    }
    let whole = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
