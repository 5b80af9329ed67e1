/* Pictures of frames, and the boxes that show them, all zoomed in step. */

const MOST_ZOOM = 16;
const PIXELS_FROM = 5;

/** What all views show; `keepInside` places their pictures anew. */
const look = { run: 0, example: 0, left: null, right: null, split: 50, zoom: 1, x: 0, y: 0 };
const views = new Set();

function examplesOf(run) {
  return report.runs[run].evaluation.examples ?? [];
}

/** The kinds of pictures of a run, with their words. */
function galleryOf(run) {
  return report.galleries[report.runs[run].task];
}

/** Kinds of pictures that any example of these runs has, each once. */
function kindsOf(runs) {
  const kinds = new Map();
  for (const run of runs.filter((index) => examplesOf(index).length)) {
    for (const kind of galleryOf(run).kinds) {
      if (examplesOf(run).some(({ pictures }) => kind.name in pictures)) {
        kinds.set(kind.name, kind);
      }
    }
  }
  return [...kinds.values()];
}

function shownExample() {
  return examplesOf(look.run)[look.example];
}

/** Orders of the frames, by the metric that ranks them. */
const ORDERS = {
  "typical first": (entries) => {
    const values = entries.map(({ value }) => value).filter((value) => value !== null).sort((a, b) => a - b);
    const middle = values[Math.floor((values.length - 1) / 2)];
    const far = ({ value }) => (value === null ? Infinity : Math.abs(value - middle));
    return entries.toSorted((a, b) => (far(a) === far(b) ? 0 : far(a) - far(b)));
  },
  "worst first": (entries) => entries,
  "best first": (entries) => entries.toReversed(),
  "in time": (entries) => entries.toSorted((a, b) => a.example.time - b.example.time),
  "in doubt first": (entries) => {
    const isTrusted = ({ example }) => Number(example.doubts.length === 0);
    return ORDERS["in time"](entries).toSorted((a, b) => isTrusted(a) - isTrusted(b));
  },
};

/** The examples of a run in an order, with their numbers; the report has the worst first. */
function ordered(run, order) {
  const metric = report.runs[run].evaluation.metrics?.[0]?.columns[1];
  return ORDERS[order](examplesOf(run).map((example, index) => ({ example, index, value: example.metrics[metric] ?? null })));
}

/** Whether two runs were evaluated on one split, where equal names are equal frames. */
function sameSplit(one, other) {
  return one.dataset === other.dataset && one.split === other.split;
}

/** Pictures of an example by name: its own, and the results of other runs. */
function picturesOf(example) {
  const pictures = new Map();
  const { kinds, by, right } = galleryOf(look.run);
  for (const { name, title } of kinds) {
    if (name in example.pictures) {
      pictures.set(name, { title, address: () => pictureAddress(example, name) });
    }
  }
  report.runs.forEach((run, index) => {
    const same = examplesOf(index).find(
      (other) => other.label === example.label && other.frame === example.frame,
    );
    if (same && index !== look.run && sameSplit(run.evaluation, report.runs[look.run].evaluation)) {
      pictures.set(`run-${index}`, {
        title: `${by} ${run.name}`,
        address: () => pictureAddress(same, right),
      });
    }
  });
  return pictures;
}

function zoomTo(zoom, x, y) {
  // The point (x, y) of the view, 0 to 1, stays where it is.
  const wanted = clamp(zoom, 1, MOST_ZOOM);
  look.x += x / look.zoom - x / wanted;
  look.y += y / look.zoom - y / wanted;
  look.zoom = wanted;
  keepInside();
}

function zoomButton(text, label, action) {
  const button = el("button", { type: "button", textContent: text });
  button.setAttribute("aria-label", label);
  button.addEventListener("click", action);
  return button;
}

function panBy(x, y) {
  look.x -= x / look.zoom;
  look.y -= y / look.zoom;
  keepInside();
}

function keepInside() {
  const most = 1 - 1 / look.zoom;
  look.x = clamp(look.x, 0, most);
  look.y = clamp(look.y, 0, most);
  for (const view of views) {
    view.place();
  }
}

/** A box with pictures that zooms and pans with all others; `move` takes drags at full view. */
class View {
  constructor(className, move = null) {
    this.images = [];
    this.move = move;
    this.pointers = new Map();
    this.element = el("div", { className: `view ${className}` });
    views.add(this);
    this.element.addEventListener("pointerdown", (event) => this.press(event));
    this.element.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) {
      this.element.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
    this.element.addEventListener("dblclick", (event) => {
      const [x, y] = this.at(event);
      zoomTo(look.zoom < 2 ? 3 : 1, x, y);
    });
    this.element.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          zoomTo(look.zoom * 2 ** (-event.deltaY / 200), ...this.at(event));
        }
      },
      { passive: false },
    );
  }

  image(address, alternative) {
    const image = el("img", { src: address, alt: alternative, draggable: false });
    image.addEventListener("load", () => this.place());
    this.images.push(image);
    return image;
  }

  /** Where an event is within the view, 0 to 1 along both sides. */
  at(event) {
    const box = this.element.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  press(event) {
    if (event.button !== 0 || event.target.closest("select")) {
      return;
    }
    this.pointers.set(event.pointerId, this.at(event));
    event.target.setPointerCapture(event.pointerId);
    this.moves = this.move && (look.zoom === 1 || event.target.closest(".handle"));
    if (this.moves && this.pointers.size === 1) {
      this.move(this.at(event)[0]);
    }
  }

  drag(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      return;
    }
    const now = this.at(event);
    const others = [...this.pointers].filter(([name]) => name !== event.pointerId);
    this.pointers.set(event.pointerId, now);
    if (others.length) {
      const other = others[0][1];
      const far = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1e-3;
      zoomTo((look.zoom * far(now)) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      panBy((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    } else if (this.moves) {
      this.move(now[0]);
    } else if (look.zoom > 1) {
      panBy(now[0] - before[0], now[1] - before[1]);
    }
  }

  place() {
    const { zoom, x, y } = look;
    this.element.classList.toggle("zoomed", zoom > 1);
    for (const image of this.images) {
      image.style.transform = `translate(${-100 * x * zoom}%, ${-100 * y * zoom}%) scale(${zoom})`;
      const magnified = (this.element.clientWidth * zoom) / (image.naturalWidth || Infinity);
      image.classList.toggle("pixels", magnified >= PIXELS_FROM);
    }
  }
}
