// struct Net {
//     encoder: Vec<Linear>,
//     #[module(rename = "head")]
//     output: Linear,
//     dropout: f64,
//     #[module(skip)]
//     cache: Cache,
// }
struct Net {
    encoder: Vec<Linear>,
    #[module(rename = "head")]
    output: Linear,
    dropout: f64,
    #[module(skip)]
    cache: Cache,
}
impl ::dl::bang::Module for Net {
    fn visit(&self, visitor: &mut ::dl::bang::Visitor) {
        ::dl::bang::Visitor::field::<Vec<Linear>>(visitor, "encoder", &self.encoder);
        ::dl::bang::Visitor::field::<Linear>(visitor, "head", &self.output);
        ::dl::bang::Visitor::field::<f64>(visitor, "dropout", &self.dropout);
    }
    fn compiled_arguments(&self, arguments: &mut ::dl::bang::Arguments) {
        ::dl::bang::argument(&self.encoder).add_field_to(arguments);
        ::dl::bang::argument(&self.output).add_field_to(arguments);
        ::dl::bang::argument(&self.dropout).add_field_to(arguments);
        ::dl::bang::argument(&self.cache).add_field_to(arguments);
    }
}

// #[module(crate = my::dl)]
// struct Tree<M: Clone, const N: usize>(
//     [Linear; N],
//     M,
//     Option<Box<Tree<M, N>>>,
// )
// where
//     M: Send;
#[module(crate = my::dl)]
struct Tree<M: Clone, const N: usize>(
    [Linear; N],
    M,
    Option<Box<Tree<M, N>>>,
)
where
    M: Send;
impl<M: Clone, const N: usize> my::dl::bang::Module for Tree<M, N>
where
    M: Send,
    M: my::dl::bang::Module,
{
    fn visit(&self, visitor: &mut my::dl::bang::Visitor) {
        my::dl::bang::Visitor::field::<[Linear; N]>(visitor, "0", &self.0);
        my::dl::bang::Visitor::field::<M>(visitor, "1", &self.1);
        my::dl::bang::Visitor::field::<Option<Box<Tree<M, N>>>>(visitor, "2", &self.2);
    }
    fn compiled_arguments(&self, arguments: &mut my::dl::bang::Arguments) {
        my::dl::bang::argument(&self.0).add_field_to(arguments);
        my::dl::bang::argument(&self.1).add_field_to(arguments);
        my::dl::bang::argument(&self.2).add_field_to(arguments);
    }
}

// struct Block {
//     #[module(torch = "self_attn")]
//     attention: Linear,
//     #[module(transposed, rename = "w")]
//     weight: Weight<f64>,
//     #[module(torch = "{1}_l{0}", transposed)]
//     cells: Vec<Cell>,
// }
struct Block {
    #[module(torch = "self_attn")]
    attention: Linear,
    #[module(transposed, rename = "w")]
    weight: Weight<f64>,
    #[module(torch = "{1}_l{0}", transposed)]
    cells: Vec<Cell>,
}
impl ::dl::bang::Module for Block {
    fn visit(&self, visitor: &mut ::dl::bang::Visitor) {
        ::dl::bang::Visitor::field_in_torch::<
            Linear,
        >(
            visitor,
            "attention",
            ::dl::bang::Torch::same().named("self_attn"),
            &self.attention,
        );
        ::dl::bang::Visitor::field_in_torch::<
            Weight<f64>,
        >(visitor, "w", ::dl::bang::Torch::same().transposed(), &self.weight);
        ::dl::bang::Visitor::field_in_torch::<
            Vec<Cell>,
        >(
            visitor,
            "cells",
            ::dl::bang::Torch::same().named("{1}_l{0}").transposed(),
            &self.cells,
        );
    }
    fn compiled_arguments(&self, arguments: &mut ::dl::bang::Arguments) {
        ::dl::bang::argument(&self.attention).add_field_to(arguments);
        ::dl::bang::argument(&self.weight).add_field_to(arguments);
        ::dl::bang::argument(&self.cells).add_field_to(arguments);
    }
}

// struct Relu;
struct Relu;
impl ::dl::bang::Module for Relu {
    fn visit(&self, _: &mut ::dl::bang::Visitor) {}
    fn compiled_arguments(&self, _: &mut ::dl::bang::Arguments) {}
}

// struct Twice {
//     r#in: Linear,
//     #[module(rename = "in")]
//     out: Linear,
//     #[module(hide)]
//     more: Linear,
// }
struct Twice {
    r#in: Linear,
    #[module(rename = "in")]
    out: Linear,
    #[module(hide)]
    more: Linear,
}
::core::compile_error! {
    "the name `in` is used twice in module paths: the field `r#in` has it, too"
}
::core::compile_error! {
    "`#[module]` on a field has the options `skip` (leave the field out), `rename = \"…\"` (its name in module paths), `torch = \"…\"` (its name in PyTorch) and `transposed` (PyTorch has the last two axes of its weights exchanged)"
}
impl ::dl::bang::Module for Twice {
    fn visit(&self, visitor: &mut ::dl::bang::Visitor) {
        ::dl::bang::Visitor::field::<Linear>(visitor, "in", &self.r#in);
        ::dl::bang::Visitor::field::<Linear>(visitor, "in", &self.out);
        ::dl::bang::Visitor::field::<Linear>(visitor, "more", &self.more);
    }
    fn compiled_arguments(&self, arguments: &mut ::dl::bang::Arguments) {
        ::dl::bang::argument(&self.r#in).add_field_to(arguments);
        ::dl::bang::argument(&self.out).add_field_to(arguments);
        ::dl::bang::argument(&self.more).add_field_to(arguments);
    }
}

