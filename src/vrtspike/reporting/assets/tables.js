/* Tables that sort by a click or a key on their headers. */

/**
 * A table.
 *
 * columns: {title, text (words instead of numbers), show (value -> text), key (monospace)}.
 * rows: arrays of values; null is shown as a dash and comes last in any order.
 * options: caption, strong (rows that stay at the end), sortable, tall, follow (row -> action).
 */
function table(columns, rows, options = {}) {
  const { caption, strong = [], sortable = true, tall = false, follow = null } = options;
  const head = el("tr");
  const lines = el("tbody");
  const element = el(
    "table",
    {},
    caption ? el("caption", { textContent: caption }) : null,
    el("thead", {}, head),
    lines,
  );

  function line(row, className) {
    const cells = columns.map((column, place) => {
      const value = row[place];
      const show = column.show ?? ((shown) => (shown === null ? "–" : String(shown)));
      const cell = el("td", { textContent: value === null ? "–" : show(value) });
      cell.className = [column.text ? "text" : "", column.key ? "key" : ""].join(" ").trim();
      if (column.signed && value !== null) {
        cell.classList.add(value >= 0 ? "gain" : "loss");
      }
      return cell;
    });
    const shown = el("tr", { className }, ...cells);
    const action = follow && follow(row);
    if (action) {
      shown.classList.add("go");
      shown.addEventListener("click", action);
    }
    return shown;
  }

  function fill(ordered) {
    lines.replaceChildren(
      ...ordered.map((row) => line(row, "")),
      ...strong.map((row) => line(row, "strong")),
    );
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
