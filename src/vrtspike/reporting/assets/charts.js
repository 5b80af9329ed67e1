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

const COLOURS = 8;
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

function lineColour(index) {
  return css(`--run-${index % COLOURS}`);
}

/** Runs from which on a legend would cover its chart: the switches stand for it. */
const MANY_RUNS = 5;
const manyRuns = report.runs.length >= MANY_RUNS;
const SYMBOLS = ["circle", "circle-open", "x", "diamond", "diamond-open", "square"];

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
    plot.replaceChildren(el("p", { className: "absent", textContent: made }));
    return;
  }
  const Plotly = await loadPlotly();
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
      el("div", {}, chooser("train"), chart("Training", lines("train", true, "No training step was logged."))),
      el("div", {}, chooser("validation"), chart("Validation", lines("validation", false, "No validation in these runs."))),
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

function showCost() {
  const place = body("cost");
  const { runs } = report;
  const columns = [
    { title: "preset", text: true },
    { title: "step, ms", show: short },
    { title: "samples/s", show: short },
    { title: "waits for data, %", show: (value) => number(value, 1) },
    { title: "memory, MB", show: (value) => number(value, 0) },
    { title: "GPU peak, MB", show: (value) => number(value, 0) },
    { title: "model, s per test frame", show: short },
  ];
  const rows = runs.map(({ name, performance: p, evaluation }) => [
    name,
    p.step_ms,
    p.samples_per_second,
    p.data_share === null ? null : 100 * p.data_share,
    p.process_mb,
    p.gpu_peak_mb,
    evaluation.model_seconds_per_frame ?? null,
  ]);
  const parts = chart("Where a step goes", stepParts, `${6 + 2.2 * runs.length}rem`);
  const sections = chart("Time per section of a step", sectionBars);
  const all = el("input", { type: "checkbox" });
  function resize() {
    const most = Math.max(1, ...runs.map((run) => shownSections(run).length));
    sections.querySelector(".plot").style.height = `${5 + most * Math.max(1.4, 0.4 * runs.length)}rem`;
  }
  all.addEventListener("change", () => {
    settings.everySection = all.checked;
    resize();
    redraw();
  });
  resize();
  place.append(
    table(columns, rows, { sortable: runs.length > 1 }),
    el(
      "div",
      { className: "charts" },
      parts,
      sections,
      chart("Samples per second", () => costLines("throughput", ["samples per second"], "samples per second", "No step was timed (LOG.ENABLE_TIMING_LOG).")),
      el("div", {}, ...[memoryChoice()].filter(Boolean), chart("Memory", () => costLines("memory", settings.memory && [settings.memory], "MB", "No memory was logged."))),
    ),
    el("div", { className: "bar" }, el("label", {}, all, "every section, also those outside of steps")),
    el("p", { className: "note", textContent: "Bars are medians, whiskers end at the 95th percentile; the time of a section contains that of its parts. Seconds compare only between runs on the same machine; those of a test frame include reading, measuring and writing, at all scales. Megabytes of memory are 2²⁰ bytes." }),
  );
}

/** A choice of the memory that is shown of several runs; null of one, which shows all of its own. */
function memoryChoice() {
  const titles = [...new Set(report.runs.flatMap((run) => Object.keys(run.performance.memory)))];
  if (!severalRuns || !titles.length) {
    return null;
  }
  settings.memory = titles[0];
  return select("Show", titles, (title) => {
    settings.memory = title;
    redraw();
  });
}

function visibleRuns() {
  return report.runs
    .map((run, index) => ({ run, index }))
    .filter(({ index }) => !hidden.has(index));
}

/** A name in lines of some 16 letters, broken after its dashes and underscores. */
function wrapped(name) {
  return name.replace(/(.{10,16}[-_])(?=.{4})/g, "$1<br>");
}

function stepParts() {
  const runs = visibleRuns();
  const parts = [...new Set(runs.flatMap(({ run }) => Object.keys(run.performance.parts)))];
  if (!parts.length) {
    return "No step was timed (LOG.ENABLE_TIMING_LOG).";
  }
  const names = runs.map(({ run }) => run.name);
  const traces = parts.map((part, place) => {
    const shares = runs.map(({ run }) => 100 * (run.performance.parts[part] ?? 0));
    return {
      type: "bar",
      orientation: "h",
      name: part,
      y: names,
      x: shares,
      text: shares.map((share) => (share >= 6 ? `${part} ${share.toFixed(0)} %` : "")),
      textposition: "inside",
      insidetextanchor: "middle",
      textangle: 0,
      marker: { color: lineColour(place) },
      insidetextfont: { color: css("--paper") },
      hovertemplate: `${part}: %{x:.1f} %<extra></extra>`,
    };
  });
  const more = {
    barmode: "stack",
    uniformtext: { minsize: 10, mode: "hide" },
    showlegend: true,
    legend: { ...TOP_LEGEND, traceorder: "normal" },
    yaxis: { type: "category", autorange: "reversed", tickmode: "array", tickvals: names, ticktext: names.map(wrapped) },
    xaxis: { range: [0, 100] },
  };
  return { traces, layout: layout("share of a step, %", "", more) };
}

/** A legend above a chart, where it covers no point. */
const TOP_LEGEND = { orientation: "h", yref: "container", y: 1, yanchor: "top", font: { size: 12 } };

/** Curves of one title of all runs, or all curves of a single run, where `titles` is null. */
function costLines(kind, titles, axis, missing) {
  const traces = visibleRuns().flatMap(({ run, index }) =>
    Object.entries(run.performance[kind])
      .filter(([title, curve]) => (titles ? titles.includes(title) : Math.max(...curve.values) > 0))
      .map(([title, curve], place) => ({
        x: curve.steps,
        y: curve.values,
        mode: curve.steps.length > 30 ? "lines" : "lines+markers",
        name: severalRuns ? run.name : title,
        line: { color: lineColour(titles ? index : place), width: 2 },
      })),
  );
  if (!traces.length) {
    return missing;
  }
  return {
    traces,
    layout: layout("step", axis, {
      yaxis: { rangemode: "tozero" },
      showlegend: !titles,
      legend: TOP_LEGEND,
    }),
  };
}

/** Sections of a step and their parts; all that were timed where that is asked for. */
function shownSections(run) {
  const { sections } = run.performance;
  return settings.everySection ? sections : sections.filter(({ section, depth }) => section.startsWith("step") && depth <= 2);
}

function sectionBars() {
  const runs = visibleRuns().filter(({ run }) => shownSections(run).length);
  if (!runs.length) {
    return "No step was timed (LOG.ENABLE_TIMING_LOG).";
  }
  const traces = runs.map(({ run, index }) => {
    const rows = shownSections(run);
    return {
      type: "bar",
      orientation: "h",
      name: run.name,
      y: rows.map((row) => row.section),
      x: rows.map((row) => row.p50),
      error_x: { type: "data", symmetric: false, array: rows.map((row) => Math.max(0, row.p95 - row.p50)), arrayminus: rows.map(() => 0), thickness: 1, width: 3, color: css("--soft") },
      customdata: rows.map((row) => [row.p95, row.share === null ? "–" : (100 * row.share).toFixed(1)]),
      marker: { color: lineColour(index) },
      hovertemplate: `${severalRuns ? "%{fullData.name}, " : ""}%{y}: %{x:.1f} ms, 95th percentile %{customdata[0]:.1f} ms, %{customdata[1]} % of the step<extra></extra>`,
    };
  });
  const sections = [...new Set(runs.flatMap(({ run }) => shownSections(run).map((row) => row.section)))];
  const names = sections.map((section) => section.split("/").slice(-2).join("/"));
  return {
    traces,
    layout: layout("ms", "", {
      barmode: "group",
      bargap: 0.35,
      yaxis: { type: "category", autorange: "reversed", tickmode: "array", tickvals: sections, ticktext: names, tickfont: { size: 12 } },
    }),
  };
}

/** Every frame of the test split, by the metric that is chosen: what it is compared with against the result. */
function frameChart(chosen) {
  return () => {
    const metric = chosen();
    const traces = report.runs.flatMap((run, index) => {
      const { evaluation } = run;
      const number = evaluation.reason ? -1 : evaluation.metrics.findIndex(({ name }) => name === metric.name);
      if (hidden.has(index) || number < 0) {
        return [];
      }
      const [before, after] = [2 + 2 * number, 3 + 2 * number];
      const rows = evaluation.frame_rows.filter((row) => row[before] !== null && row[after] !== null);
      return [{
        x: rows.map((row) => row[before]),
        y: rows.map((row) => row[after]),
        customdata: rows.map((row) => `${severalRuns ? `${run.name}, ` : ""}${row[0]}, frame ${row[1]}`),
        type: "scatter",
        mode: "markers",
        name: run.name,
        marker: { color: lineColour(index), size: 6, opacity: 0.7, symbol: SYMBOLS[cycle(index)] },
        hovertemplate: "%{customdata}<br>%{x} → %{y}<extra></extra>",
      }];
    });
    const all = traces.flatMap((trace) => [...trace.x]);
    if (!all.length) {
      return "No finite values of single frames.";
    }
    const ends = [Math.min(...all), Math.max(...all)];
    const diagonal = { x: ends, y: ends, mode: "lines", name: "no change", line: { color: css("--soft"), width: 1, dash: "dash" }, hoverinfo: "skip", meta: DERIVED };
    const unit = metric.unit ? `, ${metric.unit}` : "";
    const legend = { showlegend: !manyRuns, legend: TOP_LEGEND };
    return { traces: [diagonal, ...traces], layout: layout(`${metric.title} ${metric.before}${unit}`, `${metric.title} ${metric.after}${unit}`, legend) };
  };
}

/** The parts of the tasks on their data, if there are any: words and plots of dots. */
function showData() {
  const place = body("data");
  const heads = severalRuns || report.data.length > 1;
  for (const part of report.data) {
    if (heads && part.title) {
      place.append(el("h3", { textContent: part.title }));
    }
    place.append(el("p", { className: part.is_missing ? "absent" : "", textContent: part.text }));
    if (part.plots.length) {
      place.append(
        el("div", { className: "charts" }, ...part.plots.map(dotChart)),
        el("p", { className: "note", textContent: part.note }),
      );
    }
  }
}

/** A chart with a row for each dot. */
function dotChart({ title, axis, missing, dots }) {
  const height = `${Math.max(14, 5 + 1.2 * dots.length)}rem`;
  const measured = dots.filter(({ value }) => value !== null);
  const make = () => ({
    traces: [{
      type: "scatter",
      mode: "markers",
      x: measured.map(({ value }) => value),
      y: measured.map(({ label }) => label),
      error_x: { type: "data", symmetric: false, array: measured.map(({ value, high }) => high - value), arrayminus: measured.map(({ value, low }) => value - low), thickness: 1.5, width: 0, color: css("--run-0") },
      marker: { color: css("--run-0"), size: 8 },
      hovertemplate: "%{y}: %{x}<extra></extra>",
    }],
    layout: layout(axis, "", { yaxis: { type: "category", autorange: "reversed", tickfont: { size: 11 } } }),
  });
  return chart(title, () => (measured.length ? make() : missing), height);
}
