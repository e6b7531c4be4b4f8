// Several sweeps against their key: each kernel's fastest config at every size, and baselines beside it.
import { Sheet } from "./chart";
import type { SizeLine, SizePoint, SizesData } from "./data";
import { LINES } from "./palette";
import { numberWords, type Scale, scaleOf, scaleOfValues } from "./scales";
import { svg } from "./svg";
import type { Wishes } from "./tuning_charts";

const LEGEND_LINE = 15;

export function sizesChart(data: SizesData, { width, height, log }: Wishes): Sheet {
  const margins = {
    left: 58,
    right: 14,
    top: 10 + LEGEND_LINE * Math.ceil(data.lines.length / 3),
    bottom: 40,
  };
  const sheet = new Sheet(width, height, margins, `${data.unit} against ${data.key}`);
  const points = data.lines.flatMap((line) => line.points);
  const up = scaleOf(
    points.flatMap((point) => [point.lower, point.upper]),
    sheet.bottom,
    sheet.top,
    { log, zero: data.unit !== "us" },
  );
  const across = scaleOfValues(
    points.map((point) => point.x),
    sheet.left,
    sheet.right,
  );
  sheet.up(up, data.unit);
  sheet.across(across, data.key);
  data.lines.forEach((line, number) =>
    drawLine(sheet, line, LINES[number % LINES.length]!, across, up, data),
  );
  const legend = points.some((point) => point.warm) ? ["○ warm cache"] : [];
  [...data.lines.map((line) => line.name), ...legend].forEach((name, number) => {
    const x = sheet.left + 6 + (number % 3) * ((sheet.right - sheet.left) / 3);
    const y = 12 + LEGEND_LINE * Math.floor(number / 3);
    const line = data.lines[number];
    if (line)
      sheet.add(
        svg("line", {
          x1: x,
          x2: x + 18,
          y1: y - 4,
          y2: y - 4,
          stroke: LINES[number % LINES.length],
          class: line.is_baseline ? "kl-size-line kl-dashed" : "kl-size-line",
        }),
      );
    sheet.text(name, line ? x + 24 : x, y, "start");
  });
  return sheet;
}

function drawLine(
  sheet: Sheet,
  line: SizeLine,
  color: string,
  across: Scale,
  up: Scale,
  data: SizesData,
): void {
  const path = (part: (point: SizePoint) => number, points: readonly SizePoint[]): string =>
    points.map((point) => `${across.at(point.x)},${up.at(part(point))}`).join(" ");
  const band = `${path((point) => point.upper, line.points)} ${path((point) => point.lower, [...line.points].reverse())}`;
  sheet.add(svg("polygon", { points: band, fill: color, class: "kl-band" }));
  sheet.add(
    svg("polyline", {
      points: path((point) => point.y, line.points),
      stroke: color,
      class: line.is_baseline ? "kl-size-line kl-dashed" : "kl-size-line",
    }),
  );
  for (const point of line.points) {
    const [x, y] = [across.at(point.x), up.at(point.y)];
    const hollow = point.warm ? "kl-hollow" : "";
    const mark = svg(
      "g",
      { class: `kl-point ${hollow}`, style: `color: ${color}` },
      svg("circle", { cx: x, cy: y, r: 4 }),
    );
    sheet.add(mark, ...(point.config === null ? [] : [point.config]));
    const warm = point.warm ? ", in a row with a warm cache" : "";
    sheet.spots.push({
      place: point.config,
      x,
      y,
      words: `${line.name}, ${data.key}=${point.x}: ${numberWords(point.y)} ${data.unit} (${numberWords(point.lower)} to ${numberWords(point.upper)})${warm}`,
    });
  }
}
