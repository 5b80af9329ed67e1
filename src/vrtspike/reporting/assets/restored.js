/* The page of restored frames: its sections, in order. */

/** One value of every frame: of the blurry ones, by each model, and those in doubt. */
function frameCurves(metric) {
  const [before, after] = metric.columns;
  const mode = report.frames.length > 30 ? "lines" : "lines+markers";
  const line = (name, values, colour, dash) => ({
    x: report.frames, y: values, mode, name, line: { color: colour, width: 2, dash }, marker: { color: colour },
  });
  const traces = [line("blurry", report.runs[0].frame_values[before], css("--soft"), "dot")];
  report.runs.forEach((run, index) => {
    const values = run.frame_values[after];
    traces.push(line(run.name, values, lineColour(index), "solid"));
    const doubts = run.doubtful.filter((at) => values[at] !== null);
    if (doubts.length) {
      traces.push({
        x: doubts.map((at) => report.frames[at]),
        y: doubts.map((at) => values[at]),
        mode: "markers",
        name: severalRuns ? `in doubt, ${run.name}` : "in doubt",
        marker: { color: css("--bad"), size: 9, symbol: "x" },
      });
    }
  });
  return {
    traces,
    layout: layout("frame", metric.unit, {
      showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: { type: "category", nticks: 8 },
    }),
  };
}

function showCurves() {
  const place = body("curves");
  const { metrics } = report.runs[0].evaluation;
  if (!metrics.length) {
    place.append(el("p", { className: "absent", textContent: report.words.no_metrics }));
    return;
  }
  place.append(
    meansTable(report.runs, metrics, "Means over the frames"),
    el("div", { className: "charts" }, ...metrics.map((metric) => chart(metric.title, () => frameCurves(metric)))),
    el("details", {}, el("summary", { textContent: "About these metrics" }), ...metrics.map(({ title, definition }) => el("p", { className: "note", textContent: `${title}: ${definition}.` }))),
  );
}

function showOrigin() {
  const facts = report.origin.flatMap(([title, text]) => [el("dt", { textContent: title }), el("dd", { textContent: text })]);
  body("origin").append(el("div", { className: "origin" }, el("dl", {}, ...facts)));
}

showNavigation();
showPictures();
showCurves();
showOrigin();
document.documentElement.dataset.ready = "yes";
