// fn of(&self, x: &Layer<f32>) -> Layer<f32> {
//     if !x > self.limit { self.weight * x } else { x * 2.0 }
// }
#[track_caller]
fn of(&self, x: &Layer<f32>) -> Layer<f32> {
    ::dl::bang::method::<Self>("of")
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
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "!x > self.limit",
                                &["self.weight * x", "x * 2.0"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        if ({
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        } > this.limit) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            ::dl::bang::operand(&this.weight).duplicate() * x
                        } else {
                            x * 2.0
                        }
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

// fn of(self, x: &Layer<f32>) -> Layer<f32> {
//     println!("{}", self.limit);
//     if !x > self.limit { self.weight * x } else { x * 2.0 }
// }
#[track_caller]
fn of(self, x: &Layer<f32>) -> Layer<f32> {
    ::dl::bang::method::<Self>("of")
        .run(move || {
            let kept = ::dl::bang::keep((
                ::dl::bang::keep_value(self),
                ::dl::bang::keep_reference::<Layer<f32>, _>(x),
            ));
            ::dl::bang::lazy::<
                Layer<f32>,
                _,
                _,
            >(move || {
                let kept = ::core::clone::Clone::clone(&kept);
                async move {
                    let this: Self = kept.0.take();
                    let x: &Layer<f32> = ::dl::bang::lend::<_, Layer<f32>>(&kept.1);
                    #[allow(unused_variables)]
                    let branches = {
                        static BRANCHES: [::dl::bang::Branch; 1] = [
                            ::dl::bang::Branch::new(
                                "!x > self.limit",
                                &["self.weight * x", "x * 2.0"],
                            ),
                        ];
                        &BRANCHES
                    };
                    let tail: Layer<f32> = {
                        println!("{}", this.limit);
                        if ({
                            let start = ::dl::bang::place(&x).start();
                            let value = start.await?;
                            value
                        } > this.limit) && ::dl::bang::yes(&branches[0])
                            || ::dl::bang::no(&branches[0])
                        {
                            ::dl::bang::operand(&this.weight).duplicate() * x
                        } else {
                            x * 2.0
                        }
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

