/* Elements and numbers. Text from data enters the document as text only. */

const report = JSON.parse(document.getElementById("report").textContent);

/** An element; `properties` are set as they are, attributes stand under `attributes`. */
function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  const { attributes = {}, ...rest } = properties;
  Object.assign(element, rest);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The place of a section's contents. */
function body(section) {
  return document.querySelector(`#${section} > .body`);
}

/** The address of a picture, which is in the page or in a file beside it. */
function pictureAddress(example, what) {
  const { folder } = report.pictures;
  const picture = example.pictures[what];
  return folder ? `${folder}/${picture}` : `data:image/webp;base64,${picture}`;
}

function showNavigation() {
  const links = [...document.querySelectorAll("main > section")].map((section) =>
    el("a", { href: `#${section.id}`, textContent: section.querySelector("h2").textContent }),
  );
  document.querySelector("nav").append(el("div", {}, ...links));
}

function number(value, decimals, sign = false) {
  if (value === null || value === undefined) {
    return "–";
  }
  const text = Math.abs(value).toFixed(decimals);
  if (Number(text) === 0) {
    return text;
  }
  if (value < 0) {
    return `−${text}`;
  }
  return sign ? `+${text}` : text;
}

/** Three digits of a value whose size is not known. */
function short(value) {
  if (value === null || value === undefined) {
    return "–";
  }
  return value.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: true });
}

function withUnit(text, unit) {
  return unit ? `${text} ${unit}` : text;
}

/** Title and unit of a metric. */
function metricLabel({ title, unit }) {
  return unit ? `${title}, ${unit}` : title;
}

/** A value of a metric with its unit; a dash where there is none. */
function valueText(metric, value) {
  const text = number(value, metric.decimals);
  return value === null || value === undefined ? text : withUnit(text, metric.unit);
}

/** The title of a further reference of a metric, with its qualifier. */
function extraTitle({ extra }) {
  return [extra.title, extra.qualifier].filter(Boolean).join(", ");
}

/** A value of a further reference of a metric in a row of a table; null where there is none. */
function extraValue({ extra }, row) {
  return extra ? row[extra.column] ?? null : null;
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

/** Number of colours of runs in the style. */
const COLOURS = 8;

/** The colour of a run, the same everywhere. */
function runColour(index) {
  return `var(--run-${index % COLOURS})`;
}

const severalRuns = report.runs.length > 1;
