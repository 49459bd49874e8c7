// pub struct Net {
//     pub hidden: NdWeight,
//     output: NdWeight,
//     #[variables(skip)]
//     width: usize,
// }
///The derivatives with respect to each part of a [`Net`].
#[derive(Clone)]
pub struct NetGradients {
    pub hidden: <NdWeight as ::dl::Variables>::Gradients,
    output: <NdWeight as ::dl::Variables>::Gradients,
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
#[derive(Clone)]
struct Slopes<T: Trainable>(
    <Weight<T> as my::dl::Variables>::Gradients,
    <[Weight<T>; 2] as my::dl::Variables>::Gradients,
)
where
    T: Copy;
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

