/* Curves and bars, drawn by Plotly, which is unpacked when the first of them comes into view. */

const REST_AFTER_MS = 1500;

const hidden = new Set();
const settings = { smoothing: 0.6, logarithmic: true, everySection: false, memory: null };
const drawn = new Map();
let library = null;

function loadPlotly() {
  library ??= (async () => {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(el("script", { textContent: await new Response(unpacked).text() }));
    return window.Plotly;
  })();
  return library;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

function lineColour(index) {
  return css(`--run-${index % COLOURS}`);
}

/** Runs from which on a legend would cover its chart: the switches stand for it. */
const MANY_RUNS = 5;
const manyRuns = report.runs.length >= MANY_RUNS;

/** The pattern of a run's lines, which tells runs of one colour apart. */
function lineDash(index) {
  return DASHES[cycle(index)];
}

/** How often the colours have been used before a run. */
function cycle(index) {
  return Math.floor(index / COLOURS) % DASHES.length;
}

/** A colour with some of the paper in it. */
function faint(colour, share) {
  const parts = (text) => [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  const [ink, paper] = [parts(colour), parts(css("--paper"))];
  return `rgb(${ink.map((value, place) => Math.round(share * value + (1 - share) * paper[place])).join(",")})`;
}

function layout(x, y, more = {}) {
  const axis = {
    gridcolor: css("--line"),
    linecolor: css("--line"),
    zerolinecolor: css("--line"),
    automargin: true,
  };
  const { xaxis = {}, yaxis = {}, ...rest } = more;
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: css("--ink") },
    margin: { l: 50, r: 12, t: 14, b: 44 },
    hovermode: "closest",
    hoverlabel: { bgcolor: css("--raised"), bordercolor: css("--line"), font: { color: css("--ink") } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
    showlegend: false,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: { ...axis, title: { text: x }, ...xaxis },
    yaxis: { ...axis, title: { text: y }, ...yaxis },
    ...rest,
  };
}

/** A legend above a chart, where it covers no point. */
const TOP_LEGEND = { orientation: "h", yref: "container", y: 1, yanchor: "top", font: { size: 12 } };

/** A chart: `make` gives {traces, layout}, or a reason why there is nothing to draw. */
function chart(title, make, height = null) {
  const plot = el("div", { className: "plot" });
  if (height) {
    plot.style.height = height;
  }
  const heading = el("h3", { textContent: title });
  const head = el("div", { className: "head" }, heading, saveButtons(heading, plot, make));
  const element = el("div", { className: "chart" }, head, plot);
  drawn.set(plot, make);
  visibility.observe(plot);
  return element;
}

/** A chart of the runs that are switched on. */
function runChart(title, make, height = null) {
  return chart(title, () => (hidden.size === report.runs.length ? "No run is switched on." : make()), height);
}

const visible = new Set();
const visibility = new IntersectionObserver(
  (entries) => {
    for (const entry of entries.filter(({ isIntersecting }) => isIntersecting)) {
      visibility.unobserve(entry.target);
      visible.add(entry.target);
      draw(entry.target);
    }
  },
  { rootMargin: "400px" },
);

async function draw(plot) {
  const made = drawn.get(plot)();
  plot.parentElement.querySelector(".saves").hidden = typeof made === "string";
  if (typeof made === "string") {
    // Plotly would only update the chart that it believes to be there.
    window.Plotly?.purge(plot);
    delete plot.dataset.drawn;
    plot.replaceChildren(el("p", { className: "absent", textContent: made }));
    return;
  }
  const Plotly = await loadPlotly();
  plot.querySelector(".absent")?.remove();
  const options = {
    responsive: true,
    displaylogo: false,
    displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
    // Named one by one: Plotly's own list has a button that uploads a chart.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
  };
  await Plotly.react(plot, made.traces, made.layout, options);
  plot.dataset.drawn = "yes";
}

function redraw() {
  for (const plot of visible) {
    draw(plot);
  }
}

/** Charts that nobody has scrolled to, so that they are there on paper. */
function drawRest() {
  for (const plot of drawn.keys()) {
    if (!visible.has(plot)) {
      visibility.unobserve(plot);
      visible.add(plot);
      draw(plot);
    }
  }
}

addEventListener("load", () => setTimeout(drawRest, REST_AFTER_MS));
addEventListener("beforeprint", drawRest);

for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", redraw);
}

/** Exponential mean over points, freed of its start at zero. */
function smooth(values, share) {
  let sum = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) {
      return null;
    }
    sum = share * sum + (1 - share) * value;
    weight = share * weight + (1 - share);
    return sum / weight;
  });
}

/** Lines of one curve of all runs that are switched on. */
function runLines(pick, smoothed) {
  return report.runs.flatMap((run, index) => {
    const curve = hidden.has(index) ? null : pick(run);
    if (!curve) {
      return [];
    }
    return curveLines(curve, run.name, lineColour(index), smoothed, lineDash(index));
  });
}

/** The line of a curve; where it is smoothed, above the faint line of its points. */
function curveLines(curve, name, colour, smoothed, dash = "solid") {
  const mode = curve.steps.length > 30 ? "lines" : "lines+markers";
  const line = { x: curve.steps, y: curve.values, mode, name, line: { color: colour, width: 2, dash }, marker: { color: colour } };
  if (!smoothed || settings.smoothing === 0) {
    return [line];
  }
  return [
    { ...line, line: { color: faint(colour, 0.3), width: 1 }, hoverinfo: "skip", showlegend: false },
    { ...line, y: smooth(curve.values, settings.smoothing), meta: DERIVED },
  ];
}

function curveTitles(kind) {
  return [...new Set(report.runs.flatMap((run) => Object.keys(run.curves[kind])))];
}

function select(label, titles, action) {
  const choice = el("select", {}, ...titles.map((title) => el("option", { textContent: title })));
  choice.addEventListener("change", () => action(choice.value));
  return el("label", { className: "choice" }, label, choice);
}

/** The boxes of each run, in all groups of switches. */
const switches = report.runs.map(() => []);

/** Switches of the runs; they act on all charts, and stand for a legend. */
function runSwitches() {
  const group = el("span", { className: "bar", attributes: { role: "group", "aria-label": "Runs" } });
  report.runs.forEach((run, index) => {
    const box = el("input", { type: "checkbox", checked: true });
    switches[index].push(box);
    box.addEventListener("change", () => {
      if (!hidden.delete(index)) {
        hidden.add(index);
      }
      for (const other of switches[index]) {
        other.checked = box.checked;
      }
      redraw();
    });
    const swatch = el("span", { className: `swatch ${lineDash(index)}`, style: `color: ${runColour(index)}` });
    group.append(el("label", {}, box, swatch, run.name));
  });
  return group;
}

/** Smoothing and scale of all curves of training. */
function curveControls() {
  const smoothing = el("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: settings.smoothing });
  smoothing.addEventListener("input", () => {
    settings.smoothing = Number(smoothing.value);
    redraw();
  });
  const logarithmic = el("input", { type: "checkbox", checked: settings.logarithmic });
  logarithmic.addEventListener("change", () => {
    settings.logarithmic = logarithmic.checked;
    redraw();
  });
  return [el("label", {}, "Smoothing", smoothing), el("label", {}, logarithmic, "logarithmic")];
}

/** Curves of training and of validations. */
function showTraining() {
  const place = body("training");
  const chosen = { train: curveTitles("train")[0], validation: curveTitles("validation")[0] };
  function chooser(kind) {
    return select("Show", curveTitles(kind), (title) => {
      chosen[kind] = title;
      redraw();
    });
  }
  function lines(kind, smoothed, missing) {
    return () => {
      const traces = runLines((run) => run.curves[kind][chosen[kind]], smoothed);
      const type = kind === "train" && settings.logarithmic ? "log" : "linear";
      return curveTitles(kind).length
        ? { traces, layout: layout("step", chosen[kind], { yaxis: { type, tickformat: "~g", ...(type === "log" && { nticks: 3 }) } }) }
        : missing;
    };
  }
  place.append(
    el(
      "div",
      { className: "bar" },
      runSwitches(),
      ...curveControls(),
    ),
    el(
      "div",
      { className: "charts" },
      el("div", {}, chooser("train"), runChart("Training", lines("train", true, "No training step was logged."))),
      el("div", {}, chooser("validation"), runChart("Validation", lines("validation", false, "No validation in these runs."))),
    ),
    el("p", { className: "note", textContent: trainingNote() }),
  );
}

function trainingNote() {
  const widths = report.runs.flatMap((run) => Object.values(run.curves.train).map((curve) => curve.width));
  const widest = Math.max(1, ...widths);
  const thinned = widest > 1 ? `A point is the mean of up to ${widest} logged steps.` : "";
  return [report.training_note, thinned].filter(Boolean).join(" ");
}
