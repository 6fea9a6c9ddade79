//! The export and the manifest record of one overload.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Type};

use crate::options::Options;
use crate::signature::Parameter;
use crate::syntax::{error_at, nested_pairs, sdk, with_inferred_lifetimes, with_static_lifetimes};

/// One overload of one UDF.
pub struct Udf<'a> {
    pub name: String,
    pub symbol: String,
    pub doc: String,
    pub volatility: String,
    pub options: &'a Options,
    pub parameters: &'a [Parameter],
    pub returns: Option<&'a Type>,
    pub function: &'a Ident,
    /// The path to call, without a state before the arguments.
    pub path: TokenStream,
    /// The state's part, when there is one.
    pub state: Option<StateGlue>,
}

/// How a method reaches its state.
pub struct StateGlue {
    /// The `State` of the manifest.
    pub record: TokenStream,
    /// Whether the method takes `&mut self`.
    pub exclusive: bool,
}

impl Udf<'_> {
    /// A block expression of type `Entry`, with the export and the record inside.
    pub fn expand(&self) -> syn::Result<TokenStream> {
        let sdk = sdk();
        let (call, shape) = if self.options.batch {
            self.batch()?
        } else {
            self.rows()?
        };
        let call = match &self.state {
            None => call,
            Some(state) => {
                let state_argument = if state.exclusive {
                    quote!(&mut *state)
                } else {
                    quote!(&*state)
                };
                quote! {
                    #sdk::with_state(frame, &STATES, |state| {
                        let state = #state_argument;
                        #call
                    })
                }
            }
        };
        let Self {
            name,
            symbol,
            doc,
            volatility,
            ..
        } = self;
        let constants = self.options.constants;
        let batch_size = optional(self.options.batch_size.as_ref().map(|rows| quote!(#rows)));
        let (bind_symbol, bind_export, bind) = self.bind();
        let state = optional(self.state.as_ref().map(|state| state.record.clone()));
        Ok(quote! {{
            #shape
            const RECORD: #sdk::Record = #sdk::Record {
                name: #name,
                symbol: #symbol,
                doc: #doc,
                params: PARAMS,
                result: RESULT,
                volatility: #volatility,
                nulls: NULLS,
                constants: #constants,
                batch_size: #batch_size,
                bind: #bind_symbol,
                state: #state,
            };
            #[cfg(target_family = "wasm")]
            #[unsafe(link_section = "wasmill.manifest")]
            #[used]
            static MANIFEST: [u8; RECORD.byte_len()] = RECORD.bytes();

            #[cfg_attr(target_family = "wasm", unsafe(export_name = #symbol))]
            extern "C" fn call(frame: #sdk::Frame<'_, #sdk::CallFrame>) -> i32 {
                #call
            }
            #bind_export
            #sdk::Entry { record: &RECORD, call, bind: #bind }
        }})
    }

    /// Symbol, export and function of `bind`.
    fn bind(&self) -> (TokenStream, TokenStream, TokenStream) {
        let Some(path) = &self.options.bind else {
            return (quote!(None), quote!(), quote!(None));
        };
        let sdk = sdk();
        let symbol = self.symbol.replacen("_call_", "_bind_", 1);
        let export = quote! {
            #[cfg_attr(target_family = "wasm", unsafe(export_name = #symbol))]
            extern "C" fn bind(frame: #sdk::Frame<'_, #sdk::BindFrame>) -> i32 {
                #sdk::bind(frame, |args| #path(args))
            }
        };
        (quote!(Some(#symbol)), export, quote!(Some(bind)))
    }

    /// The arguments before those of the host.
    fn state_argument(&self) -> Option<TokenStream> {
        self.state.as_ref().map(|_| quote!(state,))
    }

    fn rows(&self) -> syn::Result<(TokenStream, TokenStream)> {
        let sdk = sdk();
        let mut names = Vec::new();
        let mut types = Vec::new();
        let mut bindings = Vec::new();
        let mut writes_text = false;
        for (at, parameter) in self.parameters.iter().enumerate() {
            match parameter {
                Parameter::Value { name, ty } => {
                    names.push(name);
                    types.push(ty);
                    bindings.push(format_ident!("argument_{at}"));
                }
                _ => writes_text = true,
            }
        }
        let static_types: Vec<_> = types.iter().map(|ty| with_static_lifetimes(ty)).collect();
        let static_args = nested_pairs(static_types.iter().map(|ty| quote!(#ty)));
        let local_args = nested_pairs(types.iter().map(|ty| {
            let ty = with_inferred_lifetimes(ty);
            quote!(#ty)
        }));
        let pattern = nested_pairs(bindings.iter().map(|binding| quote!(#binding)));
        let (total, constants) = (self.options.total, self.options.constants);
        let (path, state) = (&self.path, self.state_argument());

        let (value, builder, run) = if writes_text {
            (
                quote!(::std::string::String),
                quote!(#sdk::TextBuilder),
                quote! {
                    #sdk::rows_of_text::<#local_args, _, #total, #constants>(
                        frame, &RESULTS, |#pattern, out| #path(#state #(#bindings,)* out),
                    )
                },
            )
        } else {
            let Some(returns) = self.returns else {
                return Err(error_at(
                    self.function.span(),
                    "a UDF returns a value: add `-> Type`, or a last parameter `out: &mut StrWriter`",
                ));
            };
            let returns = with_static_lifetimes(returns);
            let value = quote!(<#returns as #sdk::RowResult>::Value);
            (
                value.clone(),
                quote!(<#value as ::wasmill_guest::Output>::Builder),
                quote! {
                    #sdk::rows::<#local_args, _, #total, #constants>(
                        frame, &RESULTS, |#pattern| #path(#state #(#bindings,)*),
                    )
                },
            )
        };
        // Errors about the result point at its type, so that the compiler finds them to be one.
        let at_result = self
            .returns
            .map_or_else(Span::call_site, |returns| returns.span())
            .resolved_at(Span::call_site());
        let shape = quote_spanned! {at_result=>
            const PARAMS: &[(&str, #sdk::Param)] = &[
                #((#names, #sdk::row_param::<#static_types>()),)*
            ];
            const RESULT: #sdk::ResultType = #sdk::row_result::<#static_args, #value>();
            const NULLS: &str = #sdk::nulls(<#static_args as #sdk::Args<'static>>::TAKES_NULLS);
        };
        let call = quote_spanned! {at_result=>
            ::std::thread_local! {
                static RESULTS: #sdk::Pool<#sdk::ResultSlot<#builder>> =
                    const { #sdk::Pool::new() };
            }
            #run
        };
        Ok((call, shape))
    }

    fn batch(&self) -> syn::Result<(TokenStream, TokenStream)> {
        let sdk = sdk();
        let (mut names, mut types, mut takes, mut passed) = (vec![], vec![], vec![], vec![]);
        let mut written = None;
        for (at, parameter) in self.parameters.iter().enumerate() {
            match parameter {
                Parameter::Value { name, ty } => {
                    let binding = format_ident!("argument_{at}");
                    let local = with_inferred_lifetimes(ty);
                    takes.push(
                        quote!(let #binding = <#local as #sdk::BatchParam<'_>>::take(inputs);),
                    );
                    passed.push(quote!(#binding));
                    names.push(name);
                    types.push(with_static_lifetimes(ty));
                }
                Parameter::Writer(item) => {
                    written = Some(with_static_lifetimes(item));
                    passed.push(quote!(out));
                }
                Parameter::Errors => passed.push(quote!(errors)),
                Parameter::StrWriter => {
                    return Err(error_at(
                        self.function.span(),
                        "a batch function takes `out: &mut Writer<str>` instead of `&mut StrWriter`",
                    ));
                }
            }
        }
        let (path, state) = (&self.path, self.state_argument());
        let parameters = quote!(const { #sdk::argument_count(PARAMS) });
        let (call, result) = match (&written, self.returns) {
            (Some(item), _) => (
                quote! {
                    ::std::thread_local! {
                        static RESULTS: #sdk::Pool<#sdk::ResultSlot<::wasmill_guest::Writer<#item>>> =
                            const { #sdk::Pool::new() };
                    }
                    #sdk::batch_written(frame, #parameters, &RESULTS, |inputs, out, errors| {
                        let _ = (&inputs, &errors);
                        #(#takes)*
                        #path(#state #(#passed,)*)
                    })
                },
                quote!(#sdk::ResultType::Column(<#item as ::wasmill_guest::Written>::SCHEMA)),
            ),
            (None, Some(returns)) => {
                let returns = with_static_lifetimes(returns);
                (
                    quote! {
                        #sdk::batch(frame, #parameters, |inputs, errors| {
                            let _ = (&inputs, &errors);
                            #(#takes)*
                            #path(#state #(#passed,)*)
                        })
                    },
                    quote!(<#returns as #sdk::BatchResult<'static>>::RESULT),
                )
            }
            (None, None) => {
                return Err(error_at(
                    self.function.span(),
                    "a batch function has a result: add a parameter `out: &mut Writer<T>`, or return `SameAs<'_, N>`",
                ));
            }
        };
        let takes_nulls = match &self.options.nulls {
            Some(nulls) => {
                let handles = nulls.value() == "handle";
                quote!(#handles)
            }
            None => quote!(false #(|| <#types as #sdk::BatchParam<'static>>::TAKES_NULLS)*),
        };
        let shape = quote! {
            const TAKES_NULLS: bool = #takes_nulls;
            const PARAMS: &[(&str, #sdk::Param)] = &[
                #((#names, #sdk::batch_param::<#types>(TAKES_NULLS)),)*
            ];
            const RESULT: #sdk::ResultType = #result;
            const NULLS: &str = #sdk::nulls(TAKES_NULLS);
        };
        Ok((call, shape))
    }
}

/// `Some(…)` or `None`.
pub fn optional(value: Option<TokenStream>) -> TokenStream {
    value.map_or_else(|| quote!(None), |value| quote!(Some(#value)))
}
