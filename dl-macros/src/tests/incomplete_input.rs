//! Incomplete input, as an editor sends it while a function is being typed. The expansion must
//! always contain an item with the signature, so that completion keeps working.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;

const FUNCTIONS: [&str; 5] = [
    "fn gated(scores: (Layer<f32>, Layer<f32>), net: &Net) -> Layer<f32> { let (a, b) = !scores; if a > b { scores.0 * net.left.of(&scores.1) } else { return -scores.1; } }",
    "fn of(&self, x: &NdLayer) -> NdLayer { let y = self.weight * x; for i in 0..self.n { if !y.sum() > 1.0 { break; } println!(\"{}\", !y); } match !y { v if v > 1.0 => x.clone(), _ => y } }",
    "fn parsed<T: Expression>(text: &str, x: T) -> Layer<f32> where T: Clone { let n: f32 = text.trim().parse()?; x * n }",
    "fn plain(values: &[f64]) -> Result<f64, Error> { let n = values.len() as f64; Ok(values.iter().map(|v| v * 2.0).sum::<f64>() / n) }",
    "fn opaque(x: impl Expression) -> impl Expression { while !x > 1.0 { x = x * 0.5; } x }",
];

/// The tokens up to the `n`th, counted through all groups; open groups are closed.
fn truncated(tokens: TokenStream, n: &mut usize) -> TokenStream {
    let mut out = TokenStream::new();
    for token in tokens {
        if *n == 0 {
            break;
        }
        *n -= 1;
        match token {
            TokenTree::Group(group) => {
                out.extend([TokenTree::Group(Group::new(group.delimiter(), truncated(group.stream(), n)))])
            }
            token => out.extend([token]),
        }
    }
    out
}

fn count(tokens: TokenStream) -> usize {
    tokens
        .into_iter()
        .map(|token| if let TokenTree::Group(group) = token { 1 + count(group.stream()) } else { 1 })
        .sum()
}

/// A function truncated after each token of its body: the signature, and the truncated function.
fn cuts(function: &str) -> impl Iterator<Item = (TokenStream, TokenStream)> {
    let tokens: Vec<TokenTree> = function.parse::<TokenStream>().unwrap().into_iter().collect();
    let (body, head) = tokens.split_last().unwrap();
    let TokenTree::Group(body) = body.clone() else { panic!("a function ends with its body") };
    let head: TokenStream = head.iter().cloned().collect();
    (0..=count(body.stream())).map(move |mut n| {
        let body = TokenTree::Group(Group::new(body.delimiter(), truncated(body.stream(), &mut n)));
        (head.clone(), head.clone().into_iter().chain([body]).collect())
    })
}

/// The signature without patterns and `mut`, which the expansion may move to the body.
fn types(sig: &syn::Signature) -> String {
    let inputs = sig.inputs.iter().map(|input| match input {
        syn::FnArg::Receiver(receiver) => receiver.ty.to_token_stream().to_string(),
        syn::FnArg::Typed(input) => input.ty.to_token_stream().to_string(),
    });
    format!(
        "{} {} {:?} {}",
        sig.ident,
        sig.generics.to_token_stream(),
        inputs.collect::<Vec<_>>(),
        sig.output.to_token_stream()
    )
}

#[test]
fn truncated_function_expands_to_item_with_signature() {
    let mut parsed = 0;
    for function in FUNCTIONS {
        for (head, input) in cuts(function) {
            let output = crate::entry::differentiable(TokenStream::new(), input.clone());
            if let Ok(file) = syn::parse2::<syn::File>(output.clone()) {
                let expected = syn::parse2::<syn::Signature>(head).unwrap();
                let found =
                    file.items.iter().find_map(|item| if let syn::Item::Fn(f) = item { Some(&f.sig) } else { None });
                assert_eq!(found.map(types), Some(types(&expected)), "{input}");
                parsed += 1;
            } else {
                // Input that cannot be parsed must be returned unchanged, so that the editor
                // recovers.
                let (output, input) = (output.to_string(), input.to_string());
                assert!(output.ends_with(&input), "{output}");
                assert!(output.contains("compile_error"), "{output}");
            }
        }
    }
    assert!(parsed > 50, "{parsed}");
}

#[test]
fn completion_inside_expression_sees_rewritten_body() {
    // An editor inserts a name at the cursor.
    let input = "fn f(x: &Layer<f32>) -> Layer<f32> { let v = !x; let y = x.completed_here; y * v }";
    let output = crate::entry::differentiable(TokenStream::new(), input.parse().unwrap()).to_string();
    assert!(output.contains("x . completed_here"), "{output}");
    assert!(!output.contains("compile_error"), "{output}");
}
