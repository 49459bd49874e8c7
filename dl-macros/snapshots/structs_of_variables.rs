// pub struct Net {
//     pub hidden: NdWeight,
//     output: NdWeight,
//     #[variables(skip)]
//     width: usize,
// }
///The derivatives with respect to each part of a [`Net`].
pub struct NetGradients {
    ///The derivative with respect to `hidden`.
    pub hidden: <NdWeight as ::dl::Variables>::Gradients,
    ///The derivative with respect to `output`.
    output: <NdWeight as ::dl::Variables>::Gradients,
}
impl ::core::clone::Clone for NetGradients {
    fn clone(&self) -> Self {
        NetGradients {
            hidden: ::core::clone::Clone::clone(&self.hidden),
            output: ::core::clone::Clone::clone(&self.output),
        }
    }
}
impl ::dl::Variables for Net {
    type Gradients = NetGradients;
    fn map(&self, each: &mut ::dl::EachVariable<'_>) -> Self::Gradients {
        NetGradients {
            hidden: ::dl::Variables::map(&self.hidden, each),
            output: ::dl::Variables::map(&self.output, each),
        }
    }
}
impl ::dl::Variables for NetGradients {
    type Gradients = Self;
    fn map(&self, each: &mut ::dl::EachVariable<'_>) -> Self::Gradients {
        NetGradients {
            hidden: ::dl::Variables::map(&self.hidden, each),
            output: ::dl::Variables::map(&self.output, each),
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
struct Slopes<T: Trainable>(
    ///The derivative with respect to field 0.
    <Weight<T> as my::dl::Variables>::Gradients,
    ///The derivative with respect to field 2.
    <[Weight<T>; 2] as my::dl::Variables>::Gradients,
)
where
    T: Copy;
impl<T: Trainable> ::core::clone::Clone for Slopes<T>
where
    T: Copy,
    <Weight<T> as my::dl::Variables>::Gradients: ::core::clone::Clone,
    <[Weight<T>; 2] as my::dl::Variables>::Gradients: ::core::clone::Clone,
{
    fn clone(&self) -> Self {
        Slopes {
            0: ::core::clone::Clone::clone(&self.0),
            1: ::core::clone::Clone::clone(&self.1),
        }
    }
}
impl<T: Trainable> my::dl::Variables for Pair<T>
where
    T: Copy,
{
    type Gradients = Slopes<T>;
    fn map(&self, each: &mut my::dl::EachVariable<'_>) -> Self::Gradients {
        Slopes {
            0: my::dl::Variables::map(&self.0, each),
            1: my::dl::Variables::map(&self.2, each),
        }
    }
}
impl<T: Trainable> my::dl::Variables for Slopes<T>
where
    T: Copy,
{
    type Gradients = Self;
    fn map(&self, each: &mut my::dl::EachVariable<'_>) -> Self::Gradients {
        Slopes {
            0: my::dl::Variables::map(&self.0, each),
            1: my::dl::Variables::map(&self.1, each),
        }
    }
}

