use dl::prelude::*;

#[derive(Module)]
struct Net {
    #[module(rename = "a.b")]
    first: Weight<f64>,
    #[module(rename = "")]
    second: Weight<f64>,
    #[module(rename = "fourth")]
    third: Weight<f64>,
    fourth: Weight<f64>,
    #[module(skip, rename = "cache")]
    fifth: Vec<String>,
}

fn main() {}
