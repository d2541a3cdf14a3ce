// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line charts as SVG, with a logarithmic vertical axis: what locking costs spans factors of a hundred.

use std::fmt::Write;

/// A named line through values, one for each label of the horizontal axis.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

/// The horizontal axis: what it is of, and a text and a place for each value of a line.
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<String>,
    pub(crate) places: Vec<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 56.0;
/// Between the frame and the first and the last value.
const INSET: f64 = 20.0;
/// Told apart by people who see few colours, too.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"];
/// Width and dashes: the first line is the widest, so that one that lies on another hides nothing.
const STROKES: [(u8, &str); 5] = [(6, "none"), (2, "none"), (3, "8 4"), (3, "2 4"), (1, "none")];

/// Draws a chart.
pub(crate) fn chart(title: &str, axis: &Axis<'_>, lines: &[Line]) -> String {
    let values = || lines.iter().flat_map(|line| line.values.iter().copied()).filter(|value| *value > 0.0);
    let least = values().fold(f64::INFINITY, f64::min).log10().floor();
    let most = values().fold(1.0, f64::max).log10().ceil().max(least + 1.0);
    let (first, last) = axis
        .places
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| (low.min(*place), high.max(*place)));
    let x = |index: usize| {
        let part = (axis.places[index] - first) / (last - first).max(1e-12);
        LEFT + INSET + (WIDTH - LEFT - RIGHT - 2.0 * INSET) * part
    };
    let y = |value: f64| {
        let part = (value.max(1e-12).log10() - least) / (most - least);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part.clamp(0.0, 1.0)
    };
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' font-family='sans-serif' \
         font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n<text x='{LEFT}' y='22' \
         font-size='15'>{title}</text>\n"
    );
    let mut power = least;
    while power <= most {
        for step in if power < most { &[1.0, 2.0, 5.0][..] } else { &[1.0] } {
            let value = step * 10_f64.powf(power);
            let colour = if *step > 1.0 { "#eee" } else { "#bbb" };
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(
                svg,
                "<path d='M{LEFT} {0:.1}H{1:.1}' stroke='{colour}'/><text x='{2:.1}' y='{3:.1}' \
                 text-anchor='end'>{4}</text>",
                y(value),
                WIDTH - RIGHT,
                LEFT - 6.0,
                y(value) + 4.0,
                grouped(value)
            );
        }
        power += 1.0;
    }
    for (index, label) in axis.labels.iter().enumerate() {
        let (place, height) = (x(index), HEIGHT - BOTTOM);
        let _ = writeln!(
            svg,
            "<path d='M{place:.1} {height:.1}v5' stroke='#888'/><text x='{place:.1}' y='{:.1}' \
             text-anchor='middle'>{label}</text>",
            height + 19.0
        );
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    let _ = writeln!(svg, "<text x='{middle:.1}' y='{:.1}' text-anchor='middle'>{}</text>", HEIGHT - 12.0, axis.name);
    for (number, line) in lines.iter().enumerate() {
        let (width, dashes) = STROKES[number % STROKES.len()];
        let style = format!(
            "fill='none' stroke='{}' stroke-width='{width}' stroke-dasharray='{dashes}'",
            COLOURS[number % COLOURS.len()]
        );
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value))).collect();
        let (start, height) = (WIDTH - RIGHT + 12.0, TOP + 20.0 * number as f64 + 8.0);
        let _ = writeln!(
            svg,
            "<polyline points='{}' {style}/><path d='M{start:.1} {height:.1}h28' {style}/>\
             <text x='{:.1}' y='{:.1}'>{}</text>",
            points.join(" "),
            start + 34.0,
            height + 4.0,
            line.name
        );
    }
    svg + "</svg>\n"
}

/// A number with its digits in groups of three; fractions as they are.
fn grouped(value: f64) -> String {
    let text = format!("{value}");
    if value < 1000.0 {
        return text;
    }
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_labels_are_drawn_within_the_picture() {
        let lines = [
            Line { name: "one".to_owned(), values: vec![5.0, 50.0, 0.0] },
            Line { name: "two".to_owned(), values: vec![5000.0, 700.0, 3.0] },
        ];
        let labels = ["1", "2", "4"].map(str::to_owned).into();
        let axis = Axis { name: "processes", labels, places: vec![0.0, 1.0, 2.0] };
        let svg = chart("Title", &axis, &lines);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains(">1,000</text>") && svg.contains(">two</text>") && !svg.contains("NaN"));
        let alone = Axis { name: "", labels: vec!["1".to_owned()], places: vec![1.0] };
        assert!(!chart("", &alone, &[Line { name: String::new(), values: vec![1.0] }]).contains("NaN"));
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([0.5, 200.0, 1000.0, 20_000.0, 1e6].map(grouped), ["0.5", "200", "1,000", "20,000", "1,000,000"]);
    }
}
