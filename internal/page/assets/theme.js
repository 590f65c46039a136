// The chosen theme, set before anything is painted. Without a choice the system's theme applies.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is off: no choice is remembered.
}
