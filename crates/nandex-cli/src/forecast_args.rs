//! The arguments of `nandex list indexes --chip` and of `nandex list ftls --chip`.

use crate::parse;
use clap::Args as ClapArgs;
use nandex::nand::Part;
use nandex::ordered::RecordFormat;

#[derive(Debug, ClapArgs)]
pub(crate) struct Forecast {
    /// The smallest RAM of indexes on this part or chip file, and what plow chooses and expects there; of
    /// FTLs the room that they leave.
    #[arg(long, value_name = "PART|FILE", value_parser = parse::chip)]
    pub(crate) chip: Option<Part>,
    /// With --chip: bytes of a key and of a value.
    #[arg(long, value_name = "KEY/VALUE", default_value = "8/8", value_parser = parse::record, requires = "chip")]
    pub(crate) record: RecordFormat,
    /// With --chip: records that the index holds.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "chip")]
    pub(crate) records: u64,
}
