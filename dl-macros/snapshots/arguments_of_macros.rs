// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     println!("{} {n}", ! x, n = ! y);
//     assert!(! x > 0.0, "{}", ! y);
//     let v = vec![! x; 3];
//     g(v)
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    let extracted_0_1;
    println!(
        "{} {n}", { let start_0 = ::dl::bang::place(& x).start(); let start_1 =
        ::dl::bang::place(& y).start(); let (first, result_1) =
        ::dl::bang::join((start_0, start_1)). await ?; extracted_0_1 = result_1; first },
        n = extracted_0_1
    );
    assert!(
        { let start = ::dl::bang::place(& x).start(); let value = start. await ?; value }
        > 0.0, "{}", { let start = ::dl::bang::place(& y).start(); let value = start.
        await ?; value }
    );
    let v = vec![
        { let start = ::dl::bang::place(& x).start(); let value = start. await ?; value
        }; 3
    ];
    g(v)
}

// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let z = x * 2.0;
//     println!("{x:?}");
//     z * y
// }
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    let z = ::dl::bang::operand(&x).duplicate() * 2.0;
    println!("{x:?}");
    z * y
}

