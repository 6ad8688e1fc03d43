//! The log under the trees that live on raw NAND: where the next page goes, which pages live, what to collect.
