//! Rules that an archive must keep.
