//! the tests of the tree
