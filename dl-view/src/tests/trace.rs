//! Costs and traces of synthetic records.

use crate::samples::{self, Sample, branch};
use crate::{Costs, chrome_trace, save_chrome_trace};
use dl_core::record::{Direction, Recording, Span, SpanWork};
use expect_test::expect;
use serde_json::Value;
use std::time::Duration;

fn at(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Two passes of one line with a product and its delta, and a decision on another line.
fn two_passes() -> Recording {
    let mut sample = Sample::default();
    let weight = sample.weight("f32[4]");
    let product = sample.op("mul", &[weight], "f32[4]");
    let body = sample.body("chosen", &[product], &[(branch("!x > 0.0", &["x", "-x"]), 1)], Some(product));
    let place = sample.record.nodes[product as usize].place;
    sample.direction = Some(Direction::Backward);
    let delta = sample.op("mul", &[product], "f32[4]");
    sample.record.nodes[delta as usize].place = place;
    let span = |work, node, thread, began, ended| Span { work, node, thread, began: at(began), ended: at(ended) };
    sample.record.spans = vec![
        span(SpanWork::Body, Some(body), 0, 0, 100),
        span(SpanWork::Kernel, Some(product), 0, 10, 70), // nested in the poll of the body
        span(SpanWork::Kernel, Some(delta), 1, 50, 250),
        span(SpanWork::Commit, None, 0, 300, 310),
    ];
    sample.record.ended = at(310);
    // Make the bytes of each node distinct.
    for (line, node) in sample.record.nodes.iter_mut().enumerate() {
        node.bytes = 16 * line;
    }
    let mut second = sample.record.clone();
    let later = |time: &mut Duration| *time += at(400);
    second.spans.iter_mut().for_each(|span| [&mut span.began, &mut span.ended].into_iter().for_each(later));
    [&mut second.began, &mut second.ended].into_iter().for_each(later);
    Recording { passes: vec![sample.record, second] }
}

#[test]
fn costs_sum_self_times_by_line() {
    let costs = Costs::of(&two_passes());
    let [first, second] = &costs.lines[..] else { panic!("{costs:?}") };
    assert_eq!((first.evaluations, first.deltas), (2, 2));
    assert_eq!((first.forward, first.backward), (at(120), at(400)));
    assert_eq!(first.bytes, 2 * (16 + 48));
    // The body takes 100 µs, of which 60 belong to the product.
    assert_eq!((second.evaluations, second.forward), (2, at(80)));
    assert_eq!(costs.branches[0].arms, [("x".to_string(), 0), ("-x".to_string(), 2)]);
    assert_eq!((costs.runtime[0].what, costs.runtime[0].times, costs.runtime[0].time), ("optimizer steps", 2, at(20)));
    assert_eq!((costs.time(), costs.elapsed), (at(620), at(620)));
    assert!(first.source.as_deref().is_none_or(|source| source.contains("sample.op(\"mul\", &[weight]")), "{first:?}");

    let mut half = two_passes();
    half.passes.pop();
    let half = Costs::of(&half);
    assert_eq!(half.clone() + half, costs);
}

#[test]
fn costs_display_prints_table() {
    let mut costs = Costs::of(&two_passes());
    for (line, cost) in costs.lines.iter_mut().enumerate() {
        (cost.line, cost.file, cost.source) =
            (10 * line as u32 + 7, "src/main.rs".into(), Some("x * &self.weight".into()));
    }
    costs.branches.iter_mut().for_each(|branch| (branch.file, branch.line) = ("src/main.rs".into(), 17));
    expect![[r#"
        2 passes in 620 µs, 620 µs of work on all threads
          line  evaluations  forward  deltas  backward  bytes   share
        src/main.rs
             7            2   120 µs       2    400 µs  128 B  83.9 %  x * &self.weight
            17            2  80.0 µs                     64 B  12.9 %  x * &self.weight
        not attributed to a line
                          2  20.0 µs                            3.2 %  optimizer steps
        src/main.rs:17  !x > 0.0
                     0    0.0 %  x
                     2  100.0 %  -x
    "#]]
    .assert_eq(&costs.to_string());
}

#[test]
fn costs_json_equals_costs() {
    let costs = Costs::of(&two_passes());
    let json: Value = serde_json::from_str(&costs.to_json()).expect("JSON");
    assert_eq!(json["passes"], 2);
    assert_eq!(json["lines"][0]["backward_ns"], 400_000);
    assert_eq!(json["lines"][1]["evaluations"], 2);
    assert_eq!(json["branches"][0]["arms"][1]["taken"], 2);
    assert_eq!(json["runtime"][0]["time_ns"], 20_000);
}

/// The events of this phase.
fn events<'t>(trace: &'t Value, phase: &str) -> Vec<&'t Value> {
    let all = trace["traceEvents"].as_array().expect("events");
    all.iter().filter(|event| event["ph"] == phase).collect()
}

#[test]
fn chrome_trace_has_event_fields_of_format() {
    let trace: Value = serde_json::from_str(&chrome_trace(&two_passes())).expect("JSON");
    for event in trace["traceEvents"].as_array().expect("events") {
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str() {
            Some("M") => assert!(event["args"]["name"].is_string()),
            Some("b" | "e") => assert!(event["ts"].is_number() && event["id"].is_u64() && event["cat"].is_string()),
            Some("X") => assert!(event["ts"].is_number() && event["dur"].is_number()),
            _ => panic!("{event}"),
        }
    }
    let blocks = events(&trace, "X");
    assert_eq!(blocks.len(), 8);
    // Times are in microseconds.
    assert_eq!((&blocks[1]["ts"], &blocks[1]["dur"], &blocks[1]["name"]), (&10.0.into(), &60.0.into(), &"mul".into()));
    assert!(blocks[1]["args"]["place"].as_str().is_some_and(|place| place.contains("trace.rs:")));
    assert_eq!(blocks[1]["args"]["value"], "f32[4]");
    assert_eq!((events(&trace, "b").len(), events(&trace, "e").len()), (2, 2));
    let threads: Vec<&Value> = events(&trace, "M").into_iter().filter(|event| event["name"] == "thread_name").collect();
    assert_eq!(threads.len(), 2);
}

#[test]
fn saved_trace_equals_chrome_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, recording) = (folder.path().join("deep/trace.json"), Recording { passes: vec![samples::gated()] });
    save_chrome_trace(&recording, &path).expect("it is written");
    assert_eq!(std::fs::read_to_string(&path).expect("it is read"), chrome_trace(&recording));
    assert_eq!(std::fs::read_dir(path.parent().expect("a folder")).expect("it is read").count(), 1);
    // The target is a folder.
    let error = save_chrome_trace(&recording, folder.path().join("deep")).expect_err("it is a folder");
    assert!(error.to_string().contains("deep"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is read").count(), 1);
}

/// Concurrent writers of one file do not interfere: the file holds the output of one of them.
#[test]
fn concurrent_saves_leave_one_whole_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, recording) = (folder.path().join("trace.json"), Recording { passes: vec![samples::gated()] });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    save_chrome_trace(&recording, &path).expect("it is written");
                }
            });
        }
    });
    assert_eq!(std::fs::read_to_string(&path).expect("it is read"), chrome_trace(&recording));
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is read").count(), 1);
}

#[test]
#[cfg(unix)]
fn save_follows_symbolic_link() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let (link, file) = (folder.path().join("link.json"), folder.path().join("file.json"));
    symlink("file.json", &link).expect("a link");
    save_chrome_trace(&Recording::default(), &link).expect("it is written");
    assert!(link.is_symlink() && file.is_file());
    // A device must not be replaced by a file.
    let device = folder.path().join("device");
    symlink("/dev/null", &device).expect("a link");
    let error = save_chrome_trace(&Recording::default(), &device).expect_err("it is a device");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
