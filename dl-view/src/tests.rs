//! Pictures of records made by hand.

use crate::Graph;
use crate::samples;

#[test]
fn write_them() {
    let folder = std::path::Path::new("/tmp/w/view-lab/out");
    let all = [
        ("gated", samples::gated()),
        ("tree", samples::tree()),
        ("step", samples::step()),
        ("rounds", samples::rounds(5)),
        ("rounds200", samples::rounds(200)),
        ("deep", samples::deep(12)),
        ("deeper", samples::deep(2000)),
        ("failed", samples::failed()),
        ("empty", Default::default()),
    ];
    for (name, record) in all {
        let now = std::time::Instant::now();
        let graph = Graph::of(&record).backward(name == "step");
        graph.save(folder.join(format!("{name}.svg"))).unwrap();
        graph.save(folder.join(format!("{name}.dot"))).unwrap();
        eprintln!("{name}: {:?} {:?} items", now.elapsed(), graph.scene().items.len());
    }
}
