// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     println!("{} {n}", ! x, n = ! y);
//     assert!(! x > 0.0, "{}", ! y);
//     let v = vec![! x; 3];
//     g(v)
// }
#[track_caller]
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(x),
                ::dl::bang::keep_value(y),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let x: Layer<f32> = kept.0.take();
                    let y: Layer<f32> = kept.1.take();
                    let tail: Layer<f32> = {
                        let extracted_0_1;
                        println!(
                            "{} {n}", { let start_0 = ::dl::bang::place(& x).start(); let
                            start_1 = ::dl::bang::place(& y).start(); let (first,
                            result_1) = ::dl::bang::join((start_0, start_1)). await ?;
                            extracted_0_1 = result_1; first }, n = extracted_0_1
                        );
                        assert!(
                            { let start = ::dl::bang::place(& x).start(); let value =
                            start. await ?; value } > 0.0, "{}", { let start =
                            ::dl::bang::place(& y).start(); let value = start. await ?;
                            value }
                        );
                        let v = vec![
                            { let start = ::dl::bang::place(& x).start(); let value =
                            start. await ?; value }; 3
                        ];
                        g(v)
                    };
                    #[allow(unreachable_code)]
                    return ::core::result::Result::Ok::<
                        Layer<f32>,
                        ::dl::bang::Error,
                    >(tail);
                }
            })
        })
}

// fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
//     let z = x * 2.0;
//     println!("{x:?}");
//     z * y
// }
#[track_caller]
fn f(x: Layer<f32>, y: Layer<f32>) -> Layer<f32> {
    ::dl::bang::function(::core::module_path!(), "f")
        .run(move || -> Layer<f32> {
            let z = ::dl::bang::operand(&x).duplicate() * 2.0;
            println!("{x:?}");
            z * y
        })
}

