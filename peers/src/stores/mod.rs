//! The stores of the run, each behind [`crate::store::Store`].

pub mod ekv;
pub mod littlefs;
pub mod nandex;
pub mod redb;
pub mod sequential;
pub mod sqlite;
