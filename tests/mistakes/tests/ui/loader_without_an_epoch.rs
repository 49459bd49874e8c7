use dl::data::{InMemory, Loader};

fn main() {
    let loader = Loader::new(InMemory(vec![1.0_f32, 2.0]), 2);
    for batch in loader {
        println!("{batch:?}");
    }
}
