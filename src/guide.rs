#![doc = include_str!("../docs/src/introduction.md")]

macro_rules! chapters {
    ($($name:ident)*) => {
        $(
            #[doc = include_str!(concat!("../docs/src/", stringify!($name), ".md"))]
            pub mod $name {}
        )*
    };
}

// In the order of `docs/src/SUMMARY.md`, which `tests/guide.rs` checks.
chapters! {
    first_weight layers bangs dynamic
    tensors modules training pretrained generating serving derivatives pass_state your_own
    parallelism performance compiled across_machines devices seeing gallery
    errors compile_errors coming_from paper questions
}
