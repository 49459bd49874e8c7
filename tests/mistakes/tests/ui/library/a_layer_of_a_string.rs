use dl::prelude::*;

fn name() {
    let name = Layer::constant(String::from("a"));
    drop(name);
}

fn main() {}
