// struct State {
//     h: NdLayer,
//     c: NdLayer,
// }
struct State {
    h: NdLayer,
    c: NdLayer,
}
impl ::dl::bang::Lazy for State {
    #[track_caller]
    fn lazy<Body, Run>(body: Body) -> Self
    where
        Body: ::core::ops::Fn() -> Run + ::core::marker::Send + ::core::marker::Sync
            + 'static,
        Run: ::core::future::Future<
                Output = ::core::result::Result<Self, ::dl::bang::Error>,
            > + ::core::marker::Send + 'static,
    {
        let decided = ::dl::bang::decide(body);
        State {
            h: ::dl::bang::part::<
                _,
                NdLayer,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.h)),
            c: ::dl::bang::part::<
                _,
                NdLayer,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.c)),
        }
    }
}

// struct Pair<T: Data>(
//     Layer<T>,
//     [Layer<T>; 2],
// )
// where
//     T: Copy;
struct Pair<T: Data>(
    Layer<T>,
    [Layer<T>; 2],
)
where
    T: Copy;
impl<T: Data> ::dl::bang::Lazy for Pair<T>
where
    T: Copy,
    Self: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,
{
    #[track_caller]
    fn lazy<Body, Run>(body: Body) -> Self
    where
        Body: ::core::ops::Fn() -> Run + ::core::marker::Send + ::core::marker::Sync
            + 'static,
        Run: ::core::future::Future<
                Output = ::core::result::Result<Self, ::dl::bang::Error>,
            > + ::core::marker::Send + 'static,
    {
        let decided = ::dl::bang::decide(body);
        Pair {
            0: ::dl::bang::part::<
                _,
                Layer<T>,
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.0)),
            1: ::dl::bang::part::<
                _,
                [Layer<T>; 2],
            >(&decided, |all: &Self| ::core::clone::Clone::clone(&all.1)),
        }
    }
}

