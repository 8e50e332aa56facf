// Before the first paint: the theme that was chosen last, if one was.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's theme */ }
