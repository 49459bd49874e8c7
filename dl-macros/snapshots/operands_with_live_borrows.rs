// fn f(h: Layer<f32>, k: Layer<f32>) -> Vec<f32> {
//     let all = vec![& h];
//     println!("{k:?} {:?}", k * 2.0);
//     let k = select((&k, 1.0), k * 3.0);
//     len(&k) + k * all.len() as f32
// }
fn f(h: Layer<f32>, k: Layer<f32>) -> Vec<f32> {
    let all = vec![& h];
    println!("{k:?} {:?}", ::dl::bang::operand(& k).duplicate() * 2.0);
    let k = select((&k, 1.0), ::dl::bang::operand(&k).duplicate() * 3.0);
    len(&k) + k * all.len() as f32
}

// fn f(h: Layer<f32>) -> Vec<f32> {
//     h.matmul(h * 0.5)
// }
fn f(h: Layer<f32>) -> Vec<f32> {
    h.matmul(::dl::bang::operand(&h).duplicate() * 0.5)
}

// fn f(h: Layer<f32>) -> Vec<f32> {
//     g(|x| x + &h, h * 0.5)
// }
fn f(h: Layer<f32>) -> Vec<f32> {
    g(|x| x + &h, ::dl::bang::operand(&h).duplicate() * 0.5)
}

// fn f(h: Layer<f32>) -> Vec<f32> {
//     g(len(&h), h * 0.5)
// }
fn f(h: Layer<f32>) -> Vec<f32> {
    g(len(&h), h * 0.5)
}

