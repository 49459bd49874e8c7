//! Folding of large records.

use super::geometry::check;
use crate::Graph;
use crate::samples::{self, Sample};
use crate::scene::Look;

#[test]
fn loop_iterations_fold_into_one_item() {
    let graph = Graph::of(&samples::rounds(200));
    let scene = graph.scene();
    let name = |name: &str| scene.items.iter().filter(|item| item.name == [name]).count();
    assert_eq!((name("matmul ×200"), name("tanh ×200"), name("!halt < 1.0 ×201")), (1, 1, 1));
    assert_eq!((name("another round ×200"), name("end")), (1, 1));
    check("rounds", &graph.svg());
}

#[test]
fn functions_fold_innermost_first() {
    let record = samples::deep(12);
    let names = |most: usize| -> Vec<String> {
        let scene = Graph::of(&record).at_most(most).scene();
        assert!(scene.items.len() <= most);
        check("deep", &Graph::of(&record).at_most(most).svg());
        scene.items.iter().map(|item| item.name.join(" ")).collect()
    };
    assert_eq!(names(200).iter().filter(|name| *name == "gelu").count(), 12);
    // Six blocks are called from each of two places.
    assert_eq!(names(40).iter().filter(|name| *name == "gelu ×6").count(), 2);
    // There is space to reopen one of them.
    let open = names(11);
    assert!(open.contains(&"ƒ block".to_string()) && open.contains(&"gelu ×6".to_string()), "{open:?}");
    let closed = names(6);
    assert_eq!(closed.iter().filter(|name| *name == "ƒ block").count(), 2, "{closed:?}");
}

#[test]
fn cheapest_lines_fold_into_one_item() {
    let mut sample = Sample::default();
    let weight = sample.weight("f64");
    let mut last = weight;
    macro_rules! lines {
        ($($name:ident)*) => { $( last = sample.op(
            stringify!($name),
            &[last, weight], "f64"); )* };
    }
    lines!(a b c d e f g h);
    // All operations are on one line, that of the macro call.
    let scene = Graph::of(&sample.record).at_most(4).scene();
    let names: Vec<String> = scene.items.iter().map(|item| item.name.join(" ")).collect();
    assert!(names.iter().any(|name| name.starts_with("folding.rs:")), "{names:?}");

    let mut sample = Sample::default();
    let weight = sample.weight("f64");
    sample.op("a", &[weight], "f64");
    sample.op("b", &[weight], "f64");
    sample.op("c", &[weight], "f64");
    sample.op("d", &[weight], "f64");
    sample.op("e", &[weight], "f64");
    sample.op("f", &[weight], "f64");
    let graph = Graph::of(&sample.record).at_most(4);
    let names: Vec<String> = graph.scene().items.iter().map(|item| item.name.join(" ")).collect();
    assert!(names.len() == 4 && names.contains(&"all other items".to_string()), "{names:?}");
    check("rest", &graph.svg());
}

#[test]
fn ten_thousand_layers_fold_into_sixty_items() {
    let record = samples::deep(2_000);
    assert!(record.nodes.len() > 10_000);
    let graph = Graph::of(&record);
    let scene = graph.scene();
    assert!(scene.items.len() <= 60);
    // No operation is lost.
    let total: u64 = ["matmul", "add", "gelu"].iter().map(|name| of_name(&scene, name)).sum();
    assert_eq!(total, 8_000);
    assert_eq!(scene.items.iter().filter(|item| item.look == Look::Weight).count(), 4);
    check("deep", &graph.svg());
}

#[test]
fn at_most_is_clamped_to_limits() {
    let parts = |layers: usize, most: usize| Graph::of(&samples::deep(layers)).at_most(most).scene().items.len();
    assert_eq!((parts(12, 0), parts(33, usize::MAX)), (3, 200));
    // Six layers more do not fit, although the requested limit is larger.
    assert!(parts(34, 206) < 200);
}

fn of_name(scene: &crate::scene::Scene, name: &str) -> u64 {
    let count = |item: &crate::scene::Item| {
        item.name[0].strip_prefix(name)?.strip_prefix(" ×")?.replace(',', "").parse::<u64>().ok()
    };
    scene.items.iter().filter_map(count).sum()
}
