//! Nested JSON read as a stream: objects inside lists inside objects, none of them held whole.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::Input;
use super::json::{self, Failure, Fields, Object};
use crate::TraceError;

/// Reads every document of `input` as an object whose keys go to `fields`. Gives the number of documents.
///
/// # Errors
/// Those of `fields` and of the input.
pub(super) fn objects<F: Fields>(
    input: &Input,
    failure: &Failure,
    fields: &mut F,
) -> Result<usize, TraceError> {
    let fields = RefCell::new(fields);
    json::documents(input, failure, |_| Document(&fields))
}

struct Document<'a, 'f, F>(&'a RefCell<&'f mut F>);

impl<'de, F: Fields> DeserializeSeed<'de> for Document<'_, '_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        Object(&mut **self.0.borrow_mut()).deserialize(deserializer)
    }
}

/// What to do with each object of a list that is read as a stream.
pub(super) trait Items: Fields {
    /// An object begins.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn begin(&mut self, index: usize) -> Result<(), TraceError>;

    /// The object that was begun last has ended.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn end(&mut self) -> Result<(), TraceError>;
}

/// A seed for a list of objects whose keys go to [`Items`].
pub(super) struct Objects<'f, F> {
    pub(super) items: &'f mut F,
    pub(super) failure: &'f Failure,
}

impl<'de, F: Items> DeserializeSeed<'de> for Objects<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: Items> Visitor<'de> for Objects<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { items, failure } = self;
        let mut index = 0;
        while list.next_element_seed(Item { items: &mut *items, failure, index })?.is_some() {
            failure.keep(items.end())?;
            index += 1;
        }
        Ok(())
    }
}

/// One object of a list; it begins only when the list turns out to have it.
struct Item<'f, F> {
    items: &'f mut F,
    failure: &'f Failure,
    index: usize,
}

impl<'de, F: Items> DeserializeSeed<'de> for Item<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.failure.keep(self.items.begin(self.index))?;
        Object(self.items).deserialize(deserializer)
    }
}

/// A seed for one `T` or a list of them; `each` takes them one by one, so that the list is never held.
pub(super) struct OneOrMany<'f, T, F> {
    each: F,
    failure: &'f Failure,
    element: PhantomData<fn() -> T>,
}

impl<'f, T, F: FnMut(T) -> Result<(), TraceError>> OneOrMany<'f, T, F> {
    pub(super) fn new(failure: &'f Failure, each: F) -> Self {
        Self { each, failure, element: PhantomData }
    }
}

impl<'de, T, F> DeserializeSeed<'de> for OneOrMany<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), TraceError>,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T, F> Visitor<'de> for OneOrMany<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), TraceError>,
{
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let one = T::deserialize(MapAccessDeserializer::new(map))?;
        self.failure.keep((self.each)(one))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            self.failure.keep((self.each)(element))?;
        }
        Ok(())
    }
}
