//! Annotated functions compile without warnings and give the right results: one file for each part
//! of the language.

#![deny(warnings)]
#![allow(unreachable_pub, clippy::all, reason = "the code imitates that of users")]

mod attributes_and_docs;
mod bangs_of_collections;
mod borrowed_operands;
mod const_generics;
mod early_returns;
mod format_strings;
mod futures_and_streams;
mod generic_associated_types;
mod inside_macro_rules;
mod iterators;
mod labelled_loops;
mod lifetimes_and_where_clauses;
mod macros_of_std;
mod methods_by_value_and_reference;
mod modules;
mod mutual_recursion;
mod name_hygiene;
mod nested_functions;
mod no_unsafe_code;
mod not_operator;
mod opaque_results;
mod option_functions;
mod patterns;
mod polymorphic_parameters;
mod question_marks;
mod renamed_crate;
mod shadowing;
mod tensors;
mod threads_and_auto_traits;
mod unusual_places;
mod while_let;
