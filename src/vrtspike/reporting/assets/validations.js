/* Pictures of validations: a slider over the steps of a training. */

/** The pictures of each validation of a run, by step. */
function validationSteps(run) {
  const steps = new Set(run.validation_pictures.map(({ step }) => step));
  return [...steps].map((step) => [step, run.validation_pictures.filter((picture) => picture.step === step)]);
}

/** The pictures of one run at a time; null where no training has kept any. */
function validationPictures() {
  const runs = report.runs.filter((run) => run.validation_pictures.length);
  if (!runs.length) {
    return null;
  }
  let steps = [];
  const slider = el("input", { type: "range", min: 0, step: 1, attributes: { "aria-label": "Validation" } });
  const label = el("output", { className: "number" });
  const place = el("div", { className: "maps" });

  function show() {
    const [step, pictures] = steps[slider.valueAsNumber];
    const text = `after step ${step}, ${slider.valueAsNumber + 1} of ${steps.length}`;
    label.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const images = pictures.map(({ name, data }) => el("img", { src: `data:image/webp;base64,${data}`, alt: `${name}, ${text}` }));
    place.replaceChildren(...images);
  }

  function choose(run) {
    steps = validationSteps(run);
    slider.max = steps.length - 1;
    slider.value = steps.length - 1;
    slider.disabled = steps.length < 2;
    show();
  }

  slider.addEventListener("input", show);
  const choice = select("Run", runs.map((run) => run.name), (name) => choose(runs.find((run) => run.name === name)));
  choose(runs[0]);
  return el(
    "div",
    { className: "validations" },
    el("h3", { textContent: "Validation pictures" }),
    el("div", { className: "bar" }, runs.length > 1 ? choice : null, slider, label),
    place,
  );
}
