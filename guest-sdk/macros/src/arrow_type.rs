//! `#[derive(ArrowType)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field, Fields, GenericParam, LitStr};

use crate::syntax::{error_at, nested_pairs, sdk};

pub fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let ident = &input.ident;
    let fields = named_fields(input)?;
    let life = match input.generics.params.iter().collect::<Vec<_>>()[..] {
        [] => None,
        [GenericParam::Lifetime(life)] => Some(&life.lifetime),
        [first, ..] => {
            return Err(error_at(
                first.span(),
                "the host must know the types: a struct has no type parameters, and at most one lifetime",
            ));
        }
    };
    let sdk = sdk();
    let names = fields
        .iter()
        .map(field_name)
        .collect::<syn::Result<Vec<_>>>()?;
    let members: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let at: Vec<_> = (0..fields.len()).collect();
    let columns: Vec<_> = at.iter().map(|at| format_ident!("column_{at}")).collect();

    let own_generics = life.map(|life| quote!(<#life>));
    let input_life = life.map_or_else(|| quote!('a), |life| quote!(#life));
    let column_types = nested_pairs(
        types
            .iter()
            .map(|ty| quote!(<#ty as ::wasmill_guest::Input<#input_life>>::Column)),
    );
    let column_pattern = nested_pairs(columns.iter().map(|column| quote!(#column)));
    let column_values = nested_pairs(types.iter().zip(&at).map(|(ty, at)| {
        quote!(<#ty as ::wasmill_guest::Input<#input_life>>::column(#sdk::child(array, #at)))
    }));
    let builder_types = nested_pairs(
        types
            .iter()
            .map(|ty| quote!(<#ty as ::wasmill_guest::Output>::Builder)),
    );
    // A struct whose fields can only be read, or only written, is one all the same: the two bounds
    // are checked where it is used.
    let readable = quote!(where #(#types: ::wasmill_guest::Input<#input_life>),*);
    let writable = quote!(where #(#types: ::wasmill_guest::Output),*);

    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_qualifications, clippy::all, clippy::pedantic)]
        const _: () = {
        impl #own_generics ::wasmill_guest::ArrowType for #ident #own_generics {
            const SCHEMA: #sdk::Schema = #sdk::Schema::nested(
                &[#sdk::FormatPart::Text("+s")],
                &[#(#sdk::Child {
                    name: #names,
                    schema: &<#types as ::wasmill_guest::ArrowType>::SCHEMA,
                }),*],
            );
            const VEC_SCHEMA: #sdk::Schema = #sdk::Schema::nested(
                &[#sdk::FormatPart::Text("+l")],
                &[#sdk::Child {
                    name: "item",
                    schema: &<Self as ::wasmill_guest::ArrowType>::SCHEMA,
                }],
            );
        }

        impl<#input_life> ::wasmill_guest::Input<#input_life> for #ident #own_generics #readable {
            type Column = #column_types;
            type VecColumn = #sdk::ListColumn<#column_types>;

            unsafe fn column(array: &#input_life #sdk::ArrowArray) -> Self::Column {
                // SAFETY: the caller vouches that the array is a struct of these fields.
                unsafe { #column_values }
            }

            #[inline]
            unsafe fn get(#column_pattern: Self::Column, row: usize) -> Self {
                // SAFETY: the caller vouches for the row; a struct's children have all its rows.
                unsafe {
                    Self {
                        #(#members: <#types as ::wasmill_guest::Input<#input_life>>::get(#columns, row),)*
                    }
                }
            }

            unsafe fn vec_column(array: &#input_life #sdk::ArrowArray) -> Self::VecColumn {
                // SAFETY: the caller vouches that the array is a list of such structs.
                unsafe { #sdk::ListColumn::of::<Self>(array) }
            }

            unsafe fn get_vec(column: Self::VecColumn, row: usize) -> ::std::vec::Vec<Self> {
                // SAFETY: the caller vouches for column and row.
                unsafe { column.collect::<Self>(row) }
            }
        }

        impl #own_generics ::wasmill_guest::Output for #ident #own_generics #writable {
            type Builder = #sdk::StructBuilder<#builder_types>;
            type VecBuilder = #sdk::ListBuilder<Self::Builder>;

            fn placeholder() -> Self {
                Self { #(#members: <#types as ::wasmill_guest::Output>::placeholder(),)* }
            }

            #[inline]
            fn push(self, builder: &mut Self::Builder) {
                builder.count_row();
                let #column_pattern = builder.fields();
                #(<#types as ::wasmill_guest::Output>::push(self.#members, #columns);)*
            }

            fn push_vec(items: ::std::vec::Vec<Self>, builder: &mut Self::VecBuilder) {
                builder.push_items(items);
            }
        }
        };
    })
}

fn named_fields(input: &DeriveInput) -> syn::Result<Vec<&Field>> {
    let message = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if !fields.named.is_empty() => {
                return Ok(fields.named.iter().collect());
            }
            Fields::Named(_) | Fields::Unit => "an Arrow struct has at least one field",
            Fields::Unnamed(_) => {
                "the fields of an Arrow struct have names: write `struct Name { field: Type }`"
            }
        },
        Data::Enum(_) => {
            "an enum has no Arrow type: write a struct with named fields, or return a `&'static str` per variant"
        }
        Data::Union(_) => "a Rust union has no Arrow type: write a struct with named fields",
    };
    Err(error_at(input.ident.span(), message))
}

/// The name in Arrow: the field's own, or that of `#[arrow(name = "…")]`.
fn field_name(field: &&Field) -> syn::Result<String> {
    let mut name = field
        .ident
        .as_ref()
        .map(|ident| ident.to_string().trim_start_matches("r#").to_owned())
        .unwrap_or_default();
    for attribute in &field.attrs {
        if attribute.path().is_ident("arrow") {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("name") {
                    return Err(meta.error("unknown option; a field has `name = \"…\"`"));
                }
                name = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            })?;
        }
    }
    Ok(name)
}
