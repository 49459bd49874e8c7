// fn f(&self, x: &Layer<f32>) -> Layer<f32> {
//     println!("{self:?} {}", ! x,);
//     panic!("{self}")
// }
#[track_caller]
fn f(&self, x: &Layer<f32>) -> Layer<f32> {
    ::dl::bang::method::<Self>("f")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_reference(self),
                ::dl::bang::keep_reference::<Layer<f32>, _>(x),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let this: &Self = ::dl::bang::lend::<_, Self>(&kept.0);
                    let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.1);
                    let tail: Layer<f32> = {
                        println!(
                            "{self_:?} {}", { let start = ::dl::bang::place(& x).start();
                            let value = start. await ?; value }, self_ = this
                        );
                        panic!("{self_}", self_ = this)
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

