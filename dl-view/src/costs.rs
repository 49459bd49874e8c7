//! Costs by source line.

mod table;

use crate::time;
use dl_core::Branch;
use dl_core::record::{Direction, NodeKind, NodeRecord, PassRecord, Recording, SpanWork};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::{Add, AddAssign};
use std::panic::Location;
use std::time::Duration;

/// The costs of passes, attributed to the source lines that built the layers, and the arms taken by
/// each decision.
///
/// `Display` prints a table, most expensive line first; [`to_json`](Costs::to_json) is for
/// programs.
///
/// *Time* is thread time summed over all threads: two busy threads accumulate two seconds per
/// second. A kernel that runs within the poll of a body counts for its own line only. Scalar
/// arithmetic takes nanoseconds and is counted but not timed. The construction of the backward
/// graph, and with it the deltas of scalars, is the row "backward construction" of
/// [`runtime`](Costs::runtime); computing the deltas of tensors counts as *backward* of the lines
/// of their operations.
///
/// ```
/// use dl_core::record::Recorder;
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_view::Costs;
/// let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
/// for _ in 0..10 {
///     (&w * &w).train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
/// }
/// let costs = Costs::of(&recorder.take());
/// assert_eq!((costs.passes, costs.lines.len(), costs.lines[0].evaluations), (10, 1, 10));
/// assert!(costs.lines[0].forward.is_zero());
/// let walks = costs.runtime.iter().find(|row| row.what == "backward construction").expect("a row for ten passes");
/// assert!(walks.times == 10 && !walks.time.is_zero());
/// println!("{costs}");
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The number of passes.
    pub passes: usize,
    /// The wall-clock time of the passes, from beginning to end, summed over passes.
    pub elapsed: Duration,
    /// The costs of each line, most expensive first.
    pub lines: Vec<LineCost>,
    /// The decisions, ordered by source position.
    pub branches: Vec<BranchCost>,
    /// The costs that belong to no line.
    pub runtime: Vec<RuntimeCost>,
}

/// The costs of one source line.
///
/// ```
/// use dl_core::record::Recorder;
/// use dl_core::{Differentiable, Weight};
/// use dl_view::{Costs, LineCost};
/// let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
/// w.sin().predict().recorded(&recorder).wait()?;
/// let LineCost { line, evaluations, .. } = &Costs::of(&recorder.take()).lines[0];
/// assert_eq!((*line, *evaluations), (line!() - 2, 1));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LineCost {
    /// The path of the file, as the compiler reports it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The text of the line; `None` if the file cannot be read from the current directory.
    pub source: Option<String>,
    /// The number of values computed by operations and bodies.
    pub evaluations: usize,
    /// The number of deltas computed.
    pub deltas: usize,
    /// The time spent on values, summed over threads.
    pub forward: Duration,
    /// The time spent on deltas, summed over threads.
    pub backward: Duration,
    /// The size of the computed values and deltas in bytes.
    pub bytes: usize,
}

/// How often each arm of a decision was taken.
///
/// ```
/// use dl_view::{BranchCost, Costs};
/// // how often the first arm of a decision was taken
/// fn share(branch: &BranchCost) -> f64 {
///     let all: usize = branch.arms.iter().map(|(_, taken)| taken).sum();
///     branch.arms[0].1 as f64 / all as f64
/// }
/// assert_eq!(Costs::default().branches.iter().map(share).sum::<f64>(), 0.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BranchCost {
    /// The path of the file, as the compiler reports it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
    /// The source text of the condition.
    pub condition: String,
    /// The source text of each arm, and how often it was taken.
    pub arms: Vec<(String, usize)>,
}

/// A cost that belongs to no line.
///
/// ```
/// use dl_core::record::Recorder;
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_view::{Costs, RuntimeCost};
/// let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
/// w.sin().train(&Sgd::new(0.1)).recorded(&recorder).wait()?;
/// let runtime: Vec<RuntimeCost> = Costs::of(&recorder.take()).runtime;
/// assert!(runtime.iter().all(|row| row.times > 0));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeCost {
    /// The kind of work.
    pub what: &'static str,
    /// The number of times it was done.
    pub times: usize,
    /// The time it took, summed over threads.
    pub time: Duration,
}

impl LineCost {
    /// The time of the line, forward and backward.
    ///
    /// ```
    /// assert!(dl_view::LineCost::default().time().is_zero());
    /// ```
    pub fn time(&self) -> Duration {
        self.forward + self.backward
    }
}

impl Costs {
    /// The costs of all passes of a recording. Reads the source files of the lines, if they exist.
    ///
    /// ```
    /// use dl_core::record::Recording;
    /// assert_eq!(dl_view::Costs::of(&Recording::default()), dl_view::Costs::default());
    /// ```
    pub fn of(recording: &Recording) -> Costs {
        let spans = recording.passes.iter().flat_map(|pass| &pass.spans);
        let mut own = time::self_times(spans).into_iter();
        let mut tally = Tally::default();
        for pass in &recording.passes {
            let times: Vec<Duration> = own.by_ref().take(pass.spans.len()).collect();
            tally.count(pass, &times);
        }
        let elapsed = recording.passes.iter().map(|pass| pass.ended.saturating_sub(pass.began)).sum();
        let mut costs = Costs { passes: recording.passes.len(), elapsed, ..tally.costs() };
        costs.read_sources();
        costs
    }

    /// The total thread time, of lines and of runtime work.
    ///
    /// ```
    /// assert!(dl_view::Costs::default().time().is_zero());
    /// ```
    pub fn time(&self) -> Duration {
        let runtime: Duration = self.runtime.iter().map(|row| row.time).sum();
        self.lines.iter().map(LineCost::time).sum::<Duration>() + runtime
    }

    /// The costs as JSON, with times in nanoseconds.
    ///
    /// ```
    /// let json = dl_view::Costs::default().to_json();
    /// assert!(json.contains("\"passes\": 0"));
    /// ```
    pub fn to_json(&self) -> String {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let line = |line: &LineCost| {
            json!({
                "file": line.file, "line": line.line, "source": line.source,
                "evaluations": line.evaluations, "deltas": line.deltas,
                "forward_ns": nanos(line.forward), "backward_ns": nanos(line.backward), "bytes": line.bytes,
            })
        };
        let branch = |branch: &BranchCost| {
            let arm = |(arm, taken): &(String, usize)| json!({ "arm": arm, "taken": taken });
            json!({
                "file": branch.file, "line": branch.line, "column": branch.column, "condition": branch.condition,
                "arms": branch.arms.iter().map(arm).collect::<Vec<_>>(),
            })
        };
        let runtime = |row: &RuntimeCost| json!({ "what": row.what, "times": row.times, "time_ns": nanos(row.time) });
        let all = json!({
            "passes": self.passes,
            "elapsed_ns": nanos(self.elapsed),
            "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
            "branches": self.branches.iter().map(branch).collect::<Vec<_>>(),
            "runtime": self.runtime.iter().map(runtime).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }

    fn sort(&mut self) {
        self.lines.sort_by(|a, b| b.time().cmp(&a.time()).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line))));
        self.branches.sort_by(|a, b| (&a.file, a.line, a.column, &a.arms).cmp(&(&b.file, b.line, b.column, &b.arms)));
    }

    fn read_sources(&mut self) {
        let mut files: HashMap<&str, Option<String>> = HashMap::new();
        for line in &mut self.lines {
            let text = files.entry(&line.file).or_insert_with(|| fs::read_to_string(&line.file).ok());
            let source = text.as_ref().and_then(|text| text.lines().nth(line.line.checked_sub(1)? as usize));
            line.source = source.map(|source| source.trim().to_string());
        }
    }
}

/// The sum of two costs, for example of two recordings of one program.
///
/// ```
/// use dl_view::Costs;
/// let mut all = Costs::default();
/// all += Costs { passes: 2, ..Costs::default() };
/// assert_eq!((all + Costs { passes: 1, ..Costs::default() }).passes, 3);
/// ```
impl Add for Costs {
    type Output = Costs;

    fn add(mut self, other: Costs) -> Costs {
        self += other;
        self
    }
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Costs) {
        self.passes += other.passes;
        self.elapsed += other.elapsed;
        for line in other.lines {
            match self.lines.iter_mut().find(|known| (&known.file, known.line) == (&line.file, line.line)) {
                None => self.lines.push(line),
                Some(known) => {
                    known.evaluations += line.evaluations;
                    known.deltas += line.deltas;
                    known.forward += line.forward;
                    known.backward += line.backward;
                    known.bytes += line.bytes;
                }
            }
        }
        for branch in other.branches {
            let names = |branch: &BranchCost| branch.arms.iter().map(|(arm, _)| arm.clone()).collect::<Vec<_>>();
            let same = |known: &&mut BranchCost| {
                (&known.file, known.line, known.column) == (&branch.file, branch.line, branch.column)
                    && known.condition == branch.condition
                    && names(known) == names(&branch)
            };
            match self.branches.iter_mut().find(same) {
                None => self.branches.push(branch),
                Some(known) => known.arms.iter_mut().zip(branch.arms).for_each(|(known, (_, taken))| known.1 += taken),
            }
        }
        for row in other.runtime {
            match self.runtime.iter_mut().find(|known| known.what == row.what) {
                None => self.runtime.push(row),
                Some(known) => (known.times, known.time) = (known.times + row.times, known.time + row.time),
            }
        }
        self.sort();
    }
}

/// A decision with the number of times each arm was taken.
type Taken = (&'static Branch, Vec<usize>);

/// Identifies a decision by its place, condition and arms. The place alone is ambiguous: several
/// decisions from one macro call share it.
type BranchKey = (&'static Location<'static>, &'static str, &'static [&'static str]);

/// Accumulates the costs of passes.
#[derive(Default)]
struct Tally {
    lines: HashMap<(&'static str, u32), LineCost>,
    branches: HashMap<BranchKey, Taken>,
    runtime: BTreeMap<&'static str, (usize, Duration)>,
}

impl Tally {
    fn count(&mut self, pass: &PassRecord, times: &[Duration]) {
        for node in &pass.nodes {
            let counts = matches!(node.kind, NodeKind::Operation | NodeKind::Decision | NodeKind::Seed);
            if counts && node.failure.is_none() {
                let line = self.line(node);
                line.bytes += node.bytes;
                match node.direction {
                    Direction::Backward => line.deltas += 1,
                    _ => line.evaluations += 1,
                }
            }
        }
        for (span, &time) in pass.spans.iter().zip(times) {
            // The span of a backward construction names the layer it starts from, but is not the
            // work of that layer.
            let node = span.node.filter(|_| span.work != SpanWork::Backward);
            match node.and_then(|node| pass.nodes.get(node as usize)) {
                Some(node) => {
                    let line = self.line(node);
                    match node.direction {
                        Direction::Backward => line.backward += time,
                        _ => line.forward += time,
                    }
                }
                None => {
                    let row = self.runtime.entry(runtime_label(span.work)).or_default();
                    *row = (row.0 + 1, row.1 + time);
                }
            }
        }
        for decision in &pass.decisions {
            let branch = decision.branch;
            let key = (branch.place, branch.condition, branch.arms);
            let (_, taken) = self.branches.entry(key).or_insert_with(|| (branch, vec![0; branch.arms.len()]));
            if let Some(taken) = taken.get_mut(decision.taken) {
                *taken += 1;
            }
        }
    }

    fn line(&mut self, node: &NodeRecord) -> &mut LineCost {
        let (file, line) = (node.place.file(), node.place.line());
        let new = || LineCost { file: file.to_string(), line, ..LineCost::default() };
        self.lines.entry((file, line)).or_insert_with(new)
    }

    fn costs(self) -> Costs {
        let branch = |(branch, taken): Taken| BranchCost {
            file: branch.place.file().to_string(),
            line: branch.place.line(),
            column: branch.place.column(),
            condition: branch.condition.to_string(),
            arms: branch.arms.iter().map(ToString::to_string).zip(taken).collect(),
        };
        let runtime = |(what, (times, time))| RuntimeCost { what, times, time };
        let mut costs = Costs {
            lines: self.lines.into_values().collect(),
            branches: self.branches.into_values().map(branch).collect(),
            runtime: self.runtime.into_iter().map(runtime).collect(),
            ..Costs::default()
        };
        costs.sort();
        costs
    }
}

fn runtime_label(work: SpanWork) -> &'static str {
    match work {
        SpanWork::Kernel => "kernels without a layer",
        SpanWork::Body => "code outside layers",
        SpanWork::Backward => "backward construction",
        SpanWork::Commit => "optimizer steps",
        _ => "other work",
    }
}
