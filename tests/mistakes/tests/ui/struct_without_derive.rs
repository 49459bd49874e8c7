use dl::prelude::*;

#[derive(Clone)]
struct State {
    h: Layer<f64>,
}

#[differentiable(lazy)]
fn cell(state: &State) -> State {
    let h = !state.h;
    State { h: state.h.clone() * h }
}

fn main() {}
