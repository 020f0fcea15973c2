//! Pure computation of every metric from the rows of a run
