// The theme, before anything is drawn. Without a choice it is that of the system.
"use strict";
(function () {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function stored() {
    try { return localStorage.getItem("laneway-theme") || "system"; } catch { return "system"; }
  }
  function apply() {
    const theme = stored();
    const isDark = theme === "dark" || (theme === "system" && dark.matches);
    document.documentElement.classList.toggle("pf-v6-theme-dark", isDark);
    for (const button of document.querySelectorAll("[data-theme]"))
      button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
  }
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  document.addEventListener("htmx:afterSettle", apply);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme]");
    if (!button) return;
    try { localStorage.setItem("laneway-theme", button.dataset.theme); } catch { /* for this page only */ }
    apply();
  });
  apply();
})();
