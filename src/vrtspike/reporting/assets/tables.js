/* Tables that sort by a click or a key on their headers. */

/**
 * A table.
 *
 * columns: {title, text (words instead of numbers), show (value -> text), signed (decimals shown of what is coloured by its sign), key (monospace), explanation}.
 * rows: arrays of values or elements; null is shown as a dash and comes last in any order.
 * options: caption, sortable, tall (scrolls in a box of its own).
 */
function table(columns, rows, options = {}) {
  const { caption, sortable = true, tall = false } = options;
  const head = el("tr");
  const lines = el("tbody");
  const element = el(
    "table",
    {},
    caption ? el("caption", { textContent: caption }) : null,
    el("thead", {}, head),
    lines,
  );

  function line(row) {
    const cells = columns.map((column, place) => {
      const value = row[place];
      const text = value === null ? "–" : value instanceof Node ? value : (column.show ?? String)(value);
      const shown = column.text && !column.key ? [el("span", { className: "name", textContent: text })] : column.key ? breakable(text) : [text];
      const cell = el("td", {}, ...shown);
      const classes = [column.text && "text", column.key && "key", signClass(column, value)];
      cell.className = classes.filter(Boolean).join(" ");
      return cell;
    });
    return el("tr", {}, ...cells);
  }

  function fill(ordered) {
    lines.replaceChildren(...ordered.map(line));
  }

  columns.forEach((column, place) => {
    const cell = el("th", { scope: "col", className: column.text ? "text" : "" });
    if (column.explanation) {
      cell.title = column.explanation;
    }
    if (sortable) {
      const button = el("button", { type: "button", textContent: column.title });
      button.addEventListener("click", () => sort(place, cell));
      cell.append(button);
    } else {
      cell.textContent = column.title;
    }
    head.append(cell);
  });

  function sort(place, cell) {
    const upwards = cell.getAttribute("aria-sort") !== "ascending";
    for (const other of head.children) {
      other.removeAttribute("aria-sort");
    }
    cell.setAttribute("aria-sort", upwards ? "ascending" : "descending");
    fill([...rows].sort((a, b) => compareValues(a[place], b[place], upwards)));
  }

  fill(rows);
  const label = caption || columns.map((column) => column.title).join(", ");
  return el(
    "div",
    {
      className: tall ? "scroll tall" : "scroll",
      tabIndex: 0,
      attributes: { role: "region", "aria-label": label },
    },
    element,
  );
}

/** A key that breaks after its dots and underscores. */
function breakable(key) {
  return key.split(/(?<=[._])/).flatMap((part) => [part, el("wbr")]);
}

function signClass(column, value) {
  if (column.signed === undefined || value === null || Number(value.toFixed(column.signed)) === 0) {
    return null;
  }
  return value > 0 ? "gain" : "loss";
}

function compareValues(a, b, upwards) {
  if (a === null || b === null) {
    return (a === null) - (b === null);
  }
  const order =
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  return upwards ? order : -order;
}

/** The ends of the interval of a metric's gain; a dash where there is none. */
function intervalText(metric) {
  const ends = metric?.gain_interval?.map((end) => number(end, metric.decimals, true));
  return ends ? ends.join(" to ") : "–";
}

/** The means of all metrics, a row each. */
function meansTable(evaluated, metrics, caption) {
  const names = (metric) => [metric.after, metric.before].join();
  const sameNames = new Set(metrics.map(names)).size < 2;
  const withExtra = metrics.find((metric) => metric.hasExtra);
  const withIntervals = evaluated.some(({ evaluation }) => evaluation.metrics.some((metric) => metric.gain_interval));
  const columns = [
    ...(severalRuns ? [{ title: report.words.model.toLowerCase(), text: true }] : []),
    { title: "metric", text: true },
    { title: sameNames && metrics.length ? metrics[0].after : "result" },
    { title: "gain" },
    ...(withIntervals ? [{ title: "its 95 % interval" }] : []),
    { title: sameNames && metrics.length ? metrics[0].before : "before" },
    ...(withExtra ? [{ title: withExtra.extra.title }] : []),
  ];
  const rows = metrics.flatMap((metric) =>
    evaluated.map(({ name, evaluation }) => {
      const entry = evaluation.metrics.find((other) => other.name === metric.name);
      const extra = entry?.extra?.mean ?? null;
      const qualifier = extra !== null && entry.extra.qualifier ? ` (${entry.extra.qualifier})` : "";
      const change = entry?.gain ?? null;
      const sign = signClass({ signed: metric.decimals }, change) ?? "";
      return [
        ...(severalRuns ? [name] : []),
        metricLabel(metric),
        number(entry?.result, metric.decimals),
        el("span", { className: sign, textContent: number(change, metric.decimals, true) }),
        ...(withIntervals ? [intervalText(entry)] : []),
        number(entry?.reference, metric.decimals),
        ...(withExtra ? [number(extra, metric.decimals) + qualifier] : []),
      ];
    }),
  );
  return table(columns, rows, { sortable: false, caption });
}
