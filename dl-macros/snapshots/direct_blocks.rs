// if ! x > limit { x * scale (k) } else { return y . layer () ; }
fn around() {
    let kept = ::dl::bang::keep((
        ::dl::bang::capture(&x).keep(),
        ::dl::bang::capture(&limit).keep(),
        ::dl::bang::capture(&k).keep(),
        ::dl::bang::capture(&y).keep(),
    ));
    let made = ::dl::bang::lazy::<
        _,
        _,
        _,
    >(move || {
        let kept = ::core::clone::Clone::clone(&kept);
        async move {
            let x = kept.0.take();
            let limit = kept.1.take();
            let k = kept.2.take();
            let y = kept.3.take();
            #[allow(unused_variables)]
            let branches = {
                static BRANCHES: [::dl::bang::Branch; 1] = [
                    ::dl::bang::Branch::new(
                        "!x > limit",
                        &["x * scale(k)", "return y.layer()"],
                    ),
                ];
                &BRANCHES
            };
            let tail = {
                if ({
                    let start = ::dl::bang::place(&x).start();
                    let value = start.await?;
                    value
                } > limit) && ::dl::bang::yes(&branches[0])
                    || ::dl::bang::no(&branches[0])
                {
                    x * scale(k)
                } else {
                    return ::core::result::Result::Ok(y.layer());
                }
            };
            #[allow(unreachable_code)]
            return ::core::result::Result::Ok::<_, ::dl::bang::Error>(tail);
        }
    });
    made
}

// crate = my :: dl ; let v = ! self . weight ; format ! ("{v} {name}") . parse () ?
fn around() {
    let kept = my::dl::bang::keep((
        my::dl::bang::capture(&self).keep(),
        my::dl::bang::capture(&name).keep(),
    ));
    let made = my::dl::bang::lazy::<
        _,
        _,
        _,
    >(move || {
        let kept = ::core::clone::Clone::clone(&kept);
        async move {
            let this = kept.0.take();
            let name = kept.1.take();
            let tail = {
                let v = {
                    let start = my::dl::bang::place(&this.weight).start();
                    let value = start.await?;
                    value
                };
                my::dl::bang::attempt((format!("{v} {name}")).parse())?
            };
            #[allow(unreachable_code)]
            return ::core::result::Result::Ok::<_, my::dl::bang::Error>(tail);
        }
    });
    made
}

