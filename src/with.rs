//! Configurations for other crates: made by a constructor and one method per field, so that a new field
//! breaks no user.

/// Gives a configuration a method for each of its public fields. A `const` before it makes them constant.
macro_rules! with {
    (const $config:ident { $($field:ident: $type:ty => $with:ident),+ $(,)? }) => {
        impl $config {$(
            #[doc = concat!("This with another [`", stringify!($field), "`](", stringify!($config), "::", stringify!($field), ").")]
            #[must_use]
            pub const fn $with(mut self, value: $type) -> $config {
                self.$field = value;
                self
            }
        )+}
    };
    ($config:ident<$parameter:ident> { $($field:ident: $type:ty => $with:ident),+ $(,)? }) => {
        impl<$parameter> $config<$parameter> {$(
            #[doc = concat!("This with another [`", stringify!($field), "`](", stringify!($config), "::", stringify!($field), ").")]
            #[must_use]
            pub fn $with(mut self, value: $type) -> $config<$parameter> {
                self.$field = value;
                self
            }
        )+}
    };
}

use crate::blocks::Validity;
use crate::blocks::hot::HotConfig;
use crate::blocks::victim::VictimPolicy;
use crate::blocks::wear::WearLevelling;
use crate::cache::{CacheConfig, WriteMode};
use crate::ftl::FlashConfig;
use crate::ftl::dftl::DftlConfig;
use crate::ftl::page_map::{FtlConfig, Separation};
use crate::index::Durability;
use crate::log::{Placement, SamePage, WritePartLimit};
use crate::nand::{Geometry, ReadOutcome, Timing};
use crate::ordered::bplus::{BPlusConfig, Overflow, StructureWrites, TreeRam, Underflow};
use crate::ordered::furrow::FurrowConfig;
use crate::ordered::mu::{Costs, LayoutPolicy, MenuConfig};
use crate::ordered::plow::PlowConfig;
use crate::ordered::sbits::{SbitsConfig, WhenFull};
use crate::ordered::vm::overwrite::{Marks, OverwriteConfig};
use crate::ordered::vm::{Duplicates, Keep, TableConfig, VmConfig};
use crate::ordered::{Answers, RawConfig, RecordFormat};
use crate::spatial::SpatialConfig;

with! { const Geometry {
    page_bytes: u32 => with_page_bytes,
    spare_bytes: u32 => with_spare_bytes,
    pages_per_block: u32 => with_pages_per_block,
    blocks: u32 => with_blocks,
    random_order: bool => with_random_order,
    channels: u32 => with_channels,
    append_bytes: u16 => with_append_bytes,
} }

with! { const Timing {
    read_ns: u64 => with_read_ns,
    program_ns: u64 => with_program_ns,
    erase_ns: u64 => with_erase_ns,
    transfer_ps_per_byte: u64 => with_transfer_ps_per_byte,
} }

with! { const ReadOutcome {
    corrected: u32 => with_corrected,
    is_weak: bool => with_weakness,
} }

with! { const HotConfig {
    counters: u32 => with_counters,
    hashes: u32 => with_hashes,
    threshold: u8 => with_threshold,
    decay_writes: u32 => with_decay_writes,
} }

with! { const CacheConfig {
    frames: usize => with_frames,
    mode: WriteMode => with_mode,
    dirty_frames_max: Option<usize> => with_dirty_frames_max,
} }

with! { const FlashConfig {
    over_provisioning_ppm: u32 => with_over_provisioning_ppm,
    bad_blocks_ppm: u32 => with_bad_blocks_ppm,
    wear_levelling: WearLevelling => with_wear_levelling,
} }

with! { const DftlConfig {
    common: FlashConfig => with_common,
    cache_bytes: Option<u32> => with_cache_bytes,
    victim: VictimPolicy => with_victim,
    validity: Validity => with_validity,
} }

with! { const FtlConfig {
    over_provisioning_ppm: u32 => with_over_provisioning_ppm,
    bad_blocks_ppm: u32 => with_bad_blocks_ppm,
    atomic_pages: u32 => with_atomic_pages,
    victim: VictimPolicy => with_victim,
    checkpoint_blocks: Option<u32> => with_checkpoint_blocks,
    separation: Separation => with_separation,
    wear_levelling: WearLevelling => with_wear_levelling,
} }

with! { const BPlusConfig {
    record: RecordFormat => with_record,
    leaf_capacity: Option<usize> => with_leaf_capacity,
    internal_capacity: Option<usize> => with_internal_capacity,
    durability: Durability => with_durability,
    overflow: Overflow => with_overflow,
    underflow: Underflow => with_underflow,
    structure_writes: StructureWrites => with_structure_writes,
    ram: TreeRam => with_ram,
} }

with! { RawConfig<C> {
    record: RecordFormat => with_record,
    durability: Durability => with_durability,
    ram_bytes: Option<usize> => with_ram_bytes,
    read_pages: Option<usize> => with_read_pages,
    write_pages: Option<usize> => with_write_pages,
    write_part: WritePartLimit => with_write_part,
    victim: VictimPolicy => with_victim,
    collect_at_blocks: u32 => with_collect_at_blocks,
    checkpoint_blocks: u32 => with_checkpoint_blocks,
    placement: Placement => with_placement,
    validity: Option<Validity> => with_validity,
    wear_levelling: WearLevelling => with_wear_levelling,
    same_page: SamePage => with_same_page,
    journal: usize => with_journal,
    scheme: C => with_scheme,
} }

with! { const MenuConfig {
    layout: LayoutPolicy => with_layout,
    costs: Costs => with_costs,
} }

with! { const Costs {
    read_ns: u32 => with_read_ns,
    program_ns: u32 => with_program_ns,
    erase_ns: u32 => with_erase_ns,
} }

with! { const TableConfig {
    bytes: Option<usize> => with_bytes,
    keep: Keep => with_keep,
    duplicates: Duplicates => with_duplicates,
} }

with! { const VmConfig {
    tree: RawConfig<TableConfig> => with_tree,
    log_pages: u32 => with_log_pages,
    answers: Answers => with_answers,
} }

with! { const OverwriteConfig {
    record: RecordFormat => with_record,
    durability: Durability => with_durability,
    ram_bytes: Option<usize> => with_ram_bytes,
    marks: Marks => with_marks,
    keep: Keep => with_keep,
    log_pages: u32 => with_log_pages,
    answers: Answers => with_answers,
} }

with! { const PlowConfig {
    record: RecordFormat => with_record,
    durability: Durability => with_durability,
    ram_bytes: Option<usize> => with_ram_bytes,
    memtable: Option<usize> => with_memtable,
    levels: Option<usize> => with_levels,
    answers: Answers => with_answers,
} }

with! { const FurrowConfig {
    record: RecordFormat => with_record,
    durability: Durability => with_durability,
    ram_bytes: Option<usize> => with_ram_bytes,
    records: Option<usize> => with_records,
    prefix_bytes: Option<usize> => with_prefix_bytes,
} }

with! { const SbitsConfig {
    record: RecordFormat => with_record,
    durability: Durability => with_durability,
    ram_bytes: Option<usize> => with_ram_bytes,
    spline_points: Option<usize> => with_spline_points,
    max_error: u32 => with_max_error,
    when_full: WhenFull => with_when_full,
} }

with! { SpatialConfig<R> {
    rules: R => with_rules,
    leaf_capacity: Option<usize> => with_leaf_capacity,
    internal_capacity: Option<usize> => with_internal_capacity,
    fill_min_percent: u8 => with_fill_min_percent,
    durability: Durability => with_durability,
} }

#[cfg(any(feature = "sim", test))]
mod sim {
    use crate::nand::sim::{CutWhen, Disturb, Faults, PowerCut, TornModel};

    with! { const Faults {
        seed: u64 => with_seed,
        program_failures_ppm: u32 => with_program_failures_ppm,
        erase_failures_ppm: u32 => with_erase_failures_ppm,
        wears_out: bool => with_wearing_out,
        bit_errors_per_gigabit: u32 => with_bit_errors_per_gigabit,
        read_failures_ppm: u32 => with_read_failures_ppm,
        read_failures_in_row: u8 => with_read_failures_in_row,
        weak_reads_ppm: u32 => with_weak_reads_ppm,
        disturb: Disturb => with_disturb,
    } }

    with! { const Disturb {
        reads_per_bit: u32 => with_reads_per_bit,
        erases_per_bit: u32 => with_erases_per_bit,
        ecc_strength: u32 => with_ecc_strength,
    } }

    with! { const PowerCut {
        at_operation: u64 => with_at_operation,
        when: CutWhen => with_when,
        torn: TornModel => with_torn,
        seed: u64 => with_seed,
    } }
}
