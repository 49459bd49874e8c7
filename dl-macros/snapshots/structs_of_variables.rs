// pub struct Net {
//     pub hidden: NdWeight,
//     output: NdWeight,
//     #[variables(skip)]
//     width: usize,
// }
///The derivatives with respect to each part of a [`Net`].
pub struct NetGradients {
    ///The derivative with respect to `hidden`.
    pub hidden: <NdWeight as ::dl::bang::Variables>::Gradients,
    ///The derivative with respect to `output`.
    output: <NdWeight as ::dl::bang::Variables>::Gradients,
}
impl ::core::clone::Clone for NetGradients {
    fn clone(&self) -> Self {
        NetGradients {
            hidden: ::core::clone::Clone::clone(&self.hidden),
            output: ::core::clone::Clone::clone(&self.output),
        }
    }
}
impl ::dl::bang::Variables for Net {
    type Gradients = NetGradients;
    fn map(&self, each: &mut ::dl::bang::EachVariable<'_>) -> Self::Gradients {
        NetGradients {
            hidden: ::dl::bang::Variables::map(&self.hidden, each),
            output: ::dl::bang::Variables::map(&self.output, each),
        }
    }
}
impl ::dl::bang::Variables for NetGradients {
    type Gradients = Self;
    fn map(&self, each: &mut ::dl::bang::EachVariable<'_>) -> Self::Gradients {
        NetGradients {
            hidden: ::dl::bang::Variables::map(&self.hidden, each),
            output: ::dl::bang::Variables::map(&self.output, each),
        }
    }
}

// struct Acting<L: Into<F>, F: Fn(f64) -> f64, const N: usize>
// where
//     F: Clone,
// {
//     parts: [L; N],
//     first: L,
//     #[variables(skip)]
//     act: F,
// }
///The derivatives with respect to each part of a [`Acting`].
#[allow(private_bounds)]
struct ActingGradients<L, const N: usize>
where
    [L; N]: ::dl::bang::Variables,
    L: ::dl::bang::Variables,
{
    ///The derivative with respect to `parts`.
    parts: <[L; N] as ::dl::bang::Variables>::Gradients,
    ///The derivative with respect to `first`.
    first: <L as ::dl::bang::Variables>::Gradients,
}
#[allow(private_bounds)]
impl<L, const N: usize> ::core::clone::Clone for ActingGradients<L, N>
where
    [L; N]: ::dl::bang::Variables,
    L: ::dl::bang::Variables,
    <[L; N] as ::dl::bang::Variables>::Gradients: ::core::clone::Clone,
    <L as ::dl::bang::Variables>::Gradients: ::core::clone::Clone,
{
    fn clone(&self) -> Self {
        ActingGradients {
            parts: ::core::clone::Clone::clone(&self.parts),
            first: ::core::clone::Clone::clone(&self.first),
        }
    }
}
#[allow(private_bounds)]
impl<L: Into<F>, F: Fn(f64) -> f64, const N: usize> ::dl::bang::Variables
for Acting<L, F, N>
where
    F: Clone,
    [L; N]: ::dl::bang::Variables,
    L: ::dl::bang::Variables,
{
    type Gradients = ActingGradients<L, N>;
    fn map(&self, each: &mut ::dl::bang::EachVariable<'_>) -> Self::Gradients {
        ActingGradients {
            parts: ::dl::bang::Variables::map(&self.parts, each),
            first: ::dl::bang::Variables::map(&self.first, each),
        }
    }
}
#[allow(private_bounds)]
impl<L, const N: usize> ::dl::bang::Variables for ActingGradients<L, N>
where
    [L; N]: ::dl::bang::Variables,
    L: ::dl::bang::Variables,
{
    type Gradients = Self;
    fn map(&self, each: &mut ::dl::bang::EachVariable<'_>) -> Self::Gradients {
        ActingGradients {
            parts: ::dl::bang::Variables::map(&self.parts, each),
            first: ::dl::bang::Variables::map(&self.first, each),
        }
    }
}

// #[variables(crate = my::dl, gradients = Slopes)]
// struct Pair<T: Trainable>(
//     Weight<T>,
//     #[variables(skip)]
//     u8,
//     [Weight<T>; 2],
// )
// where
//     T: Copy;
///The derivatives with respect to each part of a [`Pair`].
#[allow(private_bounds)]
struct Slopes<T: Trainable>(
    ///The derivative with respect to field 0.
    <Weight<T> as my::dl::bang::Variables>::Gradients,
    ///The derivative with respect to field 2.
    <[Weight<T>; 2] as my::dl::bang::Variables>::Gradients,
)
where
    T: Copy,
    Weight<T>: my::dl::bang::Variables,
    [Weight<T>; 2]: my::dl::bang::Variables;
#[allow(private_bounds)]
impl<T: Trainable> ::core::clone::Clone for Slopes<T>
where
    T: Copy,
    Weight<T>: my::dl::bang::Variables,
    [Weight<T>; 2]: my::dl::bang::Variables,
    <Weight<T> as my::dl::bang::Variables>::Gradients: ::core::clone::Clone,
    <[Weight<T>; 2] as my::dl::bang::Variables>::Gradients: ::core::clone::Clone,
{
    fn clone(&self) -> Self {
        Slopes {
            0: ::core::clone::Clone::clone(&self.0),
            1: ::core::clone::Clone::clone(&self.1),
        }
    }
}
#[allow(private_bounds)]
impl<T: Trainable> my::dl::bang::Variables for Pair<T>
where
    T: Copy,
    Weight<T>: my::dl::bang::Variables,
    [Weight<T>; 2]: my::dl::bang::Variables,
{
    type Gradients = Slopes<T>;
    fn map(&self, each: &mut my::dl::bang::EachVariable<'_>) -> Self::Gradients {
        Slopes {
            0: my::dl::bang::Variables::map(&self.0, each),
            1: my::dl::bang::Variables::map(&self.2, each),
        }
    }
}
#[allow(private_bounds)]
impl<T: Trainable> my::dl::bang::Variables for Slopes<T>
where
    T: Copy,
    Weight<T>: my::dl::bang::Variables,
    [Weight<T>; 2]: my::dl::bang::Variables,
{
    type Gradients = Self;
    fn map(&self, each: &mut my::dl::bang::EachVariable<'_>) -> Self::Gradients {
        Slopes {
            0: my::dl::bang::Variables::map(&self.0, each),
            1: my::dl::bang::Variables::map(&self.1, each),
        }
    }
}

