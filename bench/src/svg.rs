// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Line charts as SVG, with a logarithmic vertical axis: what locking costs spans factors of a hundred.

use std::fmt::Write;

/// A named line through values, one for each label of the horizontal axis.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart by people who see few colours, too.
const COLOURS: [&str; 5] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"];

/// Draws a chart.
pub(crate) fn chart(title: &str, horizontal: &str, labels: &[String], lines: &[Line]) -> String {
    let values = || lines.iter().flat_map(|line| line.values.iter().copied()).filter(|value| *value > 0.0);
    let least = values().fold(f64::INFINITY, f64::min).log10().floor();
    let most = values().fold(1.0, f64::max).log10().ceil().max(least + 1.0);
    let x = |index: usize| {
        let steps = labels.len().saturating_sub(1).max(1) as f64;
        LEFT + (WIDTH - LEFT - RIGHT) * index as f64 / steps
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
        let (height, value) = (y(10_f64.powf(power)), 10_f64.powf(power));
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            svg,
            "<path d='M{LEFT} {height:.1}H{:.1}' stroke='#ddd'/><text x='{:.1}' y='{:.1}' \
             text-anchor='end'>{value}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            height + 4.0
        );
        power += 1.0;
    }
    for (index, label) in labels.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{label}</text>",
            x(index),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = writeln!(svg, "<text x='{LEFT}' y='{:.1}'>{horizontal}</text>", HEIGHT - 10.0);
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value))).collect();
        let _ = writeln!(
            svg,
            "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'/><text x='{:.1}' y='{:.1}' \
             fill='{colour}'>{}</text>",
            points.join(" "),
            WIDTH - RIGHT + 12.0,
            TOP + 18.0 * number as f64 + 12.0,
            line.name
        );
    }
    svg + "</svg>\n"
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
        let svg = chart("Title", "processes", &["1".to_owned(), "2".to_owned(), "4".to_owned()], &lines);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains(">1000</text>") && svg.contains(">two</text>") && !svg.contains("NaN"));
    }
}
