//! Lists: offsets into a child column.

use std::marker::PhantomData;

use super::{
    ArrowType, Builder, Fixed, FixedColumn, Input, Nulls, Output, Readable, buffer, child, leaf,
    vec_is_list,
};
use crate::abi::ArrowArray;
use crate::buffer::Buffer;
use crate::manifest::Schema;

/// Where the lists of a column are, and their items.
#[derive(Clone, Copy)]
pub struct ListColumn<C> {
    offsets: *const i32,
    items: C,
}

impl<C: Copy> ListColumn<C> {
    /// Finds offsets and items.
    ///
    /// # Safety
    /// `array` must be a valid column of lists of `T`.
    pub unsafe fn of<'a, T: Input<'a, Column = C>>(array: &'a ArrowArray) -> Self {
        // SAFETY: a list has its offsets in buffer 1, and one child with the items.
        unsafe {
            Self {
                offsets: buffer(array, 1).cast(),
                items: T::column(child(array, 0)),
            }
        }
    }

    /// # Safety
    /// There must be more than `row` rows.
    #[inline]
    unsafe fn range(self, row: usize) -> (usize, usize) {
        // SAFETY: there is one offset more than rows.
        unsafe {
            let start = self.offsets.add(row).read_unaligned();
            let end = self.offsets.add(row + 1).read_unaligned();
            (start as usize, (end - start) as usize)
        }
    }

    /// The items of a row.
    ///
    /// # Safety
    /// `self` must be a living column of lists of `T` with more than `row` rows.
    pub unsafe fn collect<'a, T: Input<'a, Column = C>>(self, row: usize) -> Vec<T> {
        // SAFETY: offsets lie within the items.
        unsafe {
            let (start, len) = self.range(row);
            (start..start + len)
                .map(|at| T::get(self.items, at))
                .collect()
        }
    }
}

/// One row of a column of lists, read where it is.
///
/// ```
/// use wasmill_guest::{ListRef, udf};
///
/// /// Total length of the words.
/// #[udf]
/// fn letters(words: ListRef<'_, str>) -> i64 {
///     words.iter().map(|word| word.len() as i64).sum()
/// }
/// ```
pub struct ListRef<'a, T: Readable<'a> + ?Sized> {
    items: <T::Item as Input<'a>>::Column,
    start: usize,
    len: usize,
    life: PhantomData<&'a T>,
}

impl<'a, T: Readable<'a> + ?Sized> Clone for ListRef<'a, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'a, T: Readable<'a> + ?Sized> Copy for ListRef<'a, T> {}

impl<'a, T: Readable<'a> + ?Sized> ListRef<'a, T> {
    /// Number of items.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no items.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Item `at`.
    #[inline]
    #[must_use]
    pub fn get(self, at: usize) -> Option<T::Item> {
        // SAFETY: the list lies within the items.
        (at < self.len).then(|| unsafe { T::Item::get(self.items, self.start + at) })
    }

    /// All items.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = T::Item> {
        // SAFETY: the list lies within the items.
        (self.start..self.start + self.len).map(move |at| unsafe { T::Item::get(self.items, at) })
    }
}

impl<'a, T: Fixed + Input<'a, Column = FixedColumn<T>>> ListRef<'a, T> {
    /// The items as a slice.
    #[inline]
    #[must_use]
    pub fn as_slice(self) -> &'a [T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the list lies within the items, which are aligned and live for `'a`.
        unsafe { std::slice::from_raw_parts(self.items.0.add(self.start), self.len) }
    }
}

impl<'a, T: Readable<'a> + ?Sized> ArrowType for ListRef<'a, T> {
    const SCHEMA: Schema = <T::Item as ArrowType>::VEC_SCHEMA;
    vec_is_list!(schema);
}

impl<'a, T: Readable<'a> + ?Sized> Input<'a> for ListRef<'a, T> {
    type Column = ListColumn<<T::Item as Input<'a>>::Column>;

    unsafe fn column(array: &'a ArrowArray) -> Self::Column {
        const {
            assert!(
                is_list(&<T::Item as ArrowType>::VEC_SCHEMA),
                "a list of u8 is binary: use &[u8]"
            )
        };
        // SAFETY: the caller vouches for the array.
        unsafe { ListColumn::of::<T::Item>(array) }
    }

    #[inline]
    unsafe fn get(column: Self::Column, row: usize) -> Self {
        // SAFETY: the caller vouches for the row.
        let (start, len) = unsafe { column.range(row) };
        Self {
            items: column.items,
            start,
            len,
            life: PhantomData,
        }
    }

    vec_is_list!(input 'a);
}

const fn is_list(schema: &Schema) -> bool {
    !schema.children.is_empty()
}

impl<T: ArrowType> ArrowType for Vec<T> {
    const SCHEMA: Schema = T::VEC_SCHEMA;
    vec_is_list!(schema);
}

impl<'a, T: Input<'a>> Input<'a> for Vec<T> {
    type Column = T::VecColumn;

    unsafe fn column(array: &'a ArrowArray) -> Self::Column {
        // SAFETY: the caller vouches for the array.
        unsafe { T::vec_column(array) }
    }

    unsafe fn get(column: Self::Column, row: usize) -> Self {
        // SAFETY: the caller vouches for the row.
        unsafe { T::get_vec(column, row) }
    }

    vec_is_list!(input 'a);
}

impl<T: Output> Output for Vec<T> {
    type Builder = T::VecBuilder;

    fn placeholder() -> Self {
        Self::new()
    }

    #[inline]
    fn push(self, builder: &mut Self::Builder) {
        T::push_vec(self, builder);
    }

    vec_is_list!(output);
}

/// Collects lists.
#[derive(Default)]
pub struct ListBuilder<B> {
    offsets: Buffer<i32>,
    items: B,
    buffers: [*const u8; 2],
    item_array: Option<ArrowArray>,
    children: [*const ArrowArray; 1],
}

impl<B: Builder> ListBuilder<B> {
    /// Where the items of the row go that is being written.
    #[inline]
    pub fn items(&mut self) -> &mut B {
        &mut self.items
    }

    /// Ends the row that is being written.
    ///
    /// # Panics
    /// When there are more than 2³¹ items.
    #[inline]
    pub fn end_row(&mut self) {
        let end =
            i32::try_from(self.items.len()).expect("a column of lists holds at most 2^31 items");
        self.offsets.push(end);
    }

    /// Appends one row.
    #[inline]
    pub fn push_items<T: Output<Builder = B>>(&mut self, items: Vec<T>) {
        for item in items {
            item.push(&mut self.items);
        }
        self.end_row();
    }
}

impl<B: Builder> Builder for ListBuilder<B> {
    fn begin(&mut self, rows: usize) {
        self.items.begin(rows);
        self.offsets.clear();
        self.offsets.reserve(rows + 1);
        self.offsets.push(0);
    }

    #[inline]
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn finish(&mut self, nulls: Nulls) -> ArrowArray {
        self.buffers = [nulls.bits, self.offsets.as_host_ptr()];
        let items = self.items.finish(Nulls::NONE);
        self.children = [std::ptr::from_ref(self.item_array.insert(items))];
        ArrowArray {
            n_children: 1,
            children: self.children.as_ptr(),
            ..leaf(self.len(), nulls, &self.buffers)
        }
    }
}
