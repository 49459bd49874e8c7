//! Polynomials by the scheme of Estrin, whose steps do not wait for each other as those of Horner do.

/// The polynomial of a variable, with these coefficients, lowest first.
macro_rules! polynomial {
    ($x:ident; $c:expr) => { $c };
    ($x:ident; $a:expr, $b:expr) => { $a + $x * $b };
    // a step more than Estrin's, and one multiplication less
    ($x:ident; $a:expr, $b:expr, $c:expr) => { $a + $x * ($b + $x * $c) };
    ($x:ident; $($c:expr),+) => {{
        let square = $x * $x;
        polynomial!(@pairs $x square [] $($c),+)
    }};
    (@pairs $x:ident $square:ident [$($pair:expr),*]) => { polynomial!($square; $($pair),*) };
    (@pairs $x:ident $square:ident [$($pair:expr),*] $a:expr) => { polynomial!($square; $($pair,)* $a) };
    (@pairs $x:ident $square:ident [$($pair:expr),*] $a:expr, $b:expr $(, $rest:expr)*) => {
        polynomial!(@pairs $x $square [$($pair,)* $a + $x * $b] $($rest),*)
    };
}

pub(super) use polynomial;
