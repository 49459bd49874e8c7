use dl::prelude::*;

fn name() {
    let name = Weight::new(String::from("a"));
    drop(name);
}

fn main() {}
