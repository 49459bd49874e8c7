use dl::prelude::*;
use std::marker::PhantomData;
use std::sync::Arc;

#[derive(Clone, Debug, Module)]
struct Linear<T: dl::Trainable + dl::Stored + std::fmt::Debug> {
    weight: Weight<T>,
    r#in: usize,
}

#[derive(Module)]
struct Unit;

#[derive(Module)]
struct Nothing {}

#[derive(Module)]
struct Pair<'a, M, const N: usize>(&'a [M; N], #[module(rename = "last")] Option<M>)
where
    M: Clone;

#[derive(Module)]
struct Tree<M> {
    here: M,
    below: Vec<Tree<M>>,
    parent: Option<Box<Tree<M>>>,
}

#[derive(Module)]
struct Chain {
    link: Weight<f64>,
    next: Option<Box<Chain>>,
}

struct Cache;

#[derive(Module)]
struct All {
    linear: Arc<Linear<f32>>,
    pair: (Buffer<f64>, Weight<f64>),
    rate: f64,
    name: String,
    on: bool,
    kind: PhantomData<Cache>,
    tensor: NdWeight<Ix1>,
    settings: Conv<2>,
    unit: Unit,
    nothing: Nothing,
    #[module(skip)]
    _cache: Cache,
    #[module(skip)]
    _function: fn(f64) -> f64,
    boxed: Box<dyn dl::Module>,
}

// A struct declared by a macro, with types from the macro call.
macro_rules! written {
    ($Name:ident { $($field:ident: $T:ty),* }) => {
        #[derive(Module)]
        struct $Name { $($field: $T),* }
    };
}

written!(Written { visitor: Weight<f64>, other: Weight<f64> });

mod vendored {
    pub use ::dl as learning;
}

#[derive(vendored::learning::Module)]
#[module(crate = crate::language::modules::vendored::learning)]
struct Renamed(Weight<f64>);

#[test]
fn derived_module_names_fields() {
    let linear = |x| Linear { weight: Weight::new(x), r#in: 3 };
    assert_eq!(linear(1.0).names(), ["weight"]);
    assert_eq!(linear(1.0).r#in, 3);
    let both = [linear(1.0), linear(2.0)];
    assert_eq!(Pair(&both, Some(linear(3.0))).names(), ["0.0.weight", "0.1.weight", "last.weight"]);
    let leaf = |x| Tree { here: Weight::new(x), below: vec![], parent: None };
    let tree = Tree { here: Weight::new(1.0), below: vec![leaf(2.0), leaf(3.0)], parent: Some(Box::new(leaf(4.0))) };
    assert_eq!(tree.names(), ["here", "below.0.here", "below.1.here", "parent.here"]);
    let chain = Chain { link: Weight::new(1.0), next: Some(Box::new(Chain { link: Weight::new(2.0), next: None })) };
    assert_eq!(chain.names(), ["link", "next.link"]);
    let all = All {
        linear: Arc::new(linear(1.0_f32)),
        pair: (Buffer::new(1.0), Weight::new(2.0)),
        rate: 0.5,
        name: "all".into(),
        on: true,
        kind: PhantomData,
        tensor: Weight::new(Nd::from([1.0, 2.0])),
        settings: Conv::new(),
        unit: Unit,
        nothing: Nothing {},
        _cache: Cache,
        _function: f64::sqrt,
        boxed: Box::new(chain),
    };
    assert_eq!(all.names(), ["linear.weight", "pair.0", "pair.1", "tensor", "boxed.link", "boxed.next.link"]);
    assert_eq!((all.rate, all.name.as_str(), all.on), (0.5, "all", true));
    assert_eq!(all.parameters(), 6);
    assert_eq!(Written { visitor: Weight::new(1.0), other: Weight::new(1.0) }.names(), ["visitor", "other"]);
    assert_eq!(Renamed(Weight::new(1.0)).names(), ["0"]);
}
