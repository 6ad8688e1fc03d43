//! Rows and columns for a terminal: a rule under the headings, blanks between the columns, no other lines.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle,
};

/// Blanks between two columns; the table itself draws one of them.
pub(super) const GAP: usize = 2;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Left, for text.
    Left,
    /// Left, for prose that is broken into lines if the table would be too wide.
    Prose,
    /// Right, for figures.
    Right,
}

/// Lays out rows below their headings, which may have several lines.
pub fn grid(headings: &[String], sides: &[Side], rows: &[Vec<String>]) -> String {
    lay_out(headings, sides, rows, None)
}

/// Lays out a grid and breaks its prose so that no line is wider than `width`.
pub fn grid_within(headings: &[String], sides: &[Side], rows: &[Vec<String>], width: usize) -> String {
    lay_out(headings, sides, rows, u16::try_from(width).ok())
}

fn lay_out(headings: &[String], sides: &[Side], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(style()).set_content_arrangement(match width {
        Some(_) => ContentArrangement::Dynamic,
        None => ContentArrangement::Disabled,
    });
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header(headings);
    table.add_rows(rows);
    for (i, (side, column)) in sides.iter().zip(table.column_iter_mut()).enumerate() {
        column.set_padding((if i == 0 { 0 } else { GAP as u16 - 1 }, 0));
        column.set_cell_alignment(match side {
            Side::Left | Side::Prose => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
        if *side != Side::Prose {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt() + "\n"
}

fn style() -> TableStyle {
    TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill('-').junction('-'))
        .content_lines(ContentLineStyle::none())
}
