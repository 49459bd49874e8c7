use dl::data::Loader;

fn batches() {
    drop(Loader::new(vec![1.0, 2.0], 2));
}

fn main() {}
