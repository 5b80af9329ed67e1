/* The page of the curves of a sweep or of seeds. */

document.querySelector("nav").remove(); // there is one section
showTraining();
document.documentElement.dataset.ready = "yes";
