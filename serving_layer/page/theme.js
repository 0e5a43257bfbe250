// Applies the theme that was chosen on this device before anything is painted; without a choice the system decides.
(() => {
  try {
    const kept = localStorage.getItem("braid-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // A browser may refuse to store anything: the system's theme is a good one too.
  }
})();
