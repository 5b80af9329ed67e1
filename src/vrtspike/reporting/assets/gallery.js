/* The section of the pictures: frames, the boundary between two pictures, panels, videos. */

const SHOWN_PANELS = 3;

/** Pictures that an evaluation has drawn; tells whether there are any. */
function showMaps(place) {
  const figures = report.runs.flatMap((run) =>
    (run.evaluation.figures ?? []).map(({ data, caption }) => {
      const words = severalRuns ? `${run.name}: ${caption}` : caption;
      const image = el("img", { src: `data:image/png;base64,${data}`, alt: words });
      return el("figure", {}, image, el("figcaption", { className: "note", textContent: words }));
    }),
  );
  place.append(...(figures.length ? [el("div", { className: "maps" }, ...figures)] : []));
  return figures.length > 0;
}

/** The section of the pictures. */
function showPictures() {
  const place = body("pictures");
  const withExamples = report.runs.map((_, index) => index).filter((run) => examplesOf(run).length);
  const hasMaps = showMaps(place);
  if (withExamples.length) {
    look.run = withExamples.find((run) => report.runs[run].name === report.best) ?? withExamples[0];
    new Gallery(place, withExamples).show();
    showVideos(place);
  } else if (!hasMaps) {
    const reasons = report.runs.map((run) => `${run.name}: ${run.evaluation.reason ?? "the evaluation has kept no examples; evaluate again"}`);
    place.append(el("p", { className: "absent", textContent: `No pictures. ${reasons.join(" · ")}` }));
  }
}

const KEY_MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
const KEY_PANS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const KEY_ZOOMS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };

/** The frames of the runs: the stage with two pictures and their boundary, panels beside it, and a strip of all frames. */
class Gallery {
  constructor(place, runs) {
    this.place = place;
    this.runs = runs;
    /** The frames of the strip in their order, and the place of the shown one. */
    this.frames = [];
    this.chosen = 0;
    this.stage = new View("stage", (x) => this.moveBoundary(100 * x));
    this.layers = { left: el("div", { className: "layer" }), right: el("div", { className: "layer" }) };
    this.handle = this.makeHandle();
    this.choices = { left: this.makeChoice("left"), right: this.makeChoice("right") };
    this.stage.element.append(this.layers.right, this.layers.left, this.handle, this.choices.left, this.choices.right);
    this.strip = this.makeStrip();
    this.caption = el("div", { className: "caption", attributes: { "aria-live": "polite" } });
    this.panels = el("div", { className: "panels" });
    this.together = el("div", { className: "together" }, this.stage.element, this.panels);
    this.order = el("select", {}, ...report.orders.map((title) => el("option", { textContent: title })));
    this.order.addEventListener("change", () => this.fillStrip());
    const beside = kindsOf(runs).filter(({ is_beside }) => is_beside);
    this.shownKinds = new Set(beside.slice(0, SHOWN_PANELS).map(({ name }) => name));
    this.toggles = el("span", { className: "bar" });
  }

  /** Put everything into the section. */
  show() {
    const frames = el("label", { className: "choice" }, "Frames", this.order);
    this.place.append(
      el(
        "div",
        { className: "gallery" },
        el("div", {}, this.together, this.caption),
        el("div", { className: "thumbs" }, frames, this.strip),
      ),
      this.makeBar(),
      ...pictureNotes(),
    );
    this.fillStrip();
    new ResizeObserver(keepInside).observe(this.stage.element);
  }

  /** The choice of a run, switches of the panels, buttons to zoom. */
  makeBar() {
    const zoomText = el("output", { className: "zoom number" });
    views.add({ place: () => (zoomText.textContent = `${Math.round(100 * look.zoom)} %`) });
    return el(
      "div",
      { className: "bar" },
      this.runs.length > 1 ? el("label", {}, report.words.model, this.makeRunChoice()) : null,
      this.toggles,
      el("span", { className: "gap" }),
      zoomButton("−", "Zoom out", () => zoomTo(look.zoom / 1.5, 0.5, 0.5)),
      zoomText,
      zoomButton("+", "Zoom in", () => zoomTo(look.zoom * 1.5, 0.5, 0.5)),
      zoomButton("Whole", "Show the whole picture", () => zoomTo(1, 0, 0)),
    );
  }

  makeRunChoice() {
    const options = this.runs.map((run) => el("option", { value: run, textContent: report.runs[run].name }));
    const choice = el("select", {}, ...options);
    choice.value = look.run;
    choice.addEventListener("change", () => {
      look.run = Number(choice.value);
      this.fillStrip();
    });
    return choice;
  }

  makeHandle() {
    const handle = el("div", {
      className: "handle",
      tabIndex: 0,
      attributes: {
        role: "slider",
        "aria-label": "Boundary between the two pictures",
        "aria-orientation": "horizontal",
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      },
    });
    handle.addEventListener("keydown", (event) => this.pressKey(event));
    return handle;
  }

  /** Move, pan or zoom by the keyboard. */
  pressKey(event) {
    const { key } = event;
    if (event.shiftKey && key in KEY_PANS) {
      panBy(...KEY_PANS[key].map((step) => step / 10));
    } else if (key in KEY_MOVES) {
      this.moveBoundary(look.split + KEY_MOVES[key]);
    } else if (key === "Home" || key === "End") {
      this.moveBoundary(key === "Home" ? 0 : 100);
    } else if (key in KEY_ZOOMS) {
      zoomTo(look.zoom * KEY_ZOOMS[key], 0.5, 0.5);
    } else if (key === "0") {
      zoomTo(1, 0, 0);
    } else {
      return;
    }
    event.preventDefault();
  }

  moveBoundary(value) {
    look.split = clamp(value, 0, 100);
    this.layers.left.style.clipPath = `inset(0 ${100 - look.split}% 0 0)`;
    this.handle.style.left = `${look.split}%`;
    const names = picturesOf(shownExample());
    const rounded = Math.round(look.split);
    this.handle.setAttribute("aria-valuenow", rounded);
    this.handle.setAttribute(
      "aria-valuetext",
      `${names.get(look.left).title} up to ${rounded} %, then ${names.get(look.right).title}`,
    );
  }

  /** The choice of the picture on a side. */
  makeChoice(side) {
    const choice = el("select", { className: `side ${side}` });
    choice.setAttribute("aria-label", `Picture on the ${side}`);
    choice.addEventListener("change", () => {
      look[side] = choice.value;
      this.fillStage();
    });
    return choice;
  }

  fillStage() {
    const example = shownExample();
    const pictures = picturesOf(example);
    this.stage.images = [];
    for (const side of ["left", "right"]) {
      look[side] = pictures.has(look[side]) ? look[side] : galleryOf(look.run)[side];
      const options = [...pictures].map(([name, { title }]) =>
        el("option", { value: name, textContent: title, selected: name === look[side] }),
      );
      this.choices[side].replaceChildren(...options);
      const picture = pictures.get(look[side]);
      const image = this.stage.image(picture.address(), `${picture.title}: ${frameName(example)}`);
      this.layers[side].replaceChildren(image);
    }
    this.stage.images[0].addEventListener("load", (event) => {
      const { naturalWidth, naturalHeight } = event.target;
      this.place.style.setProperty("--ratio", naturalWidth / naturalHeight);
      keepInside();
    });
    this.moveBoundary(look.split);
  }

  /** Show the kinds of pictures that are switched on beside the stage. */
  fillPanels() {
    for (const view of views) {
      if (view.isPanel) {
        views.delete(view);
      }
    }
    const example = shownExample();
    const kinds = galleryOf(look.run).kinds.filter(({ name, is_beside }) => is_beside && name in example.pictures);
    this.toggles.replaceChildren(...kinds.map((kind) => this.makeToggle(kind)));
    const shown = kinds.filter(({ name }) => this.shownKinds.has(name));
    this.together.classList.toggle("alone", !shown.length);
    this.panels.replaceChildren(...shown.map((kind) => panel(kind, example)));
    keepInside();
  }

  makeToggle({ name, title }) {
    const button = el("button", {
      type: "button",
      textContent: title,
      attributes: { "aria-pressed": this.shownKinds.has(name) },
    });
    button.addEventListener("click", () => {
      if (!this.shownKinds.delete(name)) {
        this.shownKinds.add(name);
      }
      this.fillPanels();
      [...this.toggles.children].find((other) => other.textContent === title).focus();
    });
    return button;
  }

  fillCaption() {
    const example = shownExample();
    const metrics = report.runs[look.run].evaluation.metrics.filter((m) => m.columns[1] in example.metrics);
    const isTypical = metrics.length > 0 && look.example === ordered(look.run, "typical first")[0].index;
    this.caption.replaceChildren(
      el("div", { textContent: isTypical ? typicalName(example, metrics[0]) : frameName(example) }),
      el("dl", {}, ...metrics.map((metric) => valuesOf(example, metric))),
      ...(example.doubts ?? []).map((text) => el("div", { className: "loss", textContent: `In doubt: ${text}` })),
    );
  }

  /** Show the frame at a place of the strip. */
  choose(at, focus = false) {
    const { strip } = this;
    this.chosen = at;
    look.example = this.frames[at].index;
    [...strip.children].forEach((thumb, other) => {
      thumb.setAttribute("aria-selected", other === at);
      thumb.tabIndex = other === at ? 0 : -1;
    });
    const thumb = strip.children[at];
    if (focus) {
      thumb.focus({ preventScroll: true });
    }
    strip.scrollTo({
      left: thumb.offsetLeft - strip.offsetLeft - strip.clientWidth / 2 + thumb.clientWidth / 2,
      top: thumb.offsetTop - strip.offsetTop - strip.clientHeight / 2 + thumb.clientHeight / 2,
    });
    this.fillStage();
    this.fillPanels();
    this.fillCaption();
  }

  makeStrip() {
    const strip = el("div", { className: "strip", attributes: { role: "listbox", "aria-label": "Frames" } });
    strip.addEventListener("keydown", (event) => {
      const last = strip.children.length - 1;
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -last, End: last };
      if (event.key in steps) {
        event.preventDefault();
        this.choose(clamp(this.chosen + steps[event.key], 0, last), true);
      }
    });
    return strip;
  }

  fillStrip() {
    this.frames = ordered(look.run, this.order.value);
    this.strip.replaceChildren(...this.frames.map(({ example }, at) => this.makeThumbnail(example, at)));
    this.choose(0);
  }

  makeThumbnail(example, at) {
    const metric = report.runs[look.run].evaluation.metrics[0];
    const value = metric && example.metrics[metric.columns[1]];
    const thumb = el(
      "div",
      { className: "thumb", attributes: { role: "option" } },
      el("img", { src: pictureAddress(example, "thumbnail"), alt: "", loading: "lazy" }),
      el(
        "span",
        {},
        el("b", { textContent: metric ? valueText(metric, value) : "" }),
        el("br"),
        `${example.label} ${example.frame}`,
        example.doubts?.length ? el("div", { className: "loss", textContent: "in doubt" }) : null,
      ),
    );
    thumb.addEventListener("click", () => this.choose(at));
    return thumb;
  }
}

/** A picture of a frame beside the stage, with the scale of a map. */
function panel(kind, example) {
  const view = new View("panel");
  view.isPanel = true;
  view.element.append(view.image(pictureAddress(example, kind.name), `${kind.title}: ${frameName(example)}`));
  const scale = kind.top === null ? null : mapScale(kind.top);
  return el("figure", {}, view.element, el("figcaption", {}, kind.title, scale));
}

function frameName(example) {
  const chosen = example.chosen.length ? `, ${example.chosen.join(" and ")} of its sequence` : "";
  return `${example.label}, frame ${example.frame}${chosen}`;
}

const PLACES = { worst: "the worst", middle: "the middle one", best: "the best" };

/** The name of the frame with the median value of all that are shown. */
function typicalName(example, metric) {
  const count = examplesOf(look.run).length;
  const places = example.chosen.map((place) => PLACES[place]).join(" and ");
  const within = places ? ` (within its sequence ${places})` : "";
  return `${example.label}, frame ${example.frame}: typical, with the median ${metric.title} of the ${count} frames shown${within}`;
}

function valuesOf(example, metric) {
  const [before, after] = metric.columns.map((column) => example.metrics[column] ?? null);
  const other = extraValue(metric, example.metrics);
  if (before === null && after === null) {
    return null;
  }
  // A dash stands for an infinite one: of equal pictures.
  const words = [before, after].map((value) => number(value, metric.decimals)).join(" → ");
  const extra = other === null ? "" : ` (${extraTitle(metric)} ${number(other, metric.decimals)})`;
  return el(
    "div",
    {},
    el("dt", { textContent: metric.title }),
    el("dd", { textContent: withUnit(words, metric.unit) + extra }),
  );
}

function mapScale(top) {
  const gradient = `linear-gradient(to right, ${report.colours.join(", ")})`;
  const bar = el("i", { style: `background: ${gradient}` });
  return el("span", { className: "scale" }, " 0", bar, `${top}+`);
}

function pictureNotes() {
  const choices = new Set(report.runs.map((run) => run.evaluation.choice).filter(Boolean));
  const left = report.pictures.left_out;
  const kinds = kindsOf(report.runs.map((_, run) => run));
  const notes = [
    ...kinds.map(({ note }) => note).filter(Boolean),
    `Pictures are kept as ${report.pictures.form}; error maps were computed before that.`,
    "Double click, pinch, or turn the wheel with Ctrl to zoom; drag to move. With the boundary in focus: arrows, Home and End move it, + and − zoom, Shift and arrows move the picture.",
  ];
  const sentences = [
    choices.size ? `Frames: ${[...choices].join("; ")}.` : "",
    left ? `To keep this page small, ${left} more were left out evenly${report.words.left_out}.` : "",
  ];
  return [
    el("p", { className: "note", textContent: sentences.join(" ") }),
    el(
      "details",
      {},
      el("summary", { textContent: "About these pictures" }),
      ...notes.map((text) => el("p", { className: "note", textContent: text })),
    ),
  ];
}

/** Videos of the evaluations; large ones are links to files beside the page. */
function showVideos(place) {
  const figures = report.runs.flatMap((run) =>
    (run.evaluation.videos ?? []).map((video) => videoFigure(run, video)),
  );
  if (figures.length) {
    place.append(
      el("h3", { textContent: report.words.videos }),
      el("div", { className: "videos" }, ...figures),
    );
  }
}

function videoFigure(run, video) {
  const name = severalRuns ? `${run.name}: ${video.label}` : video.label;
  const size = `${video.megabytes} MB`;
  // Each part by itself, so that # and ? in names stay parts of them.
  const href = video.link.split("/").map(encodeURIComponent).join("/");
  const isFile = video.data === null;
  const where = isFile ? ", in a file of its own beside this page" : "";
  if (isFile && !video.is_played) {
    return el("figure", {}, el("a", { href, textContent: name }), ` (${size}${where})`);
  }
  const player = el("video", {
    controls: true,
    loop: true,
    muted: true,
    playsInline: true,
    preload: "metadata",
    src: isFile ? href : `data:video/mp4;base64,${video.data}`,
  });
  player.setAttribute("aria-label", name);
  return el("figure", {}, player, el("figcaption", { className: "note", textContent: `${name}, ${size}${where}` }));
}
