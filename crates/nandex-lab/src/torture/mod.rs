//! Torture: small chips driven to where promises break, and every answer compared with what was promised.

pub mod damage;
