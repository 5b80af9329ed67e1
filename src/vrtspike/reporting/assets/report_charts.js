/* The charts of the report: time and memory, every test frame, the data. */

const NOT_TIMED = "No step was timed (LOG.ENABLE_TIMING_LOG).";
const SYMBOLS = ["circle", "circle-open", "x", "diamond", "diamond-open", "square"];

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
  const parts = runChart("Where a step goes", stepParts, `${6 + 2.2 * runs.length}rem`);
  const sections = runChart("Time per section of a step", sectionBars);
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
      runChart("Samples per second", () => costLines("throughput", ["samples per second"], "samples per second", NOT_TIMED)),
      el("div", {}, ...[memoryChoice()].filter(Boolean), runChart("Memory", () => costLines("memory", settings.memory && [settings.memory], "MB", "No memory was logged."))),
    ),
    el("div", { className: "bar" }, el("label", {}, all, "every section, also those outside of steps")),
    el("p", { className: "note", textContent: "Bars are medians, whiskers end at the 95th percentile; the time of a section contains that of its parts. Seconds compare only between runs on the same machine; those of a test frame are of the model alone. Megabytes of memory are 2²⁰ bytes." }),
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
    return NOT_TIMED;
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

/** Curves of one title of all runs, or all curves of a single run, where `titles` is null. */
function costLines(kind, titles, axis, missing) {
  const traces = visibleRuns().flatMap(({ run, index }) =>
    Object.entries(run.performance[kind])
      .filter(([title, curve]) => (titles ? titles.includes(title) : Math.max(...curve.values) > 0))
      .flatMap(([title, curve], place) => curveLines(curve, severalRuns ? run.name : title, lineColour(titles ? index : place), false)),
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
    return NOT_TIMED;
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
    // Math.min(...all) takes some hundred thousand values at most.
    const ends = all.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
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
