/* The sections of the page, in order. */

/** Columns of one metric, what matters most first. */
function metricColumns(metric) {
  const same = { show: (value) => number(value, metric.decimals), explanation: metric.definition };
  return [
    { ...same, title: metric.after },
    { ...same, title: "gain", show: (value) => number(value, metric.decimals, true), signed: metric.decimals },
    { ...same, title: metric.before },
    ...(metric.hasExtra ? [{ ...same, title: extraTitle(metric) }] : []),
  ];
}

/** Metrics of all evaluations, each once; those with a mean of a further reference say so. */
function allMetrics(evaluations) {
  const byName = new Map();
  for (const metric of evaluations.flatMap((evaluation) => evaluation.metrics)) {
    const entry = byName.get(metric.name) ?? { ...metric, hasExtra: false };
    entry.hasExtra ||= (metric.extra?.mean ?? null) !== null;
    byName.set(metric.name, entry);
  }
  return [...byName.values()];
}

function gain(metric, reference, result) {
  if (reference === null || result === null) {
    return null;
  }
  return metric.larger_is_better ? result - reference : reference - result;
}

function showMetrics() {
  const place = body("metrics");
  const evaluated = report.runs.filter((run) => !run.evaluation.reason);
  for (const run of report.runs.filter((other) => other.evaluation.reason)) {
    place.append(el("p", { className: "absent", textContent: `${run.name}: ${run.evaluation.reason}` }));
  }
  if (!evaluated.length) {
    return;
  }
  const metrics = allMetrics(evaluated.map((run) => run.evaluation));
  const first = metrics[0];
  const units = new Set(evaluated.map(({ evaluation }) => evaluation.mean_over));
  place.append(
    ...[testFrames(evaluated)].filter(Boolean),
    meansTable(evaluated, metrics, `Means over the test ${[...units].join(" or ")}`),
    ...[otherWarnings(evaluated)].filter(Boolean),
    ...(severalRuns ? [costsTable(evaluated)] : []),
    ...[remarks(evaluated)].filter(Boolean),
  );
  if (first) {
    let chosen = first;
    const frames = runChart(framesTitle(first), frameChart(() => chosen));
    const show = (metric) => {
      chosen = metric;
      frames.querySelector("h3").textContent = framesTitle(metric);
      redraw();
    };
    place.append(
      sequences(evaluated, metrics, show),
      ...(manyRuns ? [runSwitches()] : []),
      el("div", { className: "charts" }, frames, ...[worstFrames(evaluated, first)].filter(Boolean)),
    );
  }
  place.append(valueNotes(evaluated, metrics));
}

function framesTitle(metric) {
  return `${metric.title} of every test frame, improved ${metric.larger_is_better ? "above" : "below"} the line`;
}

/** Warnings on values; the head of the page says that of the best preset. */
function otherWarnings(evaluated) {
  const others = evaluated.filter((run) => run.name !== report.best);
  const lines = others.flatMap((run) => run.evaluation.warnings.map((text) => `${run.name}: ${sentence(text)}`));
  return lines.length ? el("p", { className: "note warnings", textContent: lines.join(" ") }) : null;
}

/** Time and size of each preset. */
function costsTable(evaluated) {
  const columns = [
    { title: "preset", text: true },
    { title: "training, min" },
    {
      title: report.words.seconds,
      explanation: "The model alone, without reading and measuring",
    },
    { title: "parameters, M" },
    { title: "weights, MB" },
  ];
  const over = (value, divisor) => (value === null ? null : value / divisor);
  const rows = evaluated.map((run) => [
    run.name,
    number(over(run.training_seconds, 60), 1),
    number(run.evaluation.model_seconds_per_frame, 2),
    number(over(run.parameters, 1e6), 1),
    number(run.weights_mb, 1),
  ]);
  return table(columns, rows, { sortable: false, caption: "Time and size" });
}

/** Remarks of the tasks on their runs, with each explanation once. */
function remarks(evaluated) {
  const given = evaluated.filter(({ evaluation }) => evaluation.remark);
  const lines = given.map(({ name, evaluation }) => `${severalRuns ? `${name}: ` : ""}${evaluation.remark.sentence}`);
  const explanations = new Set(given.map(({ evaluation }) => evaluation.remark.explanation));
  return lines.length ? el("p", { className: "remarks", textContent: [...lines, ...explanations].join(" ") }) : null;
}

/** The table by sequence, of one metric at a time; `chosen` is called with another one. */
function sequences(evaluated, metrics, chosen) {
  const holder = el("div");
  const show = (metric) => holder.replaceChildren(table(...sequenceTable(evaluated, metric), { tall: true, caption: `By sequence: ${metricLabel(metric)}` }));
  show(metrics[0]);
  const choose = select("Metric", metrics.map((metric) => metric.title), (title) => {
    const metric = metrics.find((other) => other.title === title);
    show(metric);
    chosen(metric);
  });
  return el("div", {}, ...(metrics.length > 1 ? [choose] : []), holder);
}

function sequenceTable(evaluated, metric) {
  const columns = [
    ...(evaluated.length > 1 ? [{ title: "preset", text: true }] : []),
    { title: "sequence", text: true },
    ...metricColumns(metric),
    { title: "frames" },
  ];
  const [before, after] = metric.columns;
  const rows = evaluated.flatMap(({ name, evaluation: e }) => {
    // Columns of other protocols have the same names.
    const isMeasured = e.metrics.some(({ name: other }) => other === metric.name);
    return e.sequence_rows.map((row) => {
      const at = (column) => (isMeasured ? row[column] ?? null : null);
      return [
        ...(evaluated.length > 1 ? [name] : []),
        row.sequence,
        at(after),
        gain(metric, at(before), at(after)),
        at(before),
        ...(metric.hasExtra ? [isMeasured ? extraValue(metric, row) : null] : []),
        row.frames,
      ];
    });
  });
  return [columns, rows];
}

/** The worst frames by a metric; null where no evaluation names any. */
function worstFrames(evaluated, metric) {
  const columns = [
    ...(evaluated.length > 1 ? [{ title: "preset", text: true }] : []),
    { title: metricLabel(metric), show: (value) => number(value, metric.decimals) },
    { title: "sequence", text: true },
    { title: "frame", text: true },
  ];
  // Frames of another run may be ranked by another metric.
  const ranked = evaluated.filter((run) => run.evaluation.metrics[0]?.name === metric.name);
  const rows = ranked.flatMap((run) =>
    run.evaluation.worst.map(([sequence, frame, value]) => [...(evaluated.length > 1 ? [run.name] : []), value, sequence, frame]),
  );
  return rows.length ? el("div", { className: "chart" }, el("h3", { textContent: "Worst frames" }), table(columns, rows, { tall: rows.length > 12 })) : null;
}

/** Test frames of each preset, where the presets were not evaluated on the same frames. */
function testFrames(evaluated) {
  const words = evaluated.map(({ evaluation }) => evaluation.frames_text);
  if (new Set(words).size < 2) {
    return null;
  }
  const facts = evaluated.map((run, index) => `${run.name}: ${words[index]}`);
  return el("p", { className: "absent", textContent: `These presets were evaluated on different frames, so their metrics cannot be compared. ${facts.join("; ")}.` });
}

function valueNotes(evaluated, metrics) {
  const lines = metrics.map((metric) => `${metric.title}: ${metric.definition}.`);
  lines.push(...new Set(evaluated.flatMap((run) => run.evaluation.notes)));
  for (const run of evaluated) {
    for (const metric of run.evaluation.metrics.filter((other) => other.reason)) {
      lines.push(`No ${metric.title} of ${run.name}: ${metric.reason}.`);
    }
  }
  for (const method of new Set(evaluated.map((run) => run.evaluation.interval_method).filter(Boolean))) {
    lines.push(`Interval of a gain: ${method}.`);
  }
  const thinned = Math.max(1, ...evaluated.map((run) => run.evaluation.frame_step));
  if (thinned > 1) {
    lines.push(`The plot of frames shows one of every ${thinned}.`);
  }
  lines.push("A gain above 0 is better, also of metrics whose lower values are.");
  return el("details", {}, el("summary", { textContent: "What is measured" }), ...lines.map((text) => el("p", { className: "note", textContent: text })));
}

/** Words with one full stop at their end. */
function sentence(words) {
  return words.replace(/[.\s]*$/, ".");
}

/** The place of a run's part of a section: below its name, and of many runs folded in. */
function partOf(section, name, words) {
  if (!manyRuns) {
    const place = el("div", {}, severalRuns ? el("h3", { textContent: name }) : null);
    section.append(place);
    return place;
  }
  const place = el("details", { className: "run" }, el("summary", { textContent: `${name}: ${words}` }));
  section.append(place);
  return place;
}

addEventListener("beforeprint", () => {
  for (const place of document.querySelectorAll("details.run")) {
    place.open = true;
  }
});

const SEVERITY_WORDS = { error: "Spoils the run", warning: "Worth fixing", hint: "Possible" };

function showFindings() {
  for (const run of report.runs) {
    const { findings } = run.performance;
    const place = partOf(body("findings"), run.name, findings.map(({ symptom }) => symptom).join(", ") || "nothing to fix");
    if (!findings.length) {
      const well = run.training_seconds === null ? "Nothing was trained." : "Nothing to fix: no symptom crossed its limit.";
      place.append(el("p", { className: "soft", textContent: well }));
    }
    for (const finding of findings) {
      place.append(
        el(
          "div",
          { className: `finding ${finding.severity}` },
          el("p", {}, el("strong", { textContent: `${SEVERITY_WORDS[finding.severity] ?? finding.severity}: ${finding.symptom}` })),
          el("p", { textContent: `Measured: ${sentence(finding.evidence)}` }),
          el("p", { textContent: `To do: ${sentence(finding.change)} Then: ${sentence(finding.effect)}` }),
          finding.keys.length ? el("p", {}, ...finding.keys.flatMap((key) => [el("code", { textContent: key }), " "])) : null,
        ),
      );
    }
  }
}

function showOrigin() {
  for (const { name, origin } of report.runs) {
    const place = partOf(body("origin"), name, origin.commit);
    const facts = origin.facts.flatMap(([title, text]) => [el("dt", { textContent: title }), el("dd", { textContent: text })]);
    const count = origin.differences.length;
    const differences = el(
      "details",
      { open: count > 0 && count <= 12 },
      el("summary", { textContent: count ? `${count} ${count === 1 ? "setting differs" : "settings differ"} from ${origin.base}` : `All settings are those of ${origin.base}` }),
    );
    if (count) {
      differences.append(
        table(
          [{ title: "key", text: true, key: true }, { title: origin.base, text: true, key: true }, { title: name, text: true, key: true }],
          origin.differences,
          { tall: true },
        ),
      );
    }
    place.append(el("div", { className: "origin" }, el("dl", {}, ...facts), differences));
  }
}

showNavigation();
showPictures();
showMetrics();
showTraining();
body("training").append(...[validationPictures()].filter(Boolean));
showCost();
showData();
showFindings();
showOrigin();
document.documentElement.dataset.ready = "yes";
