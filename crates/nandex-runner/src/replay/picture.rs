//! The chip as a picture: a tile for each block, a cell for each page.
//!
//! Pages are free, valid, invalid (programmed, and holding no page that a read would return: stale copies,
//! and the FTL's own tables) or, where the store does not know, programmed. The frame of a tile tells its
//! block's erases, from pale for none to dark red for the most of any block; a bad block is crossed out. As
//! SVG, or as PNG, by the `png` crate, for chips too large for that; both with a legend.

use super::letters::{LETTER, dots};
use crate::error::LabError;
use nandex::nand::sim::SimChip;
use nandex::{Nand, PageStore, Ppn};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Approximate length of the longer side, in pixels or units.
const SIDE: u32 = 1600;
/// Height of the legend, in units.
const LEGEND: u32 = 40;
/// Least width of a picture in units, because the legend needs it.
const WIDTH_LEAST: u32 = 1000;
/// Size of a letter's dot, in pixels.
const DOT: u32 = 2;

/// The state of a page in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageLook {
    /// The page is erased.
    Free,
    /// The page is valid: a read of some logical page would return it.
    Valid,
    /// The page is programmed and not valid.
    Invalid,
    /// The page is programmed; the store does not tell whether it is valid.
    Programmed,
    /// The page lies in a bad block.
    Bad,
}

impl PageLook {
    const ALL: [PageLook; 5] =
        [PageLook::Free, PageLook::Valid, PageLook::Invalid, PageLook::Programmed, PageLook::Bad];

    const fn colour(self) -> [u8; 3] {
        match self {
            PageLook::Free => [0xf4, 0xf4, 0xf0],
            PageLook::Valid => [0x2a, 0x78, 0xb5],
            PageLook::Invalid => [0xf0, 0xb4, 0x5a],
            PageLook::Programmed => [0x8f, 0xa8, 0x9a],
            PageLook::Bad => [0x22, 0x22, 0x22],
        }
    }

    const fn words(self) -> &'static str {
        match self {
            PageLook::Free => "free",
            PageLook::Valid => "valid",
            PageLook::Invalid => "invalid",
            PageLook::Programmed => "programmed",
            PageLook::Bad => "bad block",
        }
    }
}

/// The state of every page and block of a chip at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pages_per_block: u32,
    pages: Vec<PageLook>,
    erases: Vec<u32>,
}

impl Picture {
    /// Makes the picture of a chip and the store on it. Costs no counted I/O.
    pub fn of(chip: &SimChip, bad: &[bool], store: &dyn PageStore) -> Picture {
        let geometry = chip.geometry();
        let look = |ppn: Ppn| match (bad[geometry.block_of(ppn).index()], chip.is_erased(ppn)) {
            (true, _) => PageLook::Bad,
            (_, true) => PageLook::Free,
            _ => match store.live_page(ppn) {
                Some(true) => PageLook::Valid,
                Some(false) => PageLook::Invalid,
                None => PageLook::Programmed,
            },
        };
        Picture {
            pages_per_block: geometry.pages_per_block,
            pages: (0..geometry.pages()).map(|ppn| look(Ppn(ppn))).collect(),
            erases: chip.wear().to_vec(),
        }
    }

    /// Number of pages in this state.
    pub fn count(&self, look: PageLook) -> u64 {
        self.pages.iter().filter(|&&l| l == look).count() as u64
    }

    /// Writes the picture as SVG or PNG, as the file name's ending says.
    pub fn write(&self, path: &Path, title: &str) -> Result<(), LabError> {
        let failed = |error| LabError::io(path.display(), error);
        if Kind::of(path)? == Kind::Svg {
            return fs::write(path, self.svg(title)).map_err(failed);
        }
        let mut bytes = Vec::new();
        self.png(&mut bytes).map_err(|e| failed(std::io::Error::other(e)))?;
        fs::write(path, bytes).map_err(failed)
    }

    /// Refuses a file name that ends with neither `.svg` nor `.png`.
    pub fn check_name(path: &Path) -> Result<(), LabError> {
        Kind::of(path).map(drop)
    }

    fn tiling(&self) -> Tiling {
        let ceil_sqrt = |n: u32| n.isqrt() + u32::from(n.isqrt() * n.isqrt() < n);
        let columns = ceil_sqrt(self.pages_per_block);
        let rows = self.pages_per_block.div_ceil(columns);
        let across = ceil_sqrt((self.erases.len() as u32).max(1));
        let down = (self.erases.len() as u32).div_ceil(across);
        // A frame of one cell all around, and a cell between two tiles.
        let cells = (across * (columns + 3)).max(down * (rows + 3));
        Tiling { columns, rows, across, down, cell: (SIDE / cells).clamp(1, 24) }
    }

    fn wear_colour(&self, block: usize) -> [u8; 3] {
        let most = self.erases.iter().copied().max().unwrap_or(0).max(1);
        wear_share(self.erases[block].into(), most.into())
    }

    fn block_pages(&self, block: usize) -> &[PageLook] {
        let per_block = self.pages_per_block as usize;
        &self.pages[block * per_block..][..per_block]
    }

    fn svg(&self, title: &str) -> String {
        let t = self.tiling();
        let (width, height) = ((t.across * t.tile_width()).max(WIDTH_LEAST), t.down * t.tile_height());
        let title = title.replace('&', "&amp;").replace('<', "&lt;");
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" font-family=\"sans-serif\" \
             font-size=\"14\"><title>{title}</title><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            height + 2 * LEGEND
        );
        for block in 0..self.erases.len() {
            let (left, top) = t.corner(block);
            let (width, height) = ((t.columns + 2) * t.cell, (t.rows + 2) * t.cell);
            let frame = hex(self.wear_colour(block));
            let _ = writeln!(
                out,
                "<path fill=\"{frame}\" d=\"M{left} {top}h{width}v{height}h-{width}z\"><title>block {block}: \
                 {} erases</title></path>",
                self.erases[block]
            );
            for look in PageLook::ALL {
                self.svg_pages(&mut out, &t, block, look);
            }
        }
        self.svg_legend(&mut out, height, &title);
        out + "</svg>\n"
    }

    /// Draws the pages of a block that are in one state, as one path with a run per row.
    fn svg_pages(&self, out: &mut String, t: &Tiling, block: usize, look: PageLook) {
        let pages = self.block_pages(block);
        let (left, top) = t.corner(block);
        let mut path = String::new();
        for (row, cells) in pages.chunks(t.columns as usize).enumerate() {
            let mut from = 0;
            for run in cells.chunk_by(|a, b| a == b) {
                if run[0] == look {
                    let x = left + (1 + from) * t.cell;
                    let y = top + (1 + row as u32) * t.cell;
                    let (w, h) = (run.len() as u32 * t.cell, t.cell);
                    let _ = write!(path, "M{x} {y}h{w}v{h}h-{w}z");
                }
                from += run.len() as u32;
            }
        }
        if !path.is_empty() {
            let _ = writeln!(out, "<path fill=\"{}\" d=\"{path}\"/>", hex(look.colour()));
        }
    }

    fn svg_legend(&self, out: &mut String, top: u32, title: &str) {
        let _ = writeln!(out, "<text x=\"4\" y=\"{}\">{title}</text>", top + 24);
        let (mut x, y) = (4, top + LEGEND);
        for look in PageLook::ALL.into_iter().filter(|&look| self.count(look) > 0) {
            let text = format!("{} {}", self.count(look), look.words());
            let colour = hex(look.colour());
            let _ = writeln!(
                out,
                "<path fill=\"{colour}\" stroke=\"#888\" d=\"M{x} {y}h14v14h-14z\"/><text x=\"{}\" y=\"{}\">{text}</text>",
                x + 20,
                y + 13
            );
            x += 40 + 8 * text.len() as u32;
        }
        let most = self.erases.iter().max().unwrap_or(&0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\">frame: 0 to {most} erases</text>", y + 13);
    }

    /// Draws the legend: the states that occur with their counts, and the colour scale of the frames.
    fn png_legend(&self, image: &mut Image, top: u32) {
        let mut x = 4;
        for look in PageLook::ALL.into_iter().filter(|&look| self.count(look) > 0) {
            image.fill((x, top), (14, 14), [0x88; 3]);
            image.fill((x + 1, top + 1), (12, 12), look.colour());
            x = image.write((x + 20, top), &format!("{} {}", self.count(look), look.words())) + 16;
        }
        let most = self.erases.iter().copied().max().unwrap_or(0);
        x = image.write((x, top), "frame: 0") + 4;
        for step in 0..=30u32 {
            image.fill((x + 2 * step, top), (2, 14), wear_share(u64::from(step), 30));
        }
        image.write((x + 68, top), &format!("{most} erases"));
    }

    fn png(&self, out: &mut Vec<u8>) -> Result<(), png::EncodingError> {
        let t = self.tiling();
        let map_height = t.down * t.tile_height();
        let (width, height) = ((t.across * t.tile_width()).max(WIDTH_LEAST), map_height + LEGEND);
        let mut image = Image { width, pixels: vec![0xff; width as usize * height as usize * 3] };
        self.png_legend(&mut image, map_height + LEGEND / 3);
        for block in 0..self.erases.len() {
            let (left, top) = t.corner(block);
            let frame = ((t.columns + 2) * t.cell, (t.rows + 2) * t.cell);
            image.fill((left, top), frame, self.wear_colour(block));
            for (page, look) in self.block_pages(block).iter().enumerate() {
                let (column, row) = (page as u32 % t.columns, page as u32 / t.columns);
                let corner = (left + (1 + column) * t.cell, top + (1 + row) * t.cell);
                image.fill(corner, (t.cell, t.cell), look.colour());
            }
        }
        let mut encoder = png::Encoder::new(out, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(&image.pixels)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    Png,
}

impl Kind {
    fn of(path: &Path) -> Result<Kind, LabError> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("svg") => Ok(Kind::Svg),
            Some("png") => Ok(Kind::Png),
            _ => {
                let name = path.display().to_string();
                Err(LabError::bad_option("--map", &name, "should end in .svg or .png"))
            }
        }
    }
}

/// The layout of blocks and pages; lengths are in pixels or units.
struct Tiling {
    /// Number of pages across and down in a tile.
    columns: u32,
    rows: u32,
    /// Number of tiles across and down.
    across: u32,
    down: u32,
    /// Length of a cell's side.
    cell: u32,
}

impl Tiling {
    fn tile_width(&self) -> u32 {
        (self.columns + 3) * self.cell
    }

    fn tile_height(&self) -> u32 {
        (self.rows + 3) * self.cell
    }

    fn corner(&self, block: usize) -> (u32, u32) {
        let block = block as u32;
        ((block % self.across) * self.tile_width(), (block / self.across) * self.tile_height())
    }
}

struct Image {
    width: u32,
    pixels: Vec<u8>,
}

impl Image {
    /// Writes small letters and digits; returns the position after the last one.
    fn write(&mut self, (left, top): (u32, u32), text: &str) -> u32 {
        for (x, y) in dots(text) {
            self.fill((left + x * DOT, top + y * DOT), (DOT, DOT), [0x22; 3]);
        }
        left + text.chars().count() as u32 * LETTER.0 * DOT
    }

    fn fill(&mut self, (left, top): (u32, u32), (width, height): (u32, u32), colour: [u8; 3]) {
        // What a long legend has beyond the edge is left out.
        let width = width.min(self.width.saturating_sub(left));
        for y in top..top + height {
            let at = (y as usize * self.width as usize + left as usize) * 3;
            for pixel in self.pixels[at..at + width as usize * 3].as_chunks_mut().0 {
                *pixel = colour;
            }
        }
    }
}

/// The colour of a block with `erases` when the most worn block has `most`.
fn wear_share(erases: u64, most: u64) -> [u8; 3] {
    let share = |from: u8, to: u8| {
        let (from, to) = (i64::from(from), i64::from(to));
        (from + (to - from) * erases as i64 / most as i64) as u8
    };
    [share(0xe8, 0x9c), share(0xe4, 0x10), share(0xe0, 0x14)]
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let mut pages = vec![PageLook::Free; 3 * 16];
        pages[..5].fill(PageLook::Valid);
        pages[5..9].fill(PageLook::Invalid);
        pages[32..].fill(PageLook::Bad);
        Picture { pages_per_block: 16, pages, erases: vec![4, 0, 2] }
    }

    #[test]
    fn a_png_shows_each_page_where_it_is() {
        let (picture, mut bytes) = (picture(), Vec::new());
        picture.png(&mut bytes).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let t = picture.tiling();
        assert_eq!((info.width, info.height), (WIDTH_LEAST, 2 * 7 * t.cell + LEGEND));
        let at = |x: u32, y: u32| &pixels[(y * info.width + x) as usize * 3..][..3];
        let page = |block: usize, page: u32| {
            let (left, top) = t.corner(block);
            at(left + (1 + page % 4) * t.cell, top + (1 + page / 4) * t.cell).to_vec()
        };
        assert_eq!(page(0, 4), PageLook::Valid.colour());
        assert_eq!(page(0, 5), PageLook::Invalid.colour());
        assert_eq!(page(1, 0), PageLook::Free.colour());
        assert_eq!(page(2, 15), PageLook::Bad.colour());
        assert_eq!(at(0, 0), [0x9c, 0x10, 0x14], "the frame of the block erased most");
        let legend = &pixels[(info.width * (info.height - LEGEND) * 3) as usize..];
        let has = |colour: [u8; 3]| legend.as_chunks::<3>().0.contains(&colour);
        assert!(
            has(PageLook::Bad.colour()) && has([0x9c, 0x10, 0x14]) && !has(PageLook::Programmed.colour())
        );
    }

    #[test]
    fn an_svg_has_a_legend_and_escapes_its_title() {
        let svg = picture().svg("a<b");
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        for words in ["5 valid", "4 invalid", "23 free", "16 bad block", "0 to 4 erases", "block 1: 0 erases"]
        {
            assert!(svg.contains(words), "{words}");
        }
        let page = scraper::Html::parse_document(&svg);
        assert_eq!(page.select(&scraper::Selector::parse("path title").unwrap()).count(), 3);
    }

    #[test]
    fn the_name_tells_the_kind() {
        let folder = tempfile::tempdir().unwrap();
        for (name, magic) in [("a.png", &b"\x89PNG"[..]), ("a.svg", b"<svg")] {
            let path = folder.path().join(name);
            picture().write(&path, "t").unwrap();
            assert!(fs::read(&path).unwrap().starts_with(magic));
        }
        let error = Picture::check_name(Path::new("a.gif")).unwrap_err().to_string();
        assert!(error.contains("--map") && error.contains(".svg or .png"), "{error}");
    }
}
