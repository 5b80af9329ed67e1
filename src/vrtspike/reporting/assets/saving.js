/* Data and pictures of charts as files. */

/** Traces that follow from others, which saved data leave out. */
const DERIVED = "derived";

function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The points of a chart as CSV: a row each, with the ends of error bars and names of points. */
function chartData({ traces, layout }) {
  const header = ["series", layout.xaxis.title.text || "x", layout.yaxis.title.text || "y", "low", "high", "point"];
  const rows = traces
    .filter((trace) => trace.meta !== DERIVED)
    .flatMap(({ name, x, y, error_x: errors, customdata }) =>
      x.map((value, at) => [
        name,
        value,
        y[at],
        errors ? value - errors.arrayminus[at] : "",
        errors ? value + errors.array[at] : "",
        typeof customdata?.[at] === "string" ? customdata[at] : "",
      ]),
    );
  const used = header.map((_, place) => place < 3 || rows.some((row) => row[place] !== ""));
  return [header, ...rows].map((row) => row.filter((_, place) => used[place]).map(csvCell).join(",")).join("\n") + "\n";
}

/** Give a file to the reader. */
function saveFile(name, contents, type) {
  const address = URL.createObjectURL(new Blob([contents], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), REST_AFTER_MS);
}

async function savePicture(name, plot, { traces, layout }) {
  const Plotly = await loadPlotly();
  const { clientWidth: width, clientHeight: height } = plot;
  const figure = { data: traces, layout: { ...layout, paper_bgcolor: css("--paper"), width, height } };
  await Plotly.downloadImage(figure, { format: "svg", filename: name, width, height });
}

/** Buttons that save the points of a chart and its picture. */
function saveButtons(heading, plot, make) {
  const fileName = () => heading.textContent.replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_|_$/g, "");
  const button = (form, action) => {
    const element = el("button", { type: "button", textContent: form, attributes: { "aria-label": `Save as ${form}: ${heading.textContent}` } });
    element.addEventListener("click", action);
    return element;
  };
  return el(
    "span",
    { className: "saves", hidden: true },
    button("CSV", () => saveFile(`${fileName()}.csv`, chartData(make()), "text/csv")),
    button("SVG", () => savePicture(fileName(), plot, make())),
  );
}
