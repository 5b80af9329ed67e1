/* A running training: its values, curves and pictures, asked for again and again. */

const EVERY_MS = 5000;

/** Requests in a row without an answer after which the command counts as ended. */
const MAX_UNANSWERED = 3;

/** Curves with axes of their own, in this order; those of validations follow. */
const OTHERS = ["learning rate", "samples per second", "gradient norm"];

function live() {
  return report.runs[0];
}

function showFacts() {
  const run = live();
  document.title = run.heading;
  document.getElementById("heading").textContent = run.heading;
  const progress = document.getElementById("progress");
  progress.hidden = run.share === null;
  progress.value = run.share ?? 0;
  const rows = Object.entries(run.facts).map(([title, text]) => el("div", {}, el("dt", { textContent: title }), el("dd", { textContent: text })));
  document.getElementById("facts").replaceChildren(el("dl", {}, ...rows));
}

function isLoss(title) {
  return title === "loss" || title.startsWith("loss: ");
}

/** The zoom of a reader stays when points are added. */
function growing(x, y, more = {}) {
  return layout(x, y, { uirevision: "live", ...more });
}

/** The loss and its terms in one chart. */
function lossChart() {
  const curves = Object.entries(live().curves.train).filter(([title]) => isLoss(title));
  const traces = curves.flatMap(([title, curve], index) => curveLines(curve, title, lineColour(index), true));
  const type = settings.logarithmic ? "log" : "linear";
  return {
    traces,
    layout: growing("step", "loss", { yaxis: { type, tickformat: "~g", ...(type === "log" && { nticks: 3 }) }, showlegend: curves.length > 1, legend: TOP_LEGEND }),
  };
}

function singleChart(kind, title) {
  return () => ({
    traces: runLines((run) => run.curves[kind][title], false),
    layout: growing("step", title, { yaxis: { tickformat: "~g" } }),
  });
}

/** Titles, kinds and functions of all charts that there are points for. */
function charts() {
  const { train, validation } = live().curves;
  const losses = Object.keys(train).some(isLoss) ? [["Loss", lossChart]] : [];
  const metrics = Object.keys(validation).map((title) => [`Validation: ${title}`, singleChart("validation", title)]);
  const others = OTHERS.filter((title) => title in train).map((title) => [title[0].toUpperCase() + title.slice(1), singleChart("train", title)]);
  return [...losses, ...metrics, ...others];
}

const grid = el("div", { className: "charts" });
const noCurves = el("p", { className: "absent", textContent: "No training step was logged." });
const shownCharts = new Set();

/** Adds the charts whose first point has come, and draws the others anew. */
function showCurves() {
  redraw();
  for (const [title, make] of charts()) {
    if (!shownCharts.has(title)) {
      shownCharts.add(title);
      grid.append(chart(title, make));
    }
  }
  noCurves.hidden = shownCharts.size > 0;
}

let shownPictures = "";

function showPictures() {
  const { step, files } = live().pictures;
  const names = Object.keys(files);
  const state = JSON.stringify(live().pictures);
  if (state === shownPictures) {
    return;
  }
  shownPictures = state;
  const figures = names.map((name) =>
    el(
      "figure",
      {},
      el("img", { src: `data:image/webp;base64,${files[name]}`, alt: `${name} after step ${step}` }),
      el("figcaption", { textContent: `${name}, after step ${step}` }),
    ),
  );
  const absent = el("p", { className: "absent", textContent: "No pictures: validations write them to the run's folder (LOG.VISUALS_EVERY_STEPS)." });
  body("pictures").replaceChildren(names.length ? el("div", { className: "maps" }, ...figures) : absent);
}

function show() {
  showFacts();
  showCurves();
  showPictures();
}

function say(text) {
  document.getElementById("connection").textContent = text;
}

let unanswered = 0;

/** Asks for the state; the page keeps the last one while there is no answer. */
async function refresh() {
  try {
    const answer = await fetch("snapshot.json", { cache: "no-store" });
    if (!answer.ok) {
      say(await answer.text());
      return;
    }
    report.runs = [await answer.json()];
  } catch {
    unanswered += 1;
    const hasEnded = unanswered >= MAX_UNANSWERED;
    say(hasEnded ? "The command has ended or cannot be reached: this is the last state it has sent." : "No answer, trying again.");
    setTimeout(refresh, EVERY_MS);
    return;
  }
  unanswered = 0;
  say("");
  show();
  followUp();
}

function followUp() {
  if (live().has_ended) {
    say("The training has ended: this page is no longer refreshed.");
    return;
  }
  setTimeout(refresh, EVERY_MS);
}

body("curves").append(el("div", { className: "bar" }, ...curveControls()), noCurves, grid);
show();
refresh();
document.documentElement.dataset.ready = "yes";
