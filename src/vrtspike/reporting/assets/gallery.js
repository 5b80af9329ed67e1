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
  const maps = showMaps(place);
  if (!withExamples.length) {
    if (maps) {
      return;
    }
    const reasons = report.runs.map((run) => `${run.name}: ${run.evaluation.reason ?? "the evaluation has kept no examples; evaluate again"}`);
    place.append(el("p", { className: "absent", textContent: `No pictures. ${reasons.join(" · ")}` }));
    return;
  }
  look.run = withExamples.find((run) => report.runs[run].name === report.best) ?? withExamples[0];
  const stage = new View("stage", (x) => moveSplit(100 * x));
  const left = el("div", { className: "layer" });
  const right = el("div", { className: "layer" });
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
  const choices = { left: sideChoice("left"), right: sideChoice("right") };
  stage.element.append(right, left, handle, choices.left, choices.right);
  const strip = el("div", {
    className: "strip",
    attributes: { role: "listbox", "aria-label": "Frames" },
  });
  const caption = el("div", { className: "caption", attributes: { "aria-live": "polite" } });
  const panels = el("div", { className: "panels" });
  const together = el("div", { className: "together" }, stage.element, panels);
  const order = el("select", {}, ...report.orders.map((title) => el("option", { textContent: title })));
  order.addEventListener("change", fillStrip);
  let frames = [];
  let chosen = 0;
  const beside = kindsOf(withExamples).filter(({ is_beside }) => is_beside);
  const shown = new Set(beside.slice(0, SHOWN_PANELS).map(({ name }) => name));
  const toggles = el("span", { className: "bar" });
  const zoomText = el("output", { className: "zoom number" });
  views.add({ place: () => (zoomText.textContent = `${Math.round(100 * look.zoom)} %`) });

  function moveSplit(value) {
    look.split = clamp(value, 0, 100);
    left.style.clipPath = `inset(0 ${100 - look.split}% 0 0)`;
    handle.style.left = `${look.split}%`;
    const names = picturesOf(shownExample());
    const rounded = Math.round(look.split);
    handle.setAttribute("aria-valuenow", rounded);
    handle.setAttribute(
      "aria-valuetext",
      `${names.get(look.left).title} up to ${rounded} %, then ${names.get(look.right).title}`,
    );
  }

  handle.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    const pans = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const zooms = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 };
    if (event.shiftKey && event.key in pans) {
      panBy(...pans[event.key].map((step) => step / 10));
    } else if (event.key in steps) {
      moveSplit(look.split + steps[event.key]);
    } else if (event.key === "Home" || event.key === "End") {
      moveSplit(event.key === "Home" ? 0 : 100);
    } else if (event.key in zooms) {
      zoomTo(look.zoom * zooms[event.key], 0.5, 0.5);
    } else if (event.key === "0") {
      zoomTo(1, 0, 0);
    } else {
      return;
    }
    event.preventDefault();
  });

  function sideChoice(side) {
    const choice = el("select", { className: `side ${side}` });
    choice.setAttribute("aria-label", `Picture on the ${side}`);
    choice.addEventListener("change", () => {
      look[side] = choice.value;
      fillStage();
    });
    return choice;
  }

  function fillStage() {
    const example = shownExample();
    const pictures = picturesOf(example);
    for (const side of ["left", "right"]) {
      look[side] = pictures.has(look[side]) ? look[side] : galleryOf(look.run)[side];
      choices[side].replaceChildren(
        ...[...pictures].map(([name, picture]) =>
          el("option", { value: name, textContent: picture.title, selected: name === look[side] }),
        ),
      );
    }
    stage.images = [];
    for (const [layer, side] of [[left, look.left], [right, look.right]]) {
      const picture = pictures.get(side);
      layer.replaceChildren(stage.image(picture.address(), `${picture.title}: ${frameName(example)}`));
    }
    stage.images[0].addEventListener("load", (event) => {
      const { naturalWidth, naturalHeight } = event.target;
      place.style.setProperty("--ratio", naturalWidth / naturalHeight);
      keepInside();
    });
    moveSplit(look.split);
  }

  function fillPanels() {
    for (const view of views) {
      if (view.isPanel) {
        views.delete(view);
      }
    }
    const example = shownExample();
    const wanted = galleryOf(look.run).kinds.filter(({ name, is_beside }) => is_beside && name in example.pictures);
    toggles.replaceChildren(
      ...wanted.map(({ name, title }) => {
        const button = el("button", {
          type: "button",
          textContent: title,
          attributes: { "aria-pressed": shown.has(name) },
        });
        button.addEventListener("click", () => {
          if (!shown.delete(name)) {
            shown.add(name);
          }
          fillPanels();
          [...toggles.children].find((other) => other.textContent === button.textContent).focus();
        });
        return button;
      }),
    );
    together.classList.toggle("alone", !wanted.some(({ name }) => shown.has(name)));
    panels.replaceChildren(
      ...wanted.filter(({ name }) => shown.has(name)).map((kind) => {
        const view = new View("panel");
        view.isPanel = true;
        view.element.append(view.image(pictureAddress(example, kind.name), `${kind.title}: ${frameName(example)}`));
        const words = [kind.title, kind.top === null ? null : mapScale(kind.top)];
        return el("figure", {}, view.element, el("figcaption", {}, ...words.filter(Boolean)));
      }),
    );
    keepInside();
  }

  function fillCaption() {
    const example = shownExample();
    const metrics = report.runs[look.run].evaluation.metrics.filter((m) => m.columns[1] in example.metrics);
    const isTypical = metrics.length > 0 && look.example === ordered(look.run, "typical first")[0].index;
    caption.replaceChildren(
      el("div", { textContent: isTypical ? typicalName(example, metrics[0]) : frameName(example) }),
      el("dl", {}, ...metrics.map((metric) => valuesOf(example, metric))),
      ...(example.doubts ?? []).map((text) => el("div", { className: "loss", textContent: `In doubt: ${text}` })),
    );
  }

  /** Show the frame at a place of the strip. */
  function choose(at, focus = false) {
    chosen = at;
    look.example = frames[at].index;
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
    fillStage();
    fillPanels();
    fillCaption();
  }

  strip.addEventListener("keydown", (event) => {
    const last = strip.children.length - 1;
    const to = {
      ArrowRight: chosen + 1,
      ArrowDown: chosen + 1,
      ArrowLeft: chosen - 1,
      ArrowUp: chosen - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      choose(clamp(to, 0, last), true);
    }
  });

  function fillStrip() {
    frames = ordered(look.run, order.value);
    strip.replaceChildren(...frames.map(({ example }, at) => thumbnail(example, at)));
    choose(0);
  }

  function chooseRun(run) {
    look.run = run;
    look.example = 0;
    fillStrip();
  }

  function thumbnail(example, at) {
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
    thumb.addEventListener("click", () => choose(at));
    return thumb;
  }

  const bar = el("div", { className: "bar" });
  if (withExamples.length > 1) {
    const choice = el("select", {});
    choice.append(
      ...withExamples.map((run) => el("option", { value: run, textContent: report.runs[run].name })),
    );
    choice.value = look.run;
    choice.addEventListener("change", () => chooseRun(Number(choice.value)));
    bar.append(el("label", {}, report.words.model, choice));
  }
  bar.append(
    toggles,
    el("span", { className: "gap" }),
    zoomButton("−", "Zoom out", () => zoomTo(look.zoom / 1.5, 0.5, 0.5)),
    zoomText,
    zoomButton("+", "Zoom in", () => zoomTo(look.zoom * 1.5, 0.5, 0.5)),
    zoomButton("Whole", "Show the whole picture", () => zoomTo(1, 0, 0)),
  );
  place.append(
    el(
      "div",
      { className: "gallery" },
      el("div", {}, together, caption),
      el("div", { className: "thumbs" }, el("label", { className: "choice" }, "Frames", order), strip),
    ),
    bar,
    ...pictureNotes(),
  );
  chooseRun(look.run);
  new ResizeObserver(keepInside).observe(stage.element);
  showVideos(place);
}

function zoomButton(text, label, action) {
  const button = el("button", { type: "button", textContent: text });
  button.setAttribute("aria-label", label);
  button.addEventListener("click", action);
  return button;
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
