// Runs before the first paint: the theme that was chosen, else (without the attribute) the system's.
(function () {
  var kept = null;
  try { kept = localStorage.getItem("everwhen.theme"); } catch (e) { /* storage may be off */ }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
