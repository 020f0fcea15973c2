//! Synthetic archives with known truth
