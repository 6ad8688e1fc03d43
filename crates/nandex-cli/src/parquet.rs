//! Tables as Parquet, for builds with the feature `parquet`.
//!
//! A table is made from the CSV that the command writes anyway, so both have the same cells. A column has the
//! type of whole numbers if all its cells are, otherwise of numbers, otherwise of text. An empty cell is
//! null.

use crate::output::Target;
use anyhow::Result;
use nandex_lab::LabError;
use std::io::{self, Write};

/// Whether the name of the file asks for Parquet.
pub(crate) fn is_wanted(target: &Target) -> bool {
    match target {
        Target::Stdout => false,
        Target::File(path) => path.extension().is_some_and(|end| end == "parquet"),
    }
}

/// Refuses Parquet if the program was built without it.
pub(crate) fn prepare(option: &str) -> Result<()> {
    let reason =
        "this program was built without Parquet: cargo install --path crates/nandex-cli --features parquet";
    if cfg!(feature = "parquet") {
        Ok(())
    } else {
        Err(LabError::bad_option(option, "parquet", reason).into())
    }
}

/// Writes a table, given as CSV, as Parquet.
#[cfg(feature = "parquet")]
pub(crate) fn write(
    csv: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = Vec::new();
    csv(&mut text)?;
    out.write_all(&columns::encode(&text).map_err(io::Error::other)?)
}

/// Writes nothing, because the program was built without Parquet; see [`prepare`].
#[cfg(not(feature = "parquet"))]
pub(crate) fn write(_: impl FnOnce(&mut dyn Write) -> io::Result<()>, _: &mut dyn Write) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(feature = "parquet")]
mod columns {
    use anyhow::{Context, Result};
    use parquet::basic::{LogicalType, Repetition, Type as Physical};
    use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
    use parquet::schema::types::Type;
    use std::sync::Arc;

    /// The values of a column without its empty cells.
    enum Values {
        Whole(Vec<i64>),
        Numbers(Vec<f64>),
        Text(Vec<ByteArray>),
    }

    struct Column {
        name: String,
        /// For each cell, 1 if it has a value and 0 if it is empty.
        levels: Vec<i16>,
        values: Values,
    }

    pub(super) fn encode(csv: &[u8]) -> Result<Vec<u8>> {
        let columns = read(csv)?;
        let fields = columns.iter().map(Column::field).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let plain = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), plain)?;
        let mut rows = file.next_row_group()?;
        for column in &columns {
            let mut writer = rows.next_column()?.context("the schema has fewer columns than the table")?;
            column.write(&mut writer)?;
            writer.close()?;
        }
        rows.close()?;
        Ok(file.into_inner()?)
    }

    fn read(text: &[u8]) -> Result<Vec<Column>> {
        let mut reader = csv::Reader::from_reader(text);
        let names: Vec<String> = reader.headers()?.iter().map(String::from).collect();
        let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
        let cells = |i: usize| rows.iter().map(move |row| row.get(i).unwrap_or_default());
        Ok(names
            .into_iter()
            .enumerate()
            .map(|(i, name)| Column::of(name, &cells(i).collect::<Vec<_>>()))
            .collect())
    }

    impl Column {
        fn of(name: String, cells: &[&str]) -> Column {
            let full = || cells.iter().filter(|cell| !cell.is_empty());
            let values = if let Ok(whole) = full().map(|cell| cell.parse()).collect() {
                Values::Whole(whole)
            } else if let Ok(numbers) = full().map(|cell| cell.parse()).collect() {
                Values::Numbers(numbers)
            } else {
                Values::Text(full().map(|cell| ByteArray::from(*cell)).collect())
            };
            Column { name, levels: cells.iter().map(|cell| i16::from(!cell.is_empty())).collect(), values }
        }

        fn field(&self) -> Result<Arc<Type>> {
            let (physical, logical) = match &self.values {
                Values::Whole(_) => (Physical::INT64, None),
                Values::Numbers(_) => (Physical::DOUBLE, None),
                Values::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field =
                Type::primitive_type_builder(&self.name, physical).with_repetition(Repetition::OPTIONAL);
            Ok(Arc::new(field.with_logical_type(logical).build()?))
        }

        fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
            match &self.values {
                Values::Whole(values) => self.batch::<Int64Type>(writer, values),
                Values::Numbers(values) => self.batch::<DoubleType>(writer, values),
                Values::Text(values) => self.batch::<ByteArrayType>(writer, values),
            }
        }

        fn batch<T: DataType>(&self, writer: &mut SerializedColumnWriter<'_>, values: &[T::T]) -> Result<()> {
            writer.typed::<T>().write_batch(values, Some(&self.levels), None)?;
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used)]

        use super::*;
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::Field;

        #[test]
        fn a_table_reads_back_with_its_kinds_and_empty_cells() {
            let text = "key,option.records,share,empty\na,1,0.5,\n\"b,c\",,3,\n";
            let bytes = bytes::Bytes::from(encode(text.as_bytes()).unwrap());
            let reader = SerializedFileReader::new(bytes).unwrap();
            let rows: Vec<Vec<(String, Field)>> =
                reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns()).collect();
            let named = |name: &str, field: Field| (name.to_string(), field);
            let row = |key: &str, records: Field, share: f64| {
                vec![
                    named("key", Field::Str(key.into())),
                    named("option.records", records),
                    named("share", Field::Double(share)),
                    named("empty", Field::Null),
                ]
            };
            assert_eq!(rows, [row("a", Field::Long(1), 0.5), row("b,c", Field::Null, 3.0)]);
        }
    }
}
