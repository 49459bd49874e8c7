//! Traces for Perfetto and `chrome://tracing`.

use dl_core::record::{NodeRecord, PassRecord, Recording, Span, SpanWork};
use dl_core::{Result, files};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The process id of all rows.
const PROCESS: u32 = 1;

/// A recording in the [Chrome trace event
/// format](https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), which
/// [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` display.
///
/// Each thread is a row with a block for each kernel, poll of a body, backward construction and
/// commit. The arguments of a block are the source line, the call chain and the shape of the value.
/// The passes are a row of their own above the threads.
///
/// ```
/// use dl_core::record::Recording;
/// let trace = dl_view::chrome_trace(&Recording::default());
/// assert!(trace.starts_with("{\"displayTimeUnit\":\"ns\",\"traceEvents\":["));
/// ```
pub fn chrome_trace(recording: &Recording) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = write_trace(recording, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes [`chrome_trace`] to a file, which is replaced atomically.
///
/// # Errors
/// If the file cannot be written.
///
/// ```
/// use dl_core::record::Recorder;
/// use dl_core::{Differentiable, Weight};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("trace.json");
/// let (recorder, w) = (Recorder::new(), Weight::new(3.0_f64));
/// (&w * &w).predict().recorded(&recorder).wait()?;
/// dl_view::save_chrome_trace(&recorder.take(), &path)?;
/// # dl_core::Result::Ok(())
/// ```
pub fn save_chrome_trace(recording: &Recording, path: impl AsRef<Path>) -> Result<()> {
    files::write_in_folder(path.as_ref(), |mut file| write_trace(recording, &mut file))
}

fn write_trace(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut first = true;
    let mut event = |event: Value| -> io::Result<()> {
        if !std::mem::take(&mut first) {
            out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut *out, &event)?)
    };
    event(name_of("process_name", 0, "passes"))?;
    let threads: BTreeSet<u32> = recording.passes.iter().flat_map(|pass| &pass.spans).map(|span| span.thread).collect();
    for thread in threads {
        event(name_of("thread_name", thread, &format!("thread {thread}")))?;
    }
    for (number, pass) in recording.passes.iter().enumerate() {
        for (phase, at) in [("b", pass.began), ("e", pass.ended.max(pass.began))] {
            event(json!({
                "name": format!("pass {number}"), "cat": "pass", "ph": phase, "id": number,
                "ts": micros(at), "pid": PROCESS, "tid": 0, "args": { "layers": pass.nodes.len() },
            }))?;
        }
        for span in &pass.spans {
            event(block(number, pass, span))?;
        }
    }
    out.write_all(b"\n]}\n")
}

fn name_of(what: &str, thread: u32, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": PROCESS, "tid": thread, "args": { "name": name } })
}

fn block(number: usize, pass: &PassRecord, span: &Span) -> Value {
    let category = match span.work {
        SpanWork::Kernel => "kernel",
        SpanWork::Body => "body",
        SpanWork::Backward => "backward",
        SpanWork::Commit => "commit",
        _ => "other",
    };
    let node = span.node.and_then(|node| pass.nodes.get(node as usize));
    let mut args = node.map(node_args).unwrap_or_default();
    if span.work == SpanWork::Backward {
        args.insert("direction".into(), json!("backward")); // starts at the layer, but is not its work
    }
    args.insert("pass".into(), json!(number));
    let name = node.filter(|_| span.work != SpanWork::Backward).map_or(category, |node| node.name);
    json!({
        "name": name, "cat": category, "ph": "X",
        "ts": micros(span.began), "dur": micros(span.ended.saturating_sub(span.began)),
        "pid": PROCESS, "tid": span.thread, "args": args,
    })
}

/// The arguments of a block: the data of its layer.
fn node_args(node: &NodeRecord) -> Map<String, Value> {
    let mut args = Map::new();
    let mut insert = |what: &str, value: Value| _ = args.insert(what.into(), value);
    insert("place", json!(node.place.to_string()));
    insert("direction", json!(format!("{:?}", node.direction).to_lowercase()));
    if !node.calls.is_empty() {
        insert("calls", json!(node.calls.frames().map(|call| call.to_string()).collect::<Vec<_>>()));
    }
    if !node.value.is_empty() {
        insert("value", json!(node.value));
        insert("bytes", json!(node.bytes));
    }
    if let Some(failure) = &node.failure {
        insert("failure", json!(failure));
    }
    args
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
